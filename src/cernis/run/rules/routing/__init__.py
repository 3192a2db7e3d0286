"""Which events can move which rules: indexes over types, constants and texts."""

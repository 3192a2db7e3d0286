"""The streams that rules read, given or made by other rules, and how rules run on them."""

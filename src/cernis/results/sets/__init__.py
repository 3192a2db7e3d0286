"""Match sets: what the engines find, as blocks of positions."""

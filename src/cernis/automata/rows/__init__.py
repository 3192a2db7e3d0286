"""Automata of SQL's row patterns, whose transitions are in an order of preference."""

"""Rules that share an engine, and their sessions."""

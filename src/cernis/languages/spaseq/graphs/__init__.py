"""SPARQL graph patterns, as plain data and as text."""

"""Files, pipes and rows of Python as pieces of tables."""

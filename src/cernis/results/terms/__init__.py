"""The values of SELECT, for blocks of matches at once."""

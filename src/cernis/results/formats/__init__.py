"""Matches and groups as Arrow columns, lines of JSON, flat columns and frames."""

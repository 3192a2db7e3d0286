"""MATCH_RECOGNIZE in this process: rows to the matcher, and statements on DuckDB."""

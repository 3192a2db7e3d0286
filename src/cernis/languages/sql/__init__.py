"""SQL with MATCH_RECOGNIZE: statements, the clause, and its row pattern.

A SQL library (sqlglot, the extra `sql`) reads and writes everything but the clause's own frame and
its PATTERN, which no dialect of that library reads in full.
"""

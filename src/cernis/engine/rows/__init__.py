"""The matcher of SQL's row patterns."""

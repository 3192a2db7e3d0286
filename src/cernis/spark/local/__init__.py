"""Spark on this machine: `session` starts one, `java` finds a Java for it."""

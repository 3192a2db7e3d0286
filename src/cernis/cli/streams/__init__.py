"""`cernis stream`: what it reads, where it writes, and the runs on Spark and in one process."""

"""The command line: `cernis run`, `explain`, `check`, `demo`, `bench`."""

"""The command line: `cernis run`, `explain`, `check`, `stream`, `demo`, `bench`."""

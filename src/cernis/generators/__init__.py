"""Generated streams for the tour, the benchmarks and the tests."""

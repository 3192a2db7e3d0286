"""Run a plan on events: `query` is what users hold, `session` reads a stream that goes on,
`pipeline` takes its batches, `sieve` checks candidates one by one where the plan says so."""

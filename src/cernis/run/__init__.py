"""Running a plan on events: `query` is what users hold, `session` a stream that goes on,
`listed` checks candidates one by one where the plan says so."""

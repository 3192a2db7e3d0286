"""WITHOUT: `decide` stands between finding matches and reporting them; `following` waits for the
deadlines of FOR, `preceding` looks back for BEFORE. Both run a guard (`guard`) beside the match."""

"""Many rules over the same events, in one pass: `rule_set` is what users hold, `session` runs it.

The way of the data: `rule` reads rules, and `shared_rules` finds those that share an engine
(`group`) and compares rules that change. `running` has a session for each rule and each group, and
`prepare` checks them against the columns of the events. `read_chunk` joins the input to chunks and
lets the rules read them: each the events that can move it (`routing`), together with those that
other rules derive (`derived`, `pending`). `explain` says how rules share the work, and `freeze`
makes bytes of a session.
"""

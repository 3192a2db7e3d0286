"""Many rules over the same events, in one pass: `rule_set` is what users hold, `session` runs it.

The way of the data: `rule` reads rules, and `shared_rules` finds those that share an engine
(`families`, `bundles`). `open_sessions` opens a session for each rule, family and bundle
(`running_rule`), and `prepare` checks them against the columns of the events. `chunks` joins the
input to chunks, `running_rules` sends the events of a chunk to the rules that they can move
(`routing`), and `read_chunk` lets the rules read them, together with the events that other rules
derive (`derived`, `pending`). `changes` compares rules that are added, replaced and removed,
`measure` has the numbers of each rule, `explain` says how rules share the work, and `freeze` makes
bytes of a session.
"""

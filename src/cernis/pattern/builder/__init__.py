"""Build patterns without text: functions and operators that make the nodes of a `Pattern`.

A built pattern equals the one that the parser makes of the same query's text. Formulas combine with
`>>` (some time later), `|` (either) and `&` (in any order), or by the named functions;
predicates and conditions combine with `&`, `|` and `~`. A chain of one operator is one
node, as in the text; a group in parentheses on the right, or made by a named function,
stays a group.

>>> import cernis.pattern as p
>>> sell = p.event("SELL").as_("a").where(p.attr("price") > 100)
>>> print(p.select().from_("S").where(sell >> p.event("BUY")).within(minutes=5).build())
SELECT * FROM S WHERE (SELL AS a FILTER a[price > 100]) ; BUY WITHIN 5 MINUTES
"""

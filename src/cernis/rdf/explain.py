"""Explain in words how a SPAseQ query runs and what it costs."""

from __future__ import annotations

from cernis.automata.linked.automaton import Alternative, Linked, describe
from cernis.pattern import graph as g
from cernis.pattern.spaseq import SpaseqQuery


class GraphExplanation:
    """An explanation of a query; `str` gives it as text."""

    def __init__(self, query: SpaseqQuery, linked: Linked) -> None:
        self.query, self.linked = query, linked

    @property
    def key(self) -> tuple[str, ...]:
        """The variables that all events of a match share, by which a stream can be partitioned."""
        return find_common_key(self.query, self.linked)

    def __str__(self) -> str:
        lines = [f"query        {_join_lines(str(self.query))}"]
        lines.append(f"class        {self._describe_class()}")
        lines += [
            f"{'reason' if i == 0 else '':12} {why}" for i, why in enumerate(self._list_reasons())
        ]
        lines.append(f"spread by    {self._describe_key()}")
        lines.append("automaton    " + describe(self.linked).replace("\n", "\n             "))
        return "\n".join(lines)

    def _describe_key(self) -> str:
        if self.key:
            return ", ".join(f"?{name}" for name in self.key)
        strict = any("," in (step.link, step.rounds) for step in self.query.steps)
        if strict and not self.query.partition:
            return "nothing: ',' counts the timestamps of all streams; PARTITION BY gives a key"
        return "nothing: no variable is in every pattern"

    def _describe_class(self) -> str:
        linked = self.linked
        stored = [(t.store, t.reading) for t in linked.transitions if t.store is not None]
        stored += [(guard.store, guard.reading) for guard in linked.guards]
        asked = [
            (linked.alternatives[linked.readings[reading].alternative], linked.stores[store].link)
            for store, reading in stored
            if linked.conditions(reading)
        ]
        if asked and all(link != "," and _compares_in_order(one) for one, link in asked):
            return "ordered: runs wait in the order of a value, and only those that fit are met"
        if asked:
            return "residual: conditions on earlier variables are checked group by group"
        moves = [t for t in linked.transitions if t.store is not None]
        if any(linked.stores[t.store or 0].kept != t.joins for t in moves):
            return "linked: runs that agree on their live variables move at once, each such group"
        return "linked: all runs of a join key move at once, in constant time"

    def _list_reasons(self) -> list[str]:
        reasons = []
        for store in self.linked.stores:
            step = self.query.steps[store.step]
            kept = ", ".join(f"?{name}" for name in store.kept) or "nothing"
            names = " | ".join(
                " & ".join(one.gpms) for one in self.linked.alternatives if one.step == store.step
            )
            words = {",": "the next timestamp", ";": "the first that fits", ":": "any later one"}
            before = self.linked.states[store.state].step
            again = ", again" if step.rounds and before == store.step else ""
            reasons.append(f"waiting for {names}{again} ({words[store.link]}): grouped by {kept}")
        return list(dict.fromkeys(reasons)) or ["one step: nothing waits"]

    def mermaid(self) -> str:
        """Return the automaton as a Mermaid diagram."""
        lines = ["stateDiagram-v2"]
        for t in self.linked.transitions:
            source, link = "[*]", ""
            if t.store is not None:
                store = self.linked.stores[t.store]
                source, link = f"q{store.state}", f"{store.link} "
            one = self.linked.alternatives[self.linked.readings[t.reading].alternative]
            lines.append(f"    {source} --> q{t.target} : {link}{' & '.join(one.gpms)}")
            if t.final:
                lines.append(f"    q{t.target} --> [*]")
        return "\n".join(dict.fromkeys(lines))


def find_common_key(query: SpaseqQuery, linked: Linked) -> tuple[str, ...]:
    """Return the variables that every graph pattern always binds and all events of a match share.

    Solutions with different values of these never meet in a match. Where the next timestamp counts
    (`,`), it is the next of the whole streamset or of a partition: then only the variables of
    PARTITION BY are left.
    """
    strict = any("," in (step.link, step.rounds) for step in query.steps)
    used = {name for one in linked.alternatives for name in one.gpms}
    common = set(linked.columns).difference(*linked.local)
    for name in used:
        common &= set(g.find_certain_variables(query.gpm(name).pattern))
    if strict:
        common &= set(query.partition)
    return tuple(name for name in linked.columns if name in common)


def _compares_in_order(one: Alternative) -> bool:
    """Whether its only condition orders its own variables and one of earlier steps."""
    if len(one.late) != 1 or not isinstance(one.late[0], g.ComparisonExpression):
        return False
    condition, own = one.late[0], set(one.names)
    if condition.op in ("=", "!="):
        return False
    for here, there in ((condition.left, condition.right), (condition.right, condition.left)):
        known = {variable.name for variable in g.find_mentions(here)}
        if isinstance(there, g.GraphVariable) and there.name not in own and known and known <= own:
            return True
    return False


def _join_lines(text: str) -> str:
    return " ".join(text.split())

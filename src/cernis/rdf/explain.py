"""What a SPAseQ query will do and cost, in words."""

from __future__ import annotations

from cernis.automata.linked import Linked, describe
from cernis.pattern import graph as g
from cernis.pattern.spaseq import SpaseqQuery


class GraphExplanation:
    """`str` of it is a page of text."""

    def __init__(self, query: SpaseqQuery, linked: Linked) -> None:
        self.query, self.linked = query, linked

    @property
    def key(self) -> tuple[str, ...]:
        """The variables that all events of a match share: what to spread a stream by."""
        return common_key(self.query, self.linked)

    def __str__(self) -> str:
        lines = [f"query        {_one_line(str(self.query))}"]
        lines.append(f"class        {self._class()}")
        lines += [f"{'reason' if i == 0 else '':12} {why}" for i, why in enumerate(self._reasons())]
        key = ", ".join(f"?{name}" for name in self.key)
        lines.append(f"spread by    {key or 'nothing: no variable is in every pattern'}")
        lines.append("automaton    " + describe(self.linked).replace("\n", "\n             "))
        return "\n".join(lines)

    def _late(self) -> list[g.Expression]:
        return [condition for one in self.linked.alternatives for condition in one.late]

    def _class(self) -> str:
        if self._late():
            return "residual: conditions on earlier variables are checked group by group"
        moves = [t for t in self.linked.transitions if t.store is not None]
        if any(self.linked.stores[t.store or 0].kept != t.joins for t in moves):
            return "linked: runs that agree on their live variables move at once, each such group"
        return "linked: all runs of a join key move at once, in constant time"

    def _reasons(self) -> list[str]:
        reasons = []
        for store in self.linked.stores:
            step = self.query.steps[store.step]
            kept = ", ".join(f"?{name}" for name in store.kept) or "nothing"
            names = " | ".join(
                " & ".join(one.gpms) for one in self.linked.alternatives if one.step == store.step
            )
            words = {",": "the next timestamp", ";": "the first that fits", ":": "any later one"}
            again = ", again" if step.rounds and store.state == store.step else ""
            reasons.append(f"waiting for {names}{again} ({words[store.link]}): grouped by {kept}")
        return list(dict.fromkeys(reasons)) or ["one step: nothing waits"]

    def mermaid(self) -> str:
        """The automaton as a diagram."""
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


def common_key(query: SpaseqQuery, linked: Linked) -> tuple[str, ...]:
    """The variables that every alternative of every step binds for certain and shares."""
    if any(step.link == "," or step.rounds == "," for step in query.steps) and not query.partition:
        return ()  # the next timestamp is one of the whole streamset
    common: set[str] | None = None
    for one in linked.alternatives:
        own = set(one.certain) - set(linked.local[one.step])
        common = own if common is None else common & own
    return tuple(name for name in linked.columns if name in (common or set()))


def _one_line(text: str) -> str:
    return " ".join(text.split())

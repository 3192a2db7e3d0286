"""`RuleSet`: many rules over the same events, in one pass.

Events are opened, ordered and merged once for all rules. A `Router` sends each event to the rules
that it can move; rules that must see every event share the batches, and the codes of equal
predicates. All rules share the classes of the values that equal predicates tell apart. Rules may
also share an engine (`shared_rules`).

Cost contract: that of `session`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from cernis.cycles import make_lasting
from cernis.errors import BudgetError, CernisError
from cernis.run.metrics import SessionMetrics
from cernis.run.query import Query
from cernis.run.rules.explain import list_costly, list_silent, list_work
from cernis.run.rules.reading.prepare import note_missing, note_refused
from cernis.run.rules.rule import read_rules, sift_rules
from cernis.run.rules.session import RuleSession
from cernis.run.rules.shared.shared_rules import SharedRules
from cernis.run.session import RunOptions
from cernis.signature import Secret, open_state


class RuleSet(SharedRules):
    """Rules that run over the same events.

    >>> two = RuleSet.of({"buys": "SELECT * WHERE BUY", "sells": "SELECT * WHERE SELL"})
    >>> {name: found.count() for name, found in two.run([{"type": "BUY"}]).items()}
    {'buys': 1, 'sells': 0}
    """

    @classmethod
    def of(cls, source: Any, on_bad_rule: str = "fail") -> RuleSet:
        """Read rules: a text, a file, a folder, texts in a list, or queries by name.

        All mistakes of all rules are raised together. With `on_bad_rule="skip"`, rules that are
        wrong or do not fit the events are left out, and notes say so.
        """
        if on_bad_rule not in ("fail", "skip"):
            raise CernisError(f"on_bad_rule={on_bad_rule!r}: expected 'fail' or 'skip'")
        with make_lasting():
            if on_bad_rule == "fail":
                return cls(read_rules(source))
            rules, refused = sift_rules(source)
        return cls(rules, refused, skips=True)

    def __getitem__(self, name: str) -> Query[Any]:
        for rule in self.rules:
            if rule.name == name:
                return rule.query
        raise KeyError(name)

    def run(self, events: Any, **options: Any) -> Mapping[str, Any]:
        """Return what each rule finds in the events; the options are those of `Query.run`."""
        return RuleSession(self, RunOptions(**options)).collect(events)

    def follow(self, source: Any, **options: Any) -> Any:
        """Return the matches in inputs that grow, as they are certain: `cernis.follow`."""
        return import_module("cernis.live.follow").follow(self, source, **options)

    def session(self, **options: Any) -> RuleSession:
        """Return a session to push events to, for all rules."""
        return RuleSession(self, RunOptions(**options))

    def thaw(self, frozen: bytes, *, secret: Secret = None, **options: Any) -> RuleSession:
        """Return the session that `RuleSession.freeze` turned into bytes.

        The options are those of `Query.thaw`. The rules are those of the session that was frozen;
        `update` goes on with others.
        """
        return RuleSession.thaw(self, open_state(frozen, secret), RunOptions(**options))

    def explain(self, events: Any = None, **options: Any) -> str:
        """Return how the rules share the work, and which of them cost most.

        With events (the options are those of `run`), also which rules find nothing in them, and
        notes on those that are left out or name columns that the events lack.
        """
        lines = [*list_work(self)]
        if events is not None:
            session = self.session(**options)
            found = session.collect(events)
            matches = {name: _count(own) for name, own in found.items()}
            silent = [*session.list_silent(found)]
            lines += self.explain_run(session.metrics(), matches, silent)
            notes = [*note_refused(session.rules.refused), *note_missing(session.missing)]
            lines += (f"note         {note}".replace("\n", "\n" + 13 * " ") for note in notes)
        return "\n".join(lines)

    def explain_run(
        self,
        numbers: Mapping[str, SessionMetrics],
        matches: Mapping[str, int | None],
        silent: Sequence[tuple[str, str]],
    ) -> Iterator[str]:
        """Yield the rules that took most of the time in a run, and those that found nothing."""
        yield from list_costly(self, numbers, matches)
        yield from list_silent(silent)


def _count(found: Any) -> int | None:
    """Return the number of matches; None: it would take too many candidates."""
    try:
        return int(found.count())
    except BudgetError:
        return None

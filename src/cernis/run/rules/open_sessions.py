"""`SessionOpener`: open the sessions of rules, families and bundles, which share encoders.

Cost contract: rules that ask the same atoms encode a batch that they share once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from cernis.encoding.encode import AtomEncoder, Encoder, KnownGroups
from cernis.events.batch import EventBatch, Int32s
from cernis.pattern.atom import Atom
from cernis.run.query import Query
from cernis.run.rules.bundle_session import BundleSession
from cernis.run.rules.bundles import Bundle
from cernis.run.rules.families import Family
from cernis.run.rules.rule import Rule
from cernis.run.rules.running_rule import RunningRule
from cernis.run.session import RunOptions, Session


class SessionOpener:
    """Opens the sessions of rules."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.encoders = _SharedEncoders(options.type_column)

    def open(self, query: Query[Any]) -> Session[Any]:
        """Return a session of a query."""
        return Session(query.plan, self.options, encode=self.encoders.get)

    def start(
        self,
        rules: Sequence[Rule],
        families: Sequence[Family | Bundle],
        kept: Sequence[RunningRule],
    ) -> list[RunningRule]:
        """Return all rules, families and bundles at work.

        Those that are `kept` go on with their sessions, and the others get new ones.
        """
        by_whole = {each.family.whole: each for each in kept if each.family is not None}
        by_name = {each.rules[0].name: each for each in kept if each.family is None}
        members = {rule.name: family for family in families for rule in family.rules}
        running: list[RunningRule] = []
        made: set[Family | Bundle] = set()
        for number, rule in enumerate(rules):
            family = members.get(rule.name)
            if family is None:
                own = by_name.get(rule.name) or RunningRule((rule,), self.open(rule.query))
                running.append(replace(own, rules=(rule,), number=number))
            elif family not in made:
                made.add(family)
                before = by_whole.get(family.whole)
                if before is None:
                    session = self._open_family(family)
                    running.append(RunningRule(family.rules, session, family, number))
                else:
                    running.append(before.change_family(family, number))
        return running

    def _open_family(self, family: Family | Bundle) -> Session[Any]:
        if isinstance(family, Bundle):
            return BundleSession(family, self.options)
        return self.open(family.whole)

    def thaw(self, running: RunningRule, frozen: bytes) -> None:
        """Give a rule, a family or a bundle the session that was frozen."""
        if isinstance(running.family, Bundle):
            bundled = BundleSession.thaw_bundle(running.family, frozen, self.options)
            running.session, running.family = bundled, bundled.bundle
        else:
            plan, encode = running.session.plan, self.encoders.get
            running.session = Session[Any].thaw(plan, frozen, self.options, encode=encode)


class _SharedEncoder(AtomEncoder):
    """An encoder of several rules: it encodes a batch that they share once."""

    def __init__(self, atoms: Sequence[Atom], type_column: str, known: KnownGroups) -> None:
        super().__init__(atoms, type_column, known)
        self._last: tuple[EventBatch, Int32s] | None = None

    def encode(self, batch: EventBatch) -> Int32s:
        if self._last is not None:
            known, codes = self._last
            if known.parts is batch.parts and known.index is batch.index:
                return codes
        codes = super().encode(batch)
        self._last = (batch, codes)
        return codes

    def forget_batch(self) -> None:
        """Drop the last batch: no other rule reads it."""
        self._last = None


class _SharedEncoders:
    """One encoder for all rules that ask the same atoms.

    A rule that is removed takes its own along. The sessions of the rules know this object and
    not the session of the rule set, which would then hold itself.
    """

    def __init__(self, type_column: str) -> None:
        self._type_column = type_column
        self._known: WeakValueDictionary[tuple[Atom, ...], _SharedEncoder] = WeakValueDictionary()
        self._groups: KnownGroups = WeakValueDictionary()

    def get(self, atoms: Sequence[Atom]) -> Encoder:
        """Return the encoder of these atoms."""
        key = tuple(atoms)
        encoder = self._known.get(key)
        if encoder is None:
            encoder = self._known[key] = _SharedEncoder(key, self._type_column, self._groups)
        return encoder

    def forget_batch(self) -> None:
        """Drop the batch that was encoded last."""
        for encoder in self._known.values():
            encoder.forget_batch()

"""`LinkedFeed`: solutions to compact match sets: rows, the linked engine, and the store of rows.

Cost: memory of a run that calls `forget_if_due` is bounded by the window: rows that no partial
match reaches and terms that are in no state are dropped whenever their number has doubled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.keys import select_arrays
from cernis.engine.dag.links import DagSegment
from cernis.engine.graphs.expressions import new_stack
from cernis.engine.linked.freeze import Extent, ThawedTerms, freeze_linked, thaw_linked
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.tables import tables_of
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import SelectedExpression
from cernis.plan.linked import LinkedPlan
from cernis.rdf.reading.terms import UNBOUND, CodeHolder, Codes
from cernis.rdf.reading.times import parse_time
from cernis.rdf.solving.answers import AnsweredConditions
from cernis.rdf.solving.computed import check_expression
from cernis.rdf.solving.row_store import RowStore
from cernis.rdf.solving.rows import RowBuilder, TimeWindow
from cernis.rdf.solving.solutions import SolvedBatch
from cernis.rdf.solving.terms.programs import compile_expression
from cernis.rdf.solving.terms.values import TermValues
from cernis.results.sets.linked import LinkedMatches
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    flag,
    frozen_record,
    number,
    part,
    read,
    require,
    write,
)

_MANY_ROWS, _MANY_TERMS = 1 << 18, 1 << 20
_ROWS = ("rows",)


@frozen_record
class FrozenFeed:
    """How far a feed has come."""

    engine: Tree = part()
    rows: int = number(0, MOST_EVENTS)
    events: int = number(0, MOST_EVENTS)
    moments: int = number(0, MOST_EVENTS)
    merges: bool = flag()
    keys: Codes = array(np.int32, "keys", "partition", low=-1, below="terms")
    """The terms of each partition's key."""

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if the engine has read other rows."""
        is_same = self.engine.get("position") == self.rows
        require(is_same, "its rows are not those of its engine")


class LinkedFeed:
    """The linked engine of a query, and the rows of solutions that it reads.

    The terms in `values` so far are the query's own and are never dropped.
    """

    def __init__(
        self, plan: LinkedPlan, values: TermValues, unit: str, *, keep: bool = False
    ) -> None:
        """`keep` the compact sets, for `pull`."""
        query, linked = plan.query, plan.linked
        self.linked, self.values, self.terms = linked, values, values.terms
        self.many_rows, self.many_terms = _MANY_ROWS, _MANY_TERMS
        """The numbers of rows and terms up to which `forget_if_due` keeps all."""
        origin = query.tumbling_from
        if origin is not None:
            origin = parse_time(origin, unit, "TUMBLING FROM")
        self.builder = RowBuilder(plan, values, TimeWindow(query.within, origin))
        self.answered = AnsweredConditions(values, query.source)
        depth = [1]

        def compile_condition(
            condition: g.Expression, row: dict[str, int], kept: dict[str, int]
        ) -> NDArray[np.int32]:
            if self.answered.takes(condition):
                return self.answered.add(condition, row, kept).steps
            program = compile_expression(condition, row, kept, values, query.source)
            depth[0] = max(depth[0], program.depth)
            return program.steps

        tables = tables_of(linked, compile_condition)
        self.stack = new_stack(depth[0])
        self.engine = LinkedEngine(tables, len(linked.columns), partitioned=bool(query.partition))
        for one in query.select or ():
            if isinstance(one, SelectedExpression):
                check_expression(one.expression, query.source)
        self.store = RowStore()
        self._streams = len(query.streams)
        self._kept: list[DagSegment] | None = [] if keep else None
        self._now = 0
        """The time of the last event that was read."""
        self._rows_left = self._terms_left = 0
        self._own_terms = len(self.terms)

    def take(self, batch: SolvedBatch) -> list[DagSegment]:
        """Read a batch; return the compact sets of its matches. The triples are not read."""
        events, found, versions = batch
        first = self.builder.events
        rows, stored = self.builder.build(events, found)
        self.store.add(stored, events, first, versions)
        parts = max(len(self.builder.parts), 1)
        self.answered.begin()
        values = self.values.update()
        taken = self.engine.push(rows, values, self.stack, parts, self.answered.fill)
        self._now = int(events.times[-1]) if events.size else self._now
        if self._kept is not None:
            self._kept += taken
        return taken

    def find(self, segments: Sequence[DagSegment]) -> LinkedMatches:
        """Return the matches in compact sets: the numbers of their rows."""
        labels = [frozenset(_ROWS)] * len(self.linked.alternatives)
        return LinkedMatches(_ROWS, segments, labels)

    # ------------------------------------------------------------------- kept

    def pull(self) -> list[DagSegment]:
        """Return the compact sets so far, bounded by the window that ends now."""
        bound, kept = self._find_bound(), []
        for links, dag, roots in self._kept or ():
            inside = roots[dag.vertices["start"][roots["vertex"]] >= bound]
            if len(inside):
                inside["bound"] = np.maximum(inside["bound"], bound)
                kept.append(DagSegment(links, dag, inside))
        self._kept = kept
        return kept

    def _find_bound(self) -> int:
        """Return the earliest start inside the window that ends now."""
        return int(self.builder.window.bounds(np.array([self._now], np.int64))[0])

    # -------------------------------------------------------------- forgetting

    def forget_if_due(self, source: CodeHolder) -> None:
        """Drop the rows and terms that neither partial matches nor the source need, if many."""
        many_rows = self.store.size > max(self.many_rows, 2 * self._rows_left)
        many_terms = len(self.terms) > max(self.many_terms, 2 * self._terms_left)
        if many_rows or many_terms:
            self.store = self.store.copy(self._find_earliest_row())
            self._rows_left = self.store.size
        if many_terms:
            self._forget_terms(source)
            self._terms_left = len(self.terms)

    def _find_earliest_row(self) -> int:
        """Return the number of the earliest row that a match to come or to pull has."""
        first = self.engine.earliest()
        if self._kept is None:
            return first
        self.pull()
        return min(first, self.store.find_row(self._find_bound()))

    def _forget_terms(self, source: CodeHolder) -> None:
        """Drop the terms that are in no state; the others get new codes."""
        parts = self.engine.live_keys()
        number_of = {number: i for i, number in enumerate(parts.tolist())}
        keys = {key: number_of[n] for key, n in self.builder.parts.items() if n in number_of}
        held = (self.engine.live_codes(), *self.store.codes(), np.array(list(keys), np.int32))
        new_codes = self.values.keep_terms(self._own_terms, (*held, *source.codes()))
        self.engine.keep_keys(parts)
        self.engine.recode(new_codes)
        self.builder.parts = {tuple(new_codes[list(key)].tolist()): n for key, n in keys.items()}
        self.store = self.store.recode(new_codes)
        source.recode(new_codes)

    # ----------------------------------------------------------------- frozen

    def freeze(self, *, live: bool) -> Tree:
        """Return the engine's state, the rows that a match can still reach, and the partitions.

        `live`: events were solved with several versions of a background.
        """
        builder = self.builder
        engine = freeze_linked(self.engine)
        stored = self.store.freeze(self.engine.earliest(), live=live)
        keys = {number: key for key, number in builder.parts.items()}
        held = self.engine.live_keys().tolist() if builder.partition else []
        named = np.array([keys[number] for number in held], np.int32)
        own = FrozenFeed(
            engine,
            builder.rows,
            builder.events,
            builder.moments,
            builder.likeness.merges,
            named.reshape(len(held), len(builder.partition)),
        )
        return write(own) | {f"rows.{name}": column for name, column in stored.items()}

    def thaw(self, tree: Tree, codes: Codes, versions: int) -> None:
        """Put a new feed into the state that was frozen.

        Its terms have these codes, its events so many versions of the background.
        """
        builder, sizes = self.builder, {"terms": len(codes)}
        frozen = read(FrozenFeed, tree, partition=len(builder.partition), **sizes)
        store = RowStore.thaw(
            select_arrays("rows.", tree),
            read=frozen.rows,
            events=frozen.events,
            columns=len(self.linked.columns),
            alternatives=len(self.linked.alternatives),
            patterns=builder.width,
            streams=self._streams,
            backgrounds=versions,
            **sizes,
        )
        facts = self.values.update().facts
        first = frozen.rows if store.first_row is None else store.first_row
        extent = Extent(frozen.moments, len(frozen.keys), first)
        thaw_linked(self.engine, frozen.engine, ThawedTerms(codes, facts), extent)
        self.store = store.recode(codes)
        moved = np.append(codes, np.int32(UNBOUND))[frozen.keys]
        builder.parts = {tuple(key): i for i, key in enumerate(moved.tolist())}
        require(len(builder.parts) == len(moved), "a partition comes twice")
        builder.rows, builder.events, builder.moments = frozen.rows, frozen.events, frozen.moments
        builder.likeness.merges = frozen.merges

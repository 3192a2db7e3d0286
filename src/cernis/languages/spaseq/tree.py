"""From the rules of the grammar to a query as it is written, with its names not resolved.

One method for each rule, on top of those for graph patterns (`groups.py`). Sequences are lists
of steps all the way down: a name is a list of one, and parentheses around several steps in a
sequence add nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from cernis.errors import Span
from cernis.languages.spaseq import query as q
from cernis.languages.spaseq.graphs.graph import GraphPattern, GraphVariable, Term, TripleTemplate
from cernis.languages.spaseq.graphs.paths import Statement
from cernis.languages.spaseq.groups import GraphPatternReader, WrittenGroup
from cernis.languages.spaseq.terms import XSD
from cernis.languages.text.tokens import MOST_DIGITS, Name, Token, span_of

_LARGEST_TIME = 2**63 - 1
_TIMESTAMP = re.compile(
    r'"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?'
    r'(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"'
)
_DATE_TIME = f"^^<{XSD}dateTime>"
_DEFAULT = ""
"""The link between rounds where none is written, until the whole sequence is known."""


class WrittenItem(NamedTuple):
    """One thing after SELECT."""

    selected: q.SelectedVariable | q.SelectedExpression
    span: Span


class WrittenStream(NamedTuple):
    name: Name
    iri: str


class WrittenGpm(NamedTuple):
    name: Name
    streams: tuple[Name, ...]
    group: WrittenGroup
    """Its own filters may mention what earlier steps bind; those further inside may not."""

    @property
    def pattern(self) -> GraphPattern:
        return self.group.whole


class WrittenSpaseqQuery(NamedTuple):
    select: tuple[WrittenItem, ...] | None
    distinct: bool
    construct: tuple[TripleTemplate, ...] | None
    streams: tuple[WrittenStream, ...]
    gpms: tuple[WrittenGpm, ...]
    steps: tuple[q.SequenceStep, ...]
    """None at all: there is no SEQ, and that has been noted."""
    within: int | None
    tumbling_from: int | str | None
    partition: tuple[GraphVariable, ...]


class _SelectClause(NamedTuple):
    items: tuple[WrittenItem, ...] | None
    distinct: bool


class _ConstructClause(NamedTuple):
    triples: tuple[TripleTemplate, ...]


class _WindowClause(NamedTuple):
    size: int
    start: int | str | None
    span: Span


class _PartitionClause(NamedTuple):
    variables: tuple[GraphVariable, ...]
    span: Span


class _SequenceClause(NamedTuple):
    steps: tuple[q.SequenceStep, ...]
    span: Span


class _Modifier(NamedTuple):
    sign: str
    link: q.Separator | None
    span: Span


def _is_plain(steps: list[q.SequenceStep]) -> bool:
    """Whether this is an element of one timestamp and nothing else."""
    step = steps[0]
    return len(steps) == 1 and step.rounds is None and not step.optional and not step.negated


def _span_of_steps(steps: list[q.SequenceStep]) -> Span:
    return cast(Span, steps[0].span).to(cast(Span, steps[-1].span))


class SpaseqReader(GraphPatternReader):
    """Reads one text; `mistakes` holds what was wrong with it."""

    # ---------------------------------------------------------------------- query

    def spaseq(self, span: Span, parts: list[Any]) -> WrittenSpaseqQuery:
        form, clauses = parts[1], parts[2:]
        streams = tuple(part for part in clauses if isinstance(part, WrittenStream))
        gpms = tuple(part for part in clauses if isinstance(part, WrittenGpm))
        seq: _SequenceClause | None = self._take_one(_SequenceClause, "SEQ", clauses)
        window: _WindowClause | None = self._take_one(_WindowClause, "WITHIN", clauses)
        partition: _PartitionClause | None = self._take_one(
            _PartitionClause, "PARTITION BY", clauses
        )
        end = Span(span.end - 1, span.end)
        if not streams:
            self.mistakes.note("no stream is read", end, expected="FROM STREAM S <http://…>")
        if seq is None:
            self.mistakes.note("the query has no sequence", end, expected="SEQ (A ; B)")
        return WrittenSpaseqQuery(
            select=form.items if isinstance(form, _SelectClause) else None,
            distinct=isinstance(form, _SelectClause) and form.distinct,
            construct=form.triples if isinstance(form, _ConstructClause) else None,
            streams=streams,
            gpms=gpms,
            steps=seq.steps if seq else (),
            within=window.size if window else None,
            tumbling_from=window.start if window else None,
            partition=partition.variables if partition else (),
        )

    def _take_one(self, kind: type[Any], clause: str, parts: list[Any]) -> Any:
        found = [part for part in parts if isinstance(part, kind)]
        for again in found[1:]:
            self.mistakes.note(f"a query has one {clause}", again.span)
        return found[0] if found else None

    # -------------------------------------------------------------------- clauses

    def select(self, span: Span, parts: list[Any]) -> _SelectClause:
        items = [part for part in parts if not isinstance(part, Token)]
        return _SelectClause(
            None if items == [None] else tuple(items), distinct=len(items) < len(parts)
        )

    def everything(self, span: Span, parts: list[Any]) -> None:
        return None

    def selected(self, span: Span, parts: list[Token]) -> WrittenItem:
        name = parts[0].value[1:]
        return WrittenItem(q.SelectedVariable(name, name), span_of(parts[0]))

    def listed(self, span: Span, parts: list[Token]) -> WrittenItem:
        name = parts[0].value[1:]
        return WrittenItem(q.SelectedVariable(name, name, listed=True), span)

    def renamed(self, span: Span, parts: list[Any]) -> WrittenItem:
        item, name = parts[0], parts[1].value[1:]
        if isinstance(item, WrittenItem):
            assert isinstance(item.selected, q.SelectedVariable)
            return WrittenItem(replace(item.selected, name=name), span)
        if isinstance(item, GraphVariable):
            return WrittenItem(q.SelectedVariable(item.name, name), span)
        return WrittenItem(q.SelectedExpression(item, name), span)

    def construct(self, span: Span, parts: list[list[Statement]]) -> _ConstructClause:
        # paths have been noted as mistakes
        templates = (one for part in parts for one in part if isinstance(one, TripleTemplate))
        return _ConstructClause(tuple(templates))

    def from_stream(self, span: Span, parts: list[Any]) -> WrittenStream:
        return WrittenStream(self._make_name(parts[0]), parts[1].text[1:-1])

    def partition(self, span: Span, parts: list[Token]) -> _PartitionClause:
        variables = tuple(
            GraphVariable(token.value[1:], span_of(token)) for token in parts if token.type == "VAR"
        )
        return _PartitionClause(variables, span)

    def within(self, span: Span, parts: list[Any]) -> _WindowClause:
        size, start = parts[0], parts[1] if len(parts) > 1 else None
        if start is not None and size == 0:
            self.mistakes.note("tumbling windows need a length", span)
        return _WindowClause(size, start, span)

    def duration(self, span: Span, parts: list[Token]) -> int:
        whole = self._read_nanoseconds(parts)
        if whole > _LARGEST_TIME:
            self.mistakes.note("the time is out of range", span)
        return int(whole)  # times are whole, so that a fraction of a tick adds nothing

    def tick(self, span: Span, parts: list[Token]) -> int:
        number = parts[-1]
        if len(number.value) > MOST_DIGITS or int(number.value) > _LARGEST_TIME:
            self.mistakes.note("the number is out of range", span_of(number))
            return 0
        return int("".join(part.value for part in parts))

    def tumbling(self, span: Span, parts: list[Any]) -> int | str:
        start = parts[0]
        return self._read_timestamp(start) if isinstance(start, Term) else cast(int, start)

    def _read_timestamp(self, term: Term) -> str:
        found = _TIMESTAMP.fullmatch(term.text.removesuffix(_DATE_TIME))
        try:
            if found:
                datetime.fromisoformat(found[1])
                return found[0][1:-1]
        except ValueError:
            pass
        self.mistakes.note("this is no point in time", term.span, expected='"2015-01-01T00:00:00Z"')
        return ""

    # ------------------------------------------------------------- graph patterns

    def _make_name(self, token: Token) -> Name:
        return Name(token.value, span_of(token))

    def gpm_head(self, span: Span, parts: list[Token]) -> list[Name]:
        names = [self._make_name(token) for token in parts if token.type == "NAME"]
        self.scope, self.nameless = names[0].text, 0
        return names

    def define(self, span: Span, parts: list[Any]) -> WrittenGpm:
        (name, *streams), group = parts
        return WrittenGpm(name, tuple(streams), group)

    # ------------------------------------------------------------------ sequences

    def named(self, span: Span, parts: list[Token]) -> list[q.SequenceStep]:
        span = span_of(parts[0])
        return [q.SequenceStep(q.GpmName(parts[0].value, span), None, span=span)]

    def both(self, span: Span, parts: list[Any]) -> list[q.SequenceStep]:
        return self._combine(q.GpmConjunction, "&", parts)

    def either(self, span: Span, parts: list[Any]) -> list[q.SequenceStep]:
        return self._combine(q.GpmDisjunction, "|", parts)

    def _combine(
        self, kind: type[q.GpmConjunction] | type[q.GpmDisjunction], sign: str, parts: list[Any]
    ) -> list[q.SequenceStep]:
        operands = [part for part in parts if isinstance(part, list)]
        elements: list[q.Element] = []
        for steps in operands:
            if not _is_plain(steps):
                self._note_not_plain(sign, steps)
            for step in steps:
                flat = isinstance(step.element, kind)
                elements += cast(Any, step.element).parts if flat else (step.element,)
        span = _span_of_steps(operands[0]).to(_span_of_steps(operands[-1]))
        return [q.SequenceStep(kind(tuple(elements)), None, span=span)]

    def _note_not_plain(self, sign: str, steps: list[q.SequenceStep]) -> None:
        if len(steps) > 1:
            found = "this is a sequence"
            suggestion = "write a query for each sequence" if sign == "|" else None
        else:
            mark = "?" if steps[0].optional else "!" if steps[0].negated else "+"
            found = f"'{mark}' stands inside it"
            suggestion = f"put it on the whole: (A {sign} B){mark}"
        message = f"'{sign}' joins patterns of one timestamp, and {found}"
        self.mistakes.note(message, _span_of_steps(steps), suggestion=suggestion)

    def modifier(self, span: Span, parts: list[Token]) -> _Modifier:
        link = parts[1].value if len(parts) > 1 else None
        return _Modifier(parts[0].value, link, span)

    def modified(self, span: Span, parts: list[Any]) -> list[q.SequenceStep]:
        steps, (sign, link, span) = parts
        if not _is_plain(steps):
            several = len(steps) > 1
            self.mistakes.note(
                f"'{sign}' stands on patterns of one timestamp, not on a sequence"
                if several
                else "a step has one of '+', '?' and '!'",
                _span_of_steps(steps) if several else span,
                suggestion="put it on the steps one by one" if several else None,
            )
            return cast("list[q.SequenceStep]", steps)
        (step,) = steps
        rounds = (_DEFAULT if link is None else link) if sign == "+" else None
        whole = step.span.to(span)
        return [replace(step, rounds=rounds, optional=sign == "?", negated=sign == "!", span=whole)]

    def sequence(self, span: Span, parts: list[Any]) -> list[q.SequenceStep]:
        steps: list[q.SequenceStep] = []
        link: Token | None = None
        for part in parts:
            if isinstance(part, Token):
                link = part
                continue
            first, *rest = part
            steps += [first if link is None else replace(first, link=link.value), *rest]
        if isinstance(parts[-1], Token):
            self.mistakes.note(
                f"nothing follows the last '{parts[-1].value}'",
                span_of(parts[-1]),
                suggestion="leave it out, or name the next graph pattern after it",
            )
        return steps

    def seq(self, span: Span, parts: list[list[q.SequenceStep]]) -> _SequenceClause:
        steps = parts[0]
        usual = ";" if len(steps) == 1 else ","
        steps = [replace(step, rounds=usual) if step.rounds == _DEFAULT else step for step in steps]
        return _SequenceClause(tuple(steps), span)

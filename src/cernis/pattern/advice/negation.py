"""NOT between two `;`, and NOT at the end: it takes one event, and does not keep others away.

`A ; NOT B ; C` asks for some event that is no B, so a B may come in between all the same. With `:`
on one side NOT has a meaning: the event right before or after is no B. STRICT is left out: it
leaves no room for an event that is not marked.
"""

from __future__ import annotations

from collections.abc import Iterator

from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Strategy
from cernis.pattern.write import write_formula, write_operand

BETWEEN, AT_END = "not-between", "not-at-end"
_WRITTEN = 16
"""The most parts of a sequence that a suggestion writes out."""


def find_misplaced_not(pattern: Pattern) -> Iterator[Diagnostic]:
    """Yield a warning for each NOT that keeps nothing away."""
    if pattern.strategy is Strategy.STRICT:
        return
    for node in pattern.nodes:
        if isinstance(node, cel.Sequence):
            yield from _find_between(node)
    for sequence in _last_sequences(pattern.formula):
        last = sequence.parts[-1]
        body = _negated(last)
        if len(sequence.parts) > _WRITTEN:
            continue
        if body is not None and sequence.separator_before(len(sequence.parts) - 1) == cel.LATER:
            before = write_formula(_join(sequence.parts[:-1]))
            guard = write_operand(body)
            yield Diagnostic(
                f"NOT {guard} at the end can never fail: any later event that is not "
                f"{_article(body)}{guard} ends the match",
                last.span,
                suggestion=f"write {before} WITHOUT {guard} FOR a time, or for the next event "
                f"alone {before} : NOT {guard}",
                code=AT_END,
            )


def _find_between(node: cel.Sequence) -> Iterator[Diagnostic]:
    for i in range(1, len(node.parts) - 1):
        body = _negated(node.parts[i])
        around = (node.separator_before(i), node.separator_before(i + 1))
        if body is None or any(separator.next for separator in around):
            continue
        guard = write_operand(body)
        instead = "UNLESS keeps it out"
        if not node.separators and len(node.parts) <= _WRITTEN:
            guarded = cel.Unless(cel.Sequence((node.parts[i - 1], node.parts[i + 1])), body)
            rest = _join((*node.parts[: i - 1], guarded, *node.parts[i + 2 :]))
            instead = f"{instead}: {write_formula(rest)}"
        yield Diagnostic(
            f"{_article(body)}{guard} in between does not prevent a match: "
            f"NOT {guard} is any other event",
            node.parts[i].span,
            suggestion=instead,
            code=BETWEEN,
        )


def _negated(node: cel.Formula) -> cel.Formula | None:
    """Return what a NOT, or a repeated NOT, negates; None for every other formula."""
    while isinstance(node, cel.As | cel.Iterate):
        node = node.body
    return node.body if isinstance(node, cel.Not) else None


def _last_sequences(node: cel.Formula) -> Iterator[cel.Sequence]:
    """Yield the sequences that end where the formula ends."""
    stack = [node]
    while stack:
        match stack.pop():
            case cel.Sequence() as sequence:
                yield sequence
            case cel.Contiguous(parts=parts):
                stack.append(parts[-1])
            case cel.Choice(parts=parts):
                stack.extend(reversed(parts))
            case cel.As(body=body) | cel.Filter(body=body) | cel.PartitionBy(body=body):
                stack.append(body)
            case cel.Within(body=body) | cel.Unless(body=body):
                stack.append(body)


def _join(parts: tuple[cel.Formula, ...]) -> cel.Formula:
    return parts[0] if len(parts) == 1 else cel.Sequence(parts)


def _article(body: cel.Formula) -> str:
    return "a " if isinstance(body, cel.Event) else ""

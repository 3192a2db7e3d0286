"""`PlanReport`: a plan in words and as a picture, for all languages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from html import escape

from cernis.views.automaton import AutomatonView

MOST_DRAWN = 60
"""An automaton with more states is written, not drawn."""


class PlanReport(ABC):
    """`str()` is the report; `automaton()` the automaton, `mermaid()` the same as a diagram."""

    __slots__ = ()

    @abstractmethod
    def list_entries(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the parts of the report, each with its lines; none: it says nothing."""

    @abstractmethod
    def automaton(self) -> AutomatonView | None:
        """Return the automaton with a position for each state, to draw it; None without one."""

    @abstractmethod
    def mermaid(self) -> str:
        """Return the automaton as a diagram in Mermaid."""

    def __str__(self) -> str:
        entries = (write_entry(name, lines) for name, lines in self.list_entries())
        return "\n".join(line for entry in entries for line in entry)

    def draw(self) -> str:
        """Return the automaton as SVG for a page; empty where there is none, or a large one."""
        seen = self.automaton()
        return "" if seen is None or len(seen.states) > MOST_DRAWN else seen.svg(standalone=False)

    def _repr_html_(self) -> str:
        """Return the automaton, and the entries that it does not show."""
        picture = self.draw()
        rows = "".join(
            f'<tr><th style="text-align:left;vertical-align:top">{name}</th>'
            f'<td style="text-align:left">{"<br>".join(map(escape, lines))}</td></tr>'
            for name, lines in self.list_entries()
            if lines and not (picture and name == "automaton")
        )
        return f"{picture}<table><tbody>{rows}</tbody></table>"


def write_entry(name: str, lines: Sequence[str]) -> list[str]:
    """Return lines under one heading."""
    return [f"{name if i == 0 else '':<12} {line}" for i, line in enumerate(lines)]

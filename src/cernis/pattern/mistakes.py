"""A bounded list of mistakes, so that a hopeless query costs a bounded time."""

from __future__ import annotations

from collections.abc import Iterable

from cernis.errors import Diagnostic, Span
from cernis.pattern.suggest import did_you_mean


class MistakeList:
    """The first mistakes of a query; later ones cost nothing."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.found: list[Diagnostic] = []

    @property
    def full(self) -> bool:
        return len(self.found) >= self.most

    def note(
        self,
        message: str,
        span: Span | None,
        *,
        expected: str | None = None,
        suggestion: str | None = None,
        word: str = "",
        among: Iterable[str] = (),
    ) -> None:
        """Add a mistake; suggest the name in `among` that is close to `word`, if there is one."""
        if not self.full:
            suggestion = did_you_mean(word, among) or suggestion
            self.found.append(Diagnostic(message, span, expected, suggestion))

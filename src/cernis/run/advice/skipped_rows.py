"""Bad rows that were left out: a note, and a warning where they are most of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cernis.errors import Diagnostic, WarningNote
from cernis.events.source import Source

CODE = "most-skipped"
HELP = '--on-error fail (on_error="fail") says what is wrong with the first one'


def note_skipped(sources: Iterable[Source]) -> Iterator[str]:
    """Yield how many bad rows of each file were left out, and which files have no events."""
    for source in sources:
        skipped, count = source.skipped, source.reader.count
        if count is not None and 2 * skipped > count > 1:
            yield WarningNote.of(
                Diagnostic(
                    f"{source.label}: {skipped:,} of {count:,} rows were skipped",
                    suggestion=HELP,
                    code=CODE,
                )
            )
        else:
            for label, bad in source.skips.items():
                rows = "1 bad row" if bad == 1 else f"{bad:,} bad rows"
                yield f"{label}: {rows} skipped"
        yield from source.notes

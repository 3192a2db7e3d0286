"""Which input is which stream of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cernis.errors import DataError
from cernis.events.mistakes import did_you_mean
from cernis.pattern.spaseq import SpaseqQuery


def name_streams(query: SpaseqQuery, events: Any, *, whole: bool = True) -> dict[str, Any]:
    """Return the input of each stream; unless they are `whole`, a list may lack some.

    Inputs are assigned by name; by the stem of a file, which is the stream's name in any case or
    the end of its IRI; or in the order of FROM STREAM, if some stem is neither.
    """
    names = [name for name, _ in query.streams]
    if isinstance(events, Mapping):
        for name in events:
            if name not in names:
                raise DataError(
                    f"the query has no stream {name!r}{did_you_mean(str(name), names)}; "
                    f"it has {', '.join(names)}"
                )
        return {name: _open_matches(one) for name, one in events.items()}
    if hasattr(events, "open_nquads"):
        events = [events]
    if isinstance(events, str | bytes | Path) or hasattr(events, "read"):
        events = [events]
    if not isinstance(events, Iterable):
        raise DataError(
            f"{type(events).__name__} is no RDF: give files or bytes, by the names of streams"
        )
    given = [_open_matches(one) for one in events]
    guesses = [_guess_stream(query, one) for one in given]
    is_known = None not in guesses and len(set(guesses)) == len(given)
    if is_known and (not whole or len(given) == len(names)):
        return {str(name): one for name, one in zip(guesses, given, strict=True)}
    if len(given) != len(names):
        raise DataError(
            f"the query reads {_count_noun(len(names), 'stream')} ({', '.join(names)}), "
            f"and there {'is' if len(given) == 1 else 'are'} "
            f"{_count_noun(len(given), 'file')}; name them as NAME=FILE"
        )
    return dict(zip(names, given, strict=True))


def _open_matches(data: Any) -> Any:
    """Return the graphs of another query's matches as a file; any other input as it is."""
    return data.open_nquads() if hasattr(data, "open_nquads") else data


def _guess_stream(query: SpaseqQuery, data: Any) -> str | None:
    """Return the stream that a file is named after."""
    if not isinstance(data, str | Path):
        return None
    stem = Path(data).name.split(".")[0].lower()
    for name, iri in query.streams:
        if stem in (name.lower(), iri.rstrip("/#").replace("#", "/").split("/")[-1].lower()):
            return name
    return None


def _count_noun(count: int, noun: str) -> str:
    """
    >>> _count_noun(1, "file"), _count_noun(2, "file")
    ('1 file', '2 files')
    """
    return f"{count} {noun}{'s' * (count != 1)}"

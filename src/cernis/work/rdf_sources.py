"""Which source is which stream of a SPAseQ query.

Apart from `endpoints`, which knows no language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cernis.errors import CernisError, DataError
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.rdf.source import check_stream, name_streams
from cernis.run.session import RunOptions
from cernis.work.endpoints import AnySource, name_source

Given = TypeVar("Given")


def check_graph_reading(reading: RunOptions) -> None:
    """Raise an error for options that are not for RDF."""
    if any(option is not None for option in (reading.columns, reading.delimiter, reading.quote)):
        raise CernisError("--columns, --delimiter and --quote are for CSV, not for RDF streams")
    if reading.tables:
        raise CernisError("--table: SPAseQ joins background knowledge: --background FILE")
    if isinstance(reading.time, dict):
        raise CernisError("--time NAME=COLUMN: RDF streams have one rule for their times")


def order_sources(query: SpaseqQuery, given: Mapping[str, Given]) -> dict[str, Given]:
    """Return the sources that are given by name in the order of the query's streams."""
    names = [name for name, _ in query.streams]
    for name in given:
        check_stream(name, names)
    for name in names:
        if name not in given:
            raise DataError(f"no source for the stream {name}: give one for each of {names}")
    return {name: given[name] for name in names}


def name_graph_sources(
    query: SpaseqQuery, given: Sequence[tuple[str | None, AnySource]]
) -> dict[str, AnySource]:
    """Return the source of each stream: by name, by the name of its folder or topic, in order."""
    names = [name for name, _ in query.streams]
    if len(names) == len(given) == 1 and given[0][0] is None:
        return {names[0]: given[0][1]}
    found: dict[str, AnySource] = {}
    if any(name is not None for name, _ in given):
        for name, source in given:
            if name is None:
                raise CernisError(
                    f"{source}: name the streams of all sources, as NAME=URI, or none"
                )
            if name in found:
                raise CernisError(
                    f"two sources for the stream {name!r}: {found[name]} and {source}"
                )
            found[name] = source
        return order_sources(query, found)
    own = [name_source(source) for _, source in given]
    numbers = {Path(name): i for i, name in enumerate(own)}
    if len(numbers) < len(given) or len(given) != len(names):
        counted = f"{len(given)} source{'s' * (len(given) != 1)}"
        raise DataError(
            f"the query reads {len(names)} stream{'s' * (len(names) != 1)} ({', '.join(names)}), "
            f"and there {'is' if len(given) == 1 else 'are'} {counted}; name them as NAME=URI"
        )
    chosen = name_streams(query, list(numbers))
    return {name: given[numbers[chosen[name]]][1] for name in names}

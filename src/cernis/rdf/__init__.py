"""SPAseQ over RDF streams: `cernis.query(text, lang="spaseq")` gives a `GraphQuery`.

The only part of the package that knows of pyoxigraph. A name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cernis.rdf.matches import GraphMatch, GraphMatches
    from cernis.rdf.query import GraphQuery
    from cernis.rdf.reading.times import TimeRule
    from cernis.rdf.session import GraphSession

__all__ = ["GraphMatch", "GraphMatches", "GraphQuery", "GraphSession", "TimeRule"]

_MODULES = {
    "GraphMatch": "matches",
    "GraphMatches": "matches",
    "GraphQuery": "query",
    "GraphSession": "session",
    "TimeRule": "reading.times",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"cernis.rdf.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)

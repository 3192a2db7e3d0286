"""Optional libraries: imported when they are needed, or an error that says what to install.

Cost: nothing until a library is needed, and then its import.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cernis.errors import CernisError

_EXTRAS = {
    "altair": ("Altair", "notebook"),
    "confluent_kafka": ("confluent-kafka", "kafka"),
    "duckdb": ("DuckDB", "sql"),
    "pandas": ("pandas", "pandas"),
    "polars": ("polars", "polars"),
    "pyoxigraph": ("pyoxigraph", "rdf"),
    "pyspark": ("Spark", "spark"),
    "sqlglot": ("sqlglot", "sql"),
    "starlette": ("Starlette", "serve"),
    "uvicorn": ("uvicorn", "serve"),
}
"""Per module, the name of its library and the extra of this package that installs it."""


def import_extra(module: str, purpose: str) -> Any:
    """Import an optional module; an error says that `purpose` needs it and how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.partition(".")[0] != module:
            raise
        library, extra = _EXTRAS[module]
        raise CernisError(
            f"{purpose} needs {library}, which is not installed: pip install 'cernis[{extra}]'"
        ) from missing

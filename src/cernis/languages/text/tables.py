"""The tables of a grammar: built by Lark, shipped with the package.

Building the tables of CEQL takes a quarter of a second, a tenth of a first answer; loading them
takes a fiftieth. So the file `grammar.tables` lies beside each grammar. Its first line is a digest
of what the tables depend on: the grammar, its options and Lark's version. The rest is what
`Lark.save` wrote. `make pages` writes it anew after a change of the grammar or of Lark.

Where the digest is another one, as with another version of Lark, each process loads the tables from
Cernis' own folder (`cernis.folder`), where the first one that built them left them.

Turned down: Lark's standalone parser. It has its own copies of Lark's classes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from typing import Any

from lark import Lark
from lark import __version__ as lark_version

from cernis.folder import own_folder

FILE = "grammar.tables"


@dataclass(frozen=True)
class Grammar:
    """A grammar that several packages have parts of."""

    packages: Sequence[str]
    """The packages whose `grammar.lark` make the grammar; the last one has its tables."""
    start: Sequence[str]
    placeholders: bool

    @cached_property
    def _text(self) -> str:
        return "\n".join(
            files(package).joinpath("grammar.lark").read_text(encoding="utf-8")
            for package in self.packages
        )

    @cached_property
    def _options(self) -> dict[str, Any]:
        return {
            "parser": "lalr",
            "lexer": "basic",
            "start": list(self.start),
            "propagate_positions": True,
            "maybe_placeholders": self.placeholders,
        }

    @cached_property
    def _digest(self) -> str:
        return sha256(f"{lark_version} {self._options} {self._text}".encode()).hexdigest()

    def load(self) -> Lark:
        """Return the parser of the grammar."""
        shipped = self.find_shipped()
        return self.build(self._name_cache()) if shipped is None else Lark.load(BytesIO(shipped))

    def find_shipped(self) -> bytes | None:
        """Return the tables that the package has; None: they are of another grammar or Lark."""
        file = files(self.packages[-1]).joinpath(FILE)
        if not file.is_file():
            return None
        digest, _, tables = file.read_bytes().partition(b"\n")
        return tables if digest.decode() == self._digest else None

    def build(self, cache: str | bool = False) -> Lark:
        """Build the parser; `cache` is a file that has the tables, or gets them.

        Lark checks the file against the grammar and its own version. It writes a file that is
        missing or damaged.
        """
        return Lark(self._text, cache=cache, **self._options)

    def _name_cache(self) -> str | bool:
        """Return the file for the tables in Cernis' own folder; False if there is none."""
        folder = own_folder()
        name = f"{self.packages[-1]}-{sys.implementation.cache_tag}-{self._digest[:16]}.tables"
        return folder is not None and str(folder / name)

    def write(self) -> bytes:
        """Return the content of `grammar.tables`."""
        tables = BytesIO()
        self.build().save(tables)
        return self._digest.encode() + b"\n" + tables.getvalue()

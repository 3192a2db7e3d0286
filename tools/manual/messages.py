"""The page of all messages: collected from the source, so that a search finds every error.

A message is a text in the code that makes an error, with `…` for what it is about. The syntax tree
has them all; messages that are put together elsewhere, as those of the parsers, are not among them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cernis.error_codes import KINDS, find_kind

_ERRORS = ("QueryError", "DataError", "BudgetError", "StateError", "CernisError")
_DIAGNOSTICS = {"Diagnostic": "QueryError", "note": "QueryError"}
"""Calls that note a mistake in a query."""
_ASIDE = ("bench", "manual", "testing")
"""The parts of the package whose messages are for its makers."""

_HEAD = """\
# Every message

<!-- written by make pages -->

The messages of Cernis by their [code](codes/index.md), so that a search finds yours. `…` stands for
a name, a number or a place. Most messages about the syntax of a query, which say what was expected,
are not listed.
"""


class Message(NamedTuple):
    """A message of an error: its class, the text, and a help or ""."""

    error: str
    text: str
    help: str

    @property
    def code(self) -> str:
        return find_kind((self.error,), self.text).code


def write_messages_page(source: Path) -> str:
    """Return the page of all messages of the package in a folder."""
    found = sorted(set(collect_messages(source)))
    lines = [_HEAD]
    for kind in KINDS:
        own = [message for message in found if message.code == kind.code]
        helped = any(message.help for message in own)
        lines += [f"## `{kind.code}`", "", f"[About this code](codes/{kind.code}.md)", ""]
        lines += ["| message | help |", "|---|---|"] if helped else ["| message |", "|---|"]
        for message in own:
            cells = [message.text, *([message.help] if helped else [])]
            lines.append(f"| {' | '.join(map(_write_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def collect_messages(source: Path) -> Iterator[Message]:
    """Yield every message that the code of a package can raise."""
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] in _ASIDE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            message = _read_call(node)
            if message is not None:
                yield message


def _read_call(node: ast.AST) -> Message | None:
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = str(getattr(node.func, "id", None) or getattr(node.func, "attr", ""))
    error = _DIAGNOSTICS.get(name, name)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    text = _read_text(node.args[0])
    if error not in _ERRORS or "code" in given or not text or not text.strip(" …:,;"):
        return None
    help_ = _read_text(given["suggestion"]) if "suggestion" in given else None
    return Message(error, text, help_ or "")


def _read_text(node: ast.AST) -> str | None:
    """Return the text of a string in the code, with … for its variable parts; None for others."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            texts = (_read_text(part) or "…" for part in parts)
            return "".join(texts).replace("……", "…")
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return f"{_read_text(left) or '…'}{_read_text(right) or '…'}"
        case ast.IfExp(body=body, orelse=orelse):
            return _read_text(body) or _read_text(orelse)
    return None


def _write_cell(text: str) -> str:
    """Return a text as code in a cell of a table."""
    if not text:
        return ""
    plain = " ".join(text.split()).replace("|", "\\|")
    mark = "``" if "`" in plain else "`"
    pad = " " if mark == "``" else ""
    return f"{mark}{pad}{plain}{pad}{mark}"

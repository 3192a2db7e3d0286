"""The page of a code of errors and warnings in the playground: its meaning, and what to do."""

from __future__ import annotations

import re
from html import escape

from cernis.error_codes import explain_code

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{code} · Cernis</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/app.css">
<script type="module" src="/assets/code.js"></script>
<main class="code-page"><article class="card"><h1><code>{code}</code></h1>{paragraphs}
<p class="note">The manual has an example: <code>docs/reference/codes/{code}.md</code></p>
<p><a href="/">To the playground</a></p></article></main></html>
"""


def write_code_page(code: str) -> str | None:
    """Return the page of a code; None: there is no such code."""
    found = explain_code(code)
    if found is None:
        return None
    paragraphs = "".join(f"<p>{_write_text(text)}</p>" for text in found if text)
    return _PAGE.format(code=escape(code), paragraphs=paragraphs)


def _write_text(text: str) -> str:
    """Return a text as HTML.

    >>> _write_text("use `IN {…}` & co")
    'use <code>IN {…}</code> &amp; co'
    """
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))

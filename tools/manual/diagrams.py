"""Railroad diagrams of grammars, as SVG: a picture for each section, with all its rules.

The package `railroad-diagrams` draws a rule; this module puts the rules below each other, under
their names. Boxes have colours of their own, so that a picture is readable on light and dark pages.
"""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from io import StringIO
from typing import Any

from cernis.errors import CernisError
from tools.manual.grammar import (
    GrammarRule,
    GrammarSection,
    Maybe,
    Named,
    OneOf,
    Part,
    Repeat,
    Series,
    Word,
)

_WIDEST = 760
_TITLE = 34
_STYLE = """
path { stroke: #8a8f98; stroke-width: 2; fill: none }
rect { stroke: #8a8f98; stroke-width: 1.5; fill: #e8eef7 }
.terminal rect { fill: #fdf3d8 }
text { font: 14px monospace; text-anchor: middle; fill: #1b1f24 }
.terminal text { font-weight: bold }
text.rule { font: bold 15px sans-serif; text-anchor: start; fill: #7a828e }
"""


def is_railroad_installed() -> bool:
    """Return whether the package that draws diagrams is there."""
    return find_spec("railroad") is not None


def draw_section(section: GrammarSection) -> str:
    """Return the picture of the rules of a section."""
    if not is_railroad_installed():
        raise CernisError("diagrams need the package railroad-diagrams: pip install '.[site]'")
    rules = []
    height, width = 0, 0
    for rule in section.rules:
        drawn = _draw_rule(rule)
        rules.append(
            f'<text class="rule" x="4" y="{height + 22}">{escape(rule.name)}</text>\n'
            f'<g transform="translate(0 {height + _TITLE})">{_write(drawn)}</g>\n'
        )
        height += _TITLE + round(float(drawn.attrs["height"]))
        width = max(width, round(float(drawn.attrs["width"])))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n<style>{_STYLE}</style>\n{"".join(rules)}</svg>\n'
    )


def _draw_rule(rule: GrammarRule) -> Any:
    import railroad

    return railroad.Diagram(_draw(rule.part)).format(6, 6, 6, 6)


def _draw(part: Part) -> Any:
    import railroad

    match part:
        case Word(text):
            return railroad.Terminal(text)
        case Named(name):
            return railroad.NonTerminal(name)
        case Maybe(Repeat(inner, between)):
            return railroad.ZeroOrMore(_draw(inner), _draw(between) if between else None)
        case Maybe(inner):
            return railroad.Optional(_draw(inner))
        case Repeat(inner, between):
            return railroad.OneOrMore(_draw(inner), _draw(between) if between else None)
        case OneOf(parts):
            return railroad.Choice(0, *map(_draw, parts))
        case Series(parts):
            return _stack([_draw(one) for one in parts])


def _stack(items: list[Any]) -> Any:
    """Return items in a line, or in several lines if one would be too wide."""
    import railroad

    lines: list[list[Any]] = [[]]
    width = 0.0
    for item in items:
        if lines[-1] and width + item.width > _WIDEST:
            lines.append([])
            width = 0.0
        lines[-1].append(item)
        width += item.width + 20
    drawn = [railroad.Sequence(*line) for line in lines]
    return drawn[0] if len(drawn) == 1 else railroad.Stack(*drawn)


def _write(diagram: Any) -> str:
    text = StringIO()
    diagram.writeSvg(text.write)
    return text.getvalue()

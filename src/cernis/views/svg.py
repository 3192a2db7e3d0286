"""SVG as text: elements, escaped; and the colours that all pictures share.

A picture holds no script and refers to nothing outside. Its colours are CSS variables that follow
`prefers-color-scheme`; attributes say the light ones, for front ends that drop `<style>`. Inside a
page it takes the page's text colour. A *standalone* picture has its own, and a background.
"""

from __future__ import annotations

from html import escape
from typing import Final

from cernis.errors import neutralize

LIGHT: Final = ("#3b6fb6", "#c4572e", "#3f8f5b", "#8a4fa3", "#a8812a", "#2f8f98")
DARK: Final = ("#7fabe6", "#e8946c", "#78c495", "#c293d8", "#d8b661", "#6fc7cf")
INK, PAPER, DARK_INK, DARK_PAPER = "#1f2430", "#ffffff", "#e3e7ee", "#14171d"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def element(tag: str, *content: str, **attributes: object) -> str:
    """Return an element; attributes are escaped, content is not. `class_` is `class`.

    >>> element("text", write("a<b"), x=1.25, class_="name", text_anchor="end")
    '<text x="1.2" class="name" text-anchor="end">a&lt;b</text>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_write_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(content)
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def write(text: str, longest: int | None = None) -> str:
    """Return text as content: escaped, without control characters, cut to a length."""
    text = neutralize(text)
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    return escape(text)


def title(text: str) -> str:
    """Return the text that a pointer shows which rests on the element around it."""
    return element("title", write(text, 400))


def colour(number: int) -> dict[str, object]:
    """Return the attributes that fill an element with one of the colours."""
    number %= len(LIGHT)
    return {"class_": f"c{number}", "fill": LIGHT[number]}


def stroke(number: int) -> dict[str, object]:
    """Return the attributes that draw the line of an element in one of the colours."""
    number %= len(LIGHT)
    return {"class_": f"s{number}", "stroke": LIGHT[number], "fill": "none"}


def picture(width: float, height: float, content: str, label: str, *, standalone: bool) -> str:
    """Return a whole picture; `label` is for those who cannot see it."""
    size = (_write_number(width), _write_number(height))
    back = element("rect", width="100%", height="100%", class_="paper", fill=PAPER)
    return element(
        "svg",
        element("style", _write_style(standalone)),
        back if standalone else "",
        content,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {size[0]} {size[1]}",
        role="img",
        aria_label=label,
        class_="cernis-view",
        color=INK if standalone else None,
        font_family=FONT,
        font_size=12,
        style="max-width:100%;height:auto",
    )


def _write_style(standalone: bool) -> str:
    ink, dark_ink = (INK, DARK_INK) if standalone else ("currentColor", "currentColor")
    # a page may be light where the reader's system is dark
    paper, dark_paper = (PAPER, DARK_PAPER) if standalone else ("transparent", "transparent")
    light = "".join(f"--c{i}:{value};" for i, value in enumerate(LIGHT))
    dark = "".join(f"--c{i}:{value};" for i, value in enumerate(DARK))
    fills = "".join(
        f".cernis-view .c{i}{{fill:var(--c{i})}}.cernis-view .s{i}{{stroke:var(--c{i})}}"
        for i in range(len(LIGHT))
    )
    return (
        f".cernis-view{{{light}--ink:{ink};--paper:{paper}}}"
        f"@media (prefers-color-scheme:dark){{.cernis-view{{{dark}--ink:{dark_ink};"
        f"--paper:{dark_paper}}}}}"
        ".cernis-view .ink,.cernis-view text{fill:var(--ink)}.cernis-view .line{stroke:var(--ink)}"
        ".cernis-view .paper{fill:var(--paper)}.cernis-view .ring{stroke:var(--paper)}" + fills
    )


def _write_number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)

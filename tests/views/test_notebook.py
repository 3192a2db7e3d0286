"""What notebooks show: queries, plans, matches and charts draw themselves."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from typing import Any

import pytest

import cernis

EVENTS = [{"type": kind, "ts": i * 1000, "x": i} for i, kind in enumerate("AXBAB")]
QUERY = "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER b[x > 1] WITHIN 3 SECONDS"


def svg_of(page: str) -> ET.Element:
    return ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


def test_a_query_shows_its_text_and_its_automaton() -> None:
    page = cernis.query("SELECT * FROM S WHERE A AS a FILTER a[x < '<b>']")._repr_html_()
    assert "a[x &lt; &#x27;&lt;b&gt;&#x27;]" in page
    assert "after a" in "".join(svg_of(page).itertext())


def test_an_explanation_is_a_table_with_the_automaton_drawn() -> None:
    explanation = cernis.query(QUERY).explain()
    page = explanation._repr_html_()
    assert "unary: every condition looks at one event at a time" in page
    assert "B with x &gt; 1 → b" in page
    assert ">automaton</th>" not in page


def test_a_large_automaton_is_written() -> None:
    formula = " ; ".join(f"A{i}" for i in range(70))
    page = cernis.query(f"SELECT * FROM S WHERE {formula}").explain()._repr_html_()
    assert "<svg" not in page
    assert ">automaton</th>" in page


def test_matches_and_a_match_are_drawn_the_same_way() -> None:
    matches = cernis.query(QUERY).run(EVENTS, time="ts")
    whole, one = matches._repr_html_(), matches.head(1)[0]._repr_html_()
    for page in (whole, one):
        assert "cernis-view" in page
        assert "a: type=A, ts=0, x=0" in "".join(svg_of(page).itertext())
        assert "<script" not in page
    assert "<b>2 matches</b>" in whole


def test_a_result_without_matches_has_no_picture() -> None:
    assert "<svg" not in cernis.query("SELECT * FROM S WHERE Z").run(EVENTS)._repr_html_()


@pytest.mark.parametrize("lanes", ["type", "variable"])
@pytest.mark.parametrize("events", [EVENTS, EVENTS * 200])
def test_a_chart_has_lanes_matches_and_their_ends(lanes: Any, events: list[Any]) -> None:
    chart = cernis.query(QUERY).run(events).plot(lanes=lanes).to_dict()
    upper, lower = chart["vconcat"]
    marks = [layer["mark"]["type"] for layer in upper["layer"]]
    assert marks == ["tick" if len(events) < 400 else "rect", "line", "circle"]
    counted = sum(value["count"] for value in lower["data"]["values"])
    assert counted == cernis.query(QUERY).run(events).count()


HOURS = [
    {"type": "A", "ts": datetime(2024, 5, 1, hour, 10), "k": key, "x": 2.5}
    for hour, key in ((1, "u"), (1, "v"), (4, "u"), (4, "u"))
]


def test_a_chart_of_groups_has_zero_in_hours_without_a_match() -> None:
    text = "SELECT [k], COUNT(*) AS n, AVG(A[x]) AS mean WHERE A PARTITION BY [k] GROUP BY [k], "
    chart = cernis.query(text + "EVERY 1 HOUR").run(HOURS).plot().to_dict()
    counted, mean = ([*panel["data"]["values"]] for panel in chart["vconcat"])
    hour, first = 3_600_000, datetime(2024, 5, 1, 1, tzinfo=UTC).timestamp() * 1000
    drawn = {(bar["series"], (bar["at"] - first) / hour): bar["value"] for bar in counted}
    assert drawn == {
        ("u", 0): 1, ("u", 1): 0, ("u", 2): 0, ("u", 3): 2,
        ("v", 0): 1, ("v", 1): 0, ("v", 2): 0, ("v", 3): 0,
    }  # fmt: skip
    assert all(bar["to"] - bar["at"] == hour for bar in counted)
    assert [bar["value"] for bar in mean] == [2.5, 2.5, 2.5]
    assert chart["vconcat"][0]["encoding"]["x"]["type"] == "temporal"


@pytest.mark.parametrize(
    ("keys", "axis", "bars"),
    [("END", "temporal", 4), ("[k]", "nominal", 2), ("EVERY 1 SECOND", "temporal", 2)],
)
def test_a_chart_of_other_groups_has_a_bar_for_each(keys: str, axis: str, bars: int) -> None:
    text = f"SELECT COUNT(*) AS n, COUNT(A) AS m WHERE A PARTITION BY [k] GROUP BY {keys}"
    groups = cernis.query(text).run(HOURS)
    panel = groups.plot("n").to_dict()
    assert panel["encoding"]["x"]["type"] == axis
    assert len(panel["data"]["values"]) == bars
    with pytest.raises(cernis.CernisError, match=r"'k' is no column of numbers: .*n, m"):
        groups.plot("k")


def test_a_chart_of_no_groups_is_empty() -> None:
    chart = cernis.query("SELECT COUNT(*) AS n WHERE Z GROUP BY EVERY 1 HOUR").run(HOURS).plot()
    assert chart.to_dict()["data"]["values"] == []


def run_cells(*cells: str) -> list[list[tuple[str, dict[str, Any]]]]:
    """Return, per cell, the messages of a real kernel."""
    from jupyter_client import manager

    kernel, client = manager.start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    told: list[list[tuple[str, dict[str, Any]]]] = []
    try:
        for cell in cells:
            told.append([])
            client.execute_interactive(
                cell, output_hook=lambda one: told[-1].append((one["msg_type"], one["content"]))
            )
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    return told


def test_a_kernel_shows_the_cell_and_the_message_of_a_mistake_and_draws_without_a_network() -> None:
    mistake, chart, chosen = run_cells(
        "import cernis\n\ndef ask(text):\n    return cernis.query(text)\n\nask('SELECT * FORM S')",
        f"matches = cernis.query({QUERY!r}).run({EVENTS!r})\nmatches.plot().properties(title='x')",
        "import altair as alt\nalt.renderers.enable('mimetype')\nmatches.plot();"
        "alt.renderers.active",
    )
    [(_, error)] = [one for one in mistake if one[0] == "error"]
    shown = "\n".join(error["traceback"])
    assert "ask('SELECT * FORM S')" in shown
    assert "return cernis.query(text)" in shown
    assert "cernis.QueryError: line 1, column 10: " in shown
    assert shown.count("File ") == 2
    [(_, drawn)] = [one for one in chart if one[0] == "execute_result"]
    page = drawn["data"]["text/html"]
    assert "vegaEmbed" in page
    assert not re.search(r"<script[^>]* src=|cdn\.jsdelivr\.net/npm/vega", page)
    [(_, named)] = [one for one in chosen if one[0] == "execute_result"]
    assert named["data"]["text/plain"] == "'mimetype'"


def test_without_altair_a_chart_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(cernis.CernisError, match=r"pip install 'cernis\[notebook\]'"):
        cernis.query(QUERY).run(EVENTS).plot()

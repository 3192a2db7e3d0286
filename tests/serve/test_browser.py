"""The page in a real browser: Chromium of the distribution, driven by Playwright.

One server and one visitor serve all tests of this file, because starting processes is what costs.
Each test has a page of its own, and fails if that page asks another machine, breaks the server's
policy or throws. Screenshots are kept in build/screenshots.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    BrowserContext,
    Locator,
    Page,
    Response,
    Route,
    expect,
    sync_playwright,
)

from tools.cases.missing import report_missing
from tools.chromium import find_chromium

_HERE = Path(__file__).parent
CHROMIUM = find_chromium()
if CHROMIUM is None:
    report_missing("browser", "no Chromium here: install it, or run make setup")


SHOTS = _HERE.parents[1] / "build" / "screenshots"
DESKTOP, PHONE = (1360, 860), (360, 740)
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
TRADES = "SELECT s, b FROM Stocks\nWHERE SELL AS s ; BUY AS b\nPARTITION BY [name]"
"""Over the seven trades: INTL's sale with each of two purchases, and AMZN's sale with one."""

GUESSED = (
    "SELECT MAX f, ok, COUNT(f) AS failures\nFROM logins\n"
    "WHERE FAIL{5,} AS f ; OK AS ok\nPARTITION BY [user]\nWITHIN 10 MINUTES"
)

_LONGEST = 300_000
"""How long a busy machine may take for a step, in milliseconds."""

Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of its own process, as a user starts it."""
    command = [sys.executable, "-m", "cernis", "serve", "--port", "0", "--max-upload", "1"]
    command += ["--max-seconds", "600"]  # a busy machine may take long
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found.group()
        server.terminate()


@pytest.fixture(scope="module")
def visitor(address: str) -> Iterator[BrowserContext]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        context = browser.new_context(color_scheme="light", base_url=address, accept_downloads=True)
        context.set_default_timeout(_LONGEST)
        expect.set_options(timeout=_LONGEST)
        yield context
        browser.close()


@pytest.fixture
def open_page(visitor: BrowserContext, address: str) -> Iterator[Opener]:
    """Open the page with a query over a sample; at the end, see that nothing went wrong in it."""
    pages: list[Page] = []
    wrong: list[str] = []

    def open_one(
        query: str | None = TRADES,
        sample: str = "paper-core",
        size: tuple[int, int] = DESKTOP,
        language: str = "ceql",
    ) -> Page:
        page = visitor.new_page()
        pages.append(page)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.on("console", lambda said: _note_error(said.type, said.text, wrong))
        page.on("response", lambda got: _note_failure(got.url, got.status, wrong))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda asked: _note_stranger(asked.url, address, wrong))
        chosen = f"sample={sample}&language={language}"
        link = "" if query is None else f"#{chosen}&query={quote(query)}"
        page.goto(f"/{link}")
        if query is None or query == TRADES:
            expect(page.locator("#count")).not_to_be_empty()
        return page

    yield open_one
    for page in pages:
        page.close()
    assert wrong == []


def _note_error(kind: str, text: str, wrong: list[str]) -> None:
    if kind == "error" and not text.startswith("Failed to load resource"):  # see `_note_failure`
        wrong.append(text)


def _note_failure(url: str, status: int, wrong: list[str]) -> None:
    """Note a status that no visitor should see.

    A mistake in a query is answered with 400, a run that is gone with 410, and the check of a query
    on an upload that is gone with 404.
    """
    if status > 400 and status != 410 and (status, url[-10:]) != (404, "/api/check"):
        wrong.append(f"{status} for {url}")


def _note_stranger(url: str, address: str, wrong: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        wrong.append(f"asked {url}")


def keep(page: Page, name: str) -> None:
    """Keep a screenshot."""
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Query")


def choose(page: Page, label: str, option: str) -> None:
    """Choose how an upload is read, and wait until it has been read so."""
    with page.expect_response("**/api/data"):
        page.get_by_label(label).select_option(option)
    expect(page.get_by_label(label)).to_have_value(option)


def write(page: Page, query: str) -> None:
    """Write a query as a visitor does: over the one that is there."""
    editor(page).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(query)


def see_timeline(
    page: Page,
    action: Callable[[], Any],
    expected: Callable[[float, float], bool] = lambda start, end: start < end,
) -> dict[str, Any]:
    """Return the aggregates of the first expected view that the page asks for after an action."""

    def answers(got: Response) -> bool:
        address = urlsplit(got.url)
        asked = parse_qs(address.query)
        return address.path.endswith("/timeline") and expected(
            float(asked["from"][0]), float(asked["to"][0])
        )

    expect(page.get_by_role("application")).to_have_attribute("aria-busy", "false")
    with page.expect_response(answers) as answer:
        action()
    return dict(answer.value.json())


def fits(page: Page) -> bool:
    """Return whether nothing sticks out at the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


# ------------------------------------------------------------------------------- asking


@SIZES
def test_the_page_opens_with_an_answer(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(None, size=size)
    expect(page.locator("#count")).to_have_text(re.compile(r"^[\d,]+$"))
    expect(page.get_by_role("list", name="Lanes").get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_role("region", name="Matches").get_by_role("row")).to_have_count(21)
    expect(page.get_by_role("list", name="Event types")).to_contain_text("BUY")
    expect(page.locator(".hl-keyword").first).to_have_text("SELECT")
    assert fits(page)
    keep(page, f"opening-{size[0]}")


@SIZES
def test_a_mistake_has_a_caret_and_a_fix_that_runs(
    open_page: Opener, size: tuple[int, int]
) -> None:
    page = open_page(size=size)
    write(page, "SELECT * FROM Stocks\nWHERE SELL AS s ; BUY AS b\nFILTER s[prise > 100]")
    problem = page.get_by_role("list", name="Problems").get_by_role("listitem")
    expect(problem).to_contain_text("unknown attribute 'prise'")
    drawn = problem.locator("pre").inner_text().split("\n")
    assert drawn[0][drawn[1].index("^") : drawn[1].rindex("^") + 1] == "prise"
    expect(page.locator(".cm-lintRange-error")).to_have_text("prise")
    keep(page, f"mistake-{size[0]}")
    link = problem.get_by_role("link", name="unknown-name")
    expect(link).to_have_attribute("href", "/codes/unknown-name")
    expect(page.locator("#stale")).to_be_visible()
    problem.get_by_role("button", name="price").click()
    expect(page.locator("#problems")).to_be_empty()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#count")).to_have_text("8")
    expect(page.locator("#stale")).to_be_hidden()
    assert fits(page)


def test_a_query_with_a_mistake_that_runs_says_where(open_page: Opener) -> None:
    page = open_page()
    write(page, "SELECT * FROM Stocks WHERE")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#count-noun")).to_have_text("The query has a mistake")
    expect(page.get_by_role("list", name="Problems").locator(".carets")).to_have_count(1)


def test_all_mistakes_of_a_query_are_shown(open_page: Opener) -> None:
    page = open_page()
    names = [f"s[wrong{n} > {n}]" for n in range(8)]
    write(page, f"SELCT x FROM Stocks\nWHERE SELL AS s\nFILTER {' AND '.join(names)}")
    problems = page.get_by_role("list", name="Problems").get_by_role("listitem")
    expect(problems).to_have_count(10)
    expect(problems.nth(0)).to_contain_text("unexpected 'SELCT'")
    expect(problems.nth(1)).to_contain_text("unknown variable 'x'")
    expect(problems.nth(9)).to_contain_text("unknown attribute 'wrong7'")
    expect(page.locator(".cm-lintRange-error")).to_have_count(10)
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#count-noun")).to_have_text("The query has a mistake")
    expect(problems).to_have_count(10)
    expect(problems.nth(0).get_by_role("button", name="SELECT")).to_be_visible()


def test_typing_over_a_selection_writes_no_style_that_the_policy_refuses(open_page: Opener) -> None:
    """The fixture fails at a message of the console about it."""
    page = open_page()
    editor(page).click()
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.type("WHERE BUY AS b PARTITION BY [")
    page.keyboard.type("x")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.type("name")
    expect(editor(page)).to_contain_text("PARTITION BY [name]")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("S")
    expect(editor(page)).to_have_text("S")
    page.keyboard.press("ControlOrMeta+z")
    expect(editor(page)).to_contain_text("FROM Stocks")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("(")  # brackets close around a selection
    expect(editor(page)).to_contain_text("(SELECT")


def test_a_run_is_stopped(open_page: Opener) -> None:
    page = open_page()
    page.route("**/api/runs", lambda route: None)  # a run that takes for ever
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#count-noun")).to_have_text("Stopped")
    page.unroute("**/api/runs")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#count")).to_have_text("3")


def test_completion_offers_the_attributes_of_the_data(open_page: Opener) -> None:
    page = open_page()
    write(page, "SELECT * FROM Stocks WHERE SELL AS s FILTER s[")
    page.keyboard.press("Control+Space")
    offered = page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    expect(offered.first).to_have_text("name")
    assert {*offered.all_inner_texts()[:4]} == {"name", "price", "ts", "type"}
    page.keyboard.type("pr")
    expect(offered.first).to_have_text("price")
    page.wait_for_timeout(100)  # CodeMirror ignores a choice right after the list opens
    page.keyboard.press("Enter")
    expect(editor(page)).to_contain_text("s[price")


# ------------------------------------------------------------------------------ answers


def place_of(timeline: dict[str, Any], mark: dict[str, Any], canvas: Locator) -> dict[str, float]:
    """Return where a mark is drawn on the canvas, as web/src/draw.ts has it for few lanes."""
    box = canvas.bounding_box()
    assert box is not None
    part = (mark["ts"] - timeline["from"]) / (timeline["to"] - timeline["from"])
    return {"x": part * box["width"], "y": 26 + (mark["lane"] + 0.5) * 46 + 3}


@SIZES
def test_a_match_is_selected_on_the_timeline(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    timeline = see_timeline(page, lambda: page.get_by_role("button", name="Show all").click())
    assert len(timeline["matches"]) > 1
    match = timeline["matches"][-1]
    canvas = page.get_by_role("application")
    canvas.click(position=place_of(timeline, match["marks"][0], canvas))
    events = page.get_by_role("region", name=re.compile("Events of match"))
    expect(events.get_by_role("row")).to_have_count(3)
    expect(events).to_contain_text("AMZN")
    expect(events).to_contain_text("1900")
    assert fits(page)
    keep(page, f"selected-{size[0]}")
    page.get_by_role("button", name="Close match").click()
    expect(events).to_have_count(0)


def test_the_keyboard_selects_zooms_and_pans(open_page: Opener) -> None:
    page = open_page()
    see_timeline(page, lambda: page.get_by_role("button", name="Show all").click())
    canvas = page.get_by_role("application")
    canvas.focus()
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Match 1")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_role("heading", name=re.compile("Match [23]"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_be_empty()
    near = see_timeline(page, lambda: page.keyboard.press("+"))
    later = see_timeline(page, lambda: page.keyboard.press("ArrowRight"))
    assert later["from"] > near["from"]
    assert later["to"] - later["from"] == pytest.approx(near["to"] - near["from"])
    whole = see_timeline(page, lambda: page.keyboard.press("Home"))
    assert whole["to"] - whole["from"] > near["to"] - near["from"]


def test_wheel_and_drag_zoom_and_pan(open_page: Opener) -> None:
    page = open_page()
    whole = see_timeline(page, lambda: page.get_by_role("button", name="Show all").click())
    width = whole["to"] - whole["from"]
    box = page.get_by_role("application").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + 20
    page.mouse.move(x, y)
    near = see_timeline(
        page, lambda: page.mouse.wheel(0, -300), lambda start, end: end - start < 0.99 * width
    )
    page.mouse.down()
    moved = see_timeline(
        page,
        lambda: page.mouse.move(x + 150, y, steps=2),
        lambda start, end: start < near["from"],
    )
    page.mouse.up()
    assert moved["to"] - moved["from"] == pytest.approx(near["to"] - near["from"])


def test_the_table_pages_through_more_matches_than_anyone_could_list(open_page: Opener) -> None:
    page = open_page("SELECT * FROM stocks WHERE (SELL OR BUY)+ AS x WITHIN 100 EVENTS", "stocks")
    expect(page.locator("#count")).to_have_text(re.compile(r"^\d\.\d\d × 10³[⁰¹²³⁴⁵⁶⁷⁸⁹]$"))
    matches = page.locator("#panel-matches")
    expect(matches.locator(".pager")).to_contain_text("1–20 of")
    matches.get_by_role("button", name="Last matches").click()
    expect(matches.locator(".pager")).not_to_contain_text("1–20 of")
    matches.get_by_role("textbox", name="Go to match number").fill("1,000,000,000,000,000,000")
    page.keyboard.press("Enter")
    expect(matches.locator(".pager")).to_contain_text("1,000,000,000,000,000,000–")
    matches.get_by_role("button", name="Sample").click()
    expect(matches.locator(".pager")).to_contain_text("a uniform sample of 20")


def test_an_answer_that_the_server_has_dropped_is_found_again(open_page: Opener) -> None:
    page = open_page()
    expect(page.get_by_role("list", name="Lanes").get_by_role("listitem")).to_have_count(3)
    href = page.get_by_role("link", name="Parquet").get_attribute("href")
    assert href is not None
    run = href.split("/download")[0]
    assert page.request.delete(run, headers={"X-Cernis": "1"}).ok
    with page.expect_response("**/api/runs"):
        page.get_by_role("button", name="Show match 1", exact=True).click()
    expect(page.get_by_role("link", name="Parquet")).not_to_have_attribute("href", href)
    page.get_by_role("button", name="Show match 1", exact=True).click()
    expect(page.get_by_role("heading", name="Match 1")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_match_whose_values_alone_are_selected_is_opened(open_page: Opener) -> None:
    page = open_page("SELECT s[price] AS price FROM Stocks WHERE SELL AS s ; BUY AS b")
    expect(page.locator("#count")).to_have_text("11")
    page.get_by_role("button", name="Show match 2", exact=True).click()
    events = page.get_by_role("region", name="Events of match 2").get_by_role("row")
    expect(events).to_have_count(3)
    expect(events.nth(1)).to_contain_text("srow 1SELL")
    expect(events.nth(2)).to_contain_text("no variablerow 3BUY")
    keep(page, "values")
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".where")).to_have_text("row 1 · 2 of 7")


def test_rows_are_numbered_as_the_command_line_numbers_them(open_page: Opener) -> None:
    page = open_page()
    write(page, "SELECT a, b FROM late WHERE A AS a ; B AS b")
    file = {"name": "late.csv", "mimeType": "text/csv", "buffer": b"type,ts\nB,9\nA,1\nC,5\n"}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#data-body")).to_contain_text("3 events")
    page.get_by_role("button", name="Run", exact=True).click()
    row = page.get_by_role("region", name="Matches").get_by_role("row").nth(1)
    expect(row).to_have_text("11019")  # match 1, from row 1 to row 0, from time 1 to 9
    page.get_by_role("button", name="Show match 1", exact=True).click()
    events = page.get_by_role("region", name="Events of match 1").get_by_role("row")
    expect(events).to_have_text(["variableeventtypets", "arow 1A1", "brow 0B9"])
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".where")).to_have_text("row 1 · 1 of 3")
    page.get_by_role("button", name="Next event", exact=True).click()
    expect(page.locator(".where")).to_have_text("row 2 · 2 of 3")


def test_matches_are_downloaded_as_csv(open_page: Opener) -> None:
    page = open_page()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "matches.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"start","end","start_ts","end_ts","name","s","b"'
    assert [line.split(",")[:2] for line in lines[1:]] == [["2", "3"], ["2", "5"], ["4", "6"]]


def test_matches_are_downloaded(open_page: Opener) -> None:
    page = open_page()
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON lines").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert all(json.loads(line) for line in lines)


# ------------------------------------------------------------------------ understanding


@SIZES
def test_stepping_shows_what_each_event_did(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    page.get_by_role("tab", name="Step by step").click()
    steps = page.locator("#panel-steps")
    expect(steps.get_by_role("img", name=re.compile("Automaton with"))).to_be_visible()
    expect(steps.locator(".where")).to_have_text("row 0 · 1 of 7")
    for _ in range(3):
        steps.get_by_role("button", name="Next event", exact=True).click()
    expect(steps.locator(".where")).to_have_text("row 3 · 4 of 7")
    expect(steps.locator(".step-words")).to_contain_text("INTL")
    expect(steps.locator(".completed")).to_have_text("1 match ends with this event.")
    expect(steps.locator(".automaton .taken")).not_to_have_count(0)
    steps.get_by_role("slider", name="Event").press("End")
    expect(steps.locator(".where")).to_have_text("row 6 · 7 of 7")
    assert fits(page)
    keep(page, f"steps-{size[0]}")


def test_a_match_of_the_table_is_followed_event_by_event(open_page: Opener) -> None:
    """The two screenshots are the pictures of docs/how-to/use-the-playground.md."""
    page = open_page(GUESSED, "logins", size=(1280, 760))
    expect(page.locator("#count")).to_have_text("9")
    page.get_by_role("button", name="Show match 5", exact=True).click()
    expect(page.get_by_role("region", name="Events of match 5").get_by_role("row")).to_have_count(8)
    expect(page.locator(".range")).to_have_text("59 seconds in view")
    page.screenshot(path=SHOTS / "playground.png")
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".where")).to_have_text("row 7640 · 7,641 of 20,000")
    expect(page.locator(".step-words")).to_contain_text("after f 1 partial match")
    page.get_by_role("button", name="Next event", exact=True).click()
    expect(page.locator(".where")).to_have_text("row 7641 · 7,642 of 20,000")
    expect(page.locator(".automaton .edge-count").first).to_be_visible()
    page.get_by_role("button", name="Event before", exact=True).click()
    expect(page.locator(".where")).to_have_text("row 7640 · 7,641 of 20,000")
    page.get_by_role("button", name="Next event in its partition").click()
    expect(page.locator(".step-words")).to_contain_text("after f (2) 1 partial match")
    page.screenshot(path=SHOTS / "playground-steps.png")
    where = page.locator(".where").inner_text()
    page.get_by_role("tab", name="Matches").click()
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".where")).to_have_text(where)  # the same match: where it was left
    page.get_by_role("tab", name="Matches").click()
    page.get_by_role("button", name="Show match 1", exact=True).click()
    events = page.get_by_role("region", name="Events of match 1").get_by_role("row")
    first = events.nth(1).get_by_role("cell").nth(1).inner_text()
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".where")).to_have_text(re.compile(f"^{first} · "))
    page.get_by_role("button", name="Next event", exact=True).click()
    expect(page.locator(".where")).not_to_have_text(re.compile(f"^{first} · "))
    page.get_by_role("tab", name="Matches").click()
    page.get_by_role("button", name="Step through").click()
    expect(page.locator(".where")).to_have_text(re.compile(f"^{first} · "))


def test_why_not_names_the_event_and_the_condition(open_page: Opener) -> None:
    page = open_page("SELECT * FROM Stocks WHERE SELL AS s ; BUY AS b FILTER b[price > 1000]")
    page.get_by_role("tab", name="Why not?").click()
    page.get_by_label("Go to row").fill("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("checkbox", name="Pick row 1", exact=True)).to_have_count(0)
    for number in (2, 3):
        page.get_by_role("checkbox", name=f"Pick row {number}", exact=True).check()
    page.get_by_role("button", name="Why not?", exact=True).click()
    answer = page.locator(".why-answer")
    expect(answer.locator("li.stopped")).to_contain_text("row 3")
    expect(answer.locator("li.stopped")).to_contain_text("price > 1000")
    keep(page, "why")


RISES = """SELECT * FROM Stocks MATCH_RECOGNIZE (
  ORDER BY ts MEASURES FIRST(price) AS first, LAST(price) AS last
  PATTERN (a up+) DEFINE up AS price > PREV(price))"""


@SIZES
def test_sql_has_rows_a_timeline_and_why_not(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(RISES, language="sql", size=size)
    expect(page.locator("#count")).to_have_text("3")
    expect(page.get_by_role("combobox", name="Language")).to_have_value("sql")
    lanes = page.get_by_role("list", name="Lanes")
    expect(lanes).to_contain_text("SELL")
    page.locator("select", has_text="lanes by variable").select_option("variable")
    expect(lanes).to_contain_text("UP")
    matches = page.locator("#panel-matches")
    expect(matches).to_contain_text("last")
    expect(matches).to_contain_text("1900")
    page.get_by_role("tab", name="Why not?").click()
    for number in (2, 3):
        page.get_by_role("checkbox", name=f"Pick row {number}", exact=True).check()
    page.get_by_role("button", name="Why not?", exact=True).click()
    answer = page.locator(".why-answer")
    expect(answer).to_contain_text("row 3 does not fit: price = 80, PREV(price) = 80")
    assert fits(page)
    keep(page, f"sql-{size[0]}")
    write(page, RISES.replace("up AS", "upp AS"))
    expect(page.get_by_role("list", name="Problems")).to_contain_text("'UPP' is no variable")


def test_partial_matches_are_counted_step_by_step(open_page: Opener) -> None:
    query = (
        "SELECT * FROM Stocks WHERE SELL AS s ; BUY AS b FILTER b[price > 200] PARTITION BY [name]"
    )
    page = open_page(query, size=PHONE)
    page.get_by_role("tab", name="Why not?").click()
    page.get_by_role("button", name="Count", exact=True).click()
    steps = page.get_by_role("region", name="Partial matches by step").get_by_role("row")
    expect(steps).to_have_count(3)
    expect(steps.nth(1)).to_contain_text("SELL AS s")
    expect(steps.nth(2)).to_contain_text("b[price > 200]")
    without = page.get_by_role("region", name="Matches without each obstacle")
    expect(without).to_contain_text("PARTITION BY")
    page.get_by_label("Only name").fill("AMZN")
    page.keyboard.press("Enter")
    expect(page.locator(".funnel-total")).to_contain_text("of key 'AMZN'")
    assert fits(page)
    keep(page, "funnel")


def test_matches_are_labelled_by_keys_and_buttons(open_page: Opener, tmp_path: Path) -> None:
    page = open_page(size=PHONE)
    page.get_by_role("tab", name="Label").click()
    ask = page.locator(".label-ask h3")
    expect(ask).to_contain_text("Is this real? Rows")
    expect(page.get_by_role("region", name="Events of this match")).to_be_visible()
    precision = page.locator(".precision")
    expect(precision).to_contain_text("No labels yet")
    before = ask.inner_text()
    page.keyboard.press("y")
    expect(precision).to_contain_text("Precision 100.0%")
    expect(ask).not_to_have_text(before)
    page.keyboard.press("z")
    expect(ask).to_have_text(before)
    expect(precision).to_contain_text("No labels yet")
    page.get_by_role("button", name="Real", exact=True).click()
    page.get_by_role("button", name="Not real").click()
    expect(precision).to_contain_text("Precision 50.0%")
    expect(precision.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("^Precision 50.0%, between ")
    )
    keep(page, "label")
    assert fits(page)
    page.keyboard.press("u")
    expect(ask).to_have_text("Every match has a label.")
    expect(precision).to_contain_text("1 label unsure, left out")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download labels").click()
    file = tmp_path / "labels.jsonl"
    started.value.save_as(file)
    head, *labels = map(json.loads, file.read_text().splitlines())
    assert head["variables"] == ["b", "s"]
    assert [one["label"] for one in labels] == ["y", "n", "unsure"]
    page.reload()  # the next version is measured on the same labels
    write(page, f"{TRADES}\nWITHIN 100 EVENTS")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#stale")).to_be_hidden()
    page.get_by_role("tab", name="Label").click()
    expect(precision).to_contain_text("Precision 50.0%")
    page.get_by_role("button", name="Discard").click()
    expect(precision).to_contain_text("No labels yet")
    page.get_by_label("Open labels").set_input_files(file)
    expect(precision).to_contain_text("Precision 50.0%")
    write(page, "SELECT * FROM Stocks WHERE SELL AS x")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#count")).to_have_text("4")
    page.get_by_role("tab", name="Label").click()
    expect(ask).to_contain_text("labels.jsonl, line 1: these are labels of another query")


@SIZES
def test_events_are_picked_from_those_of_a_key(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    page.get_by_role("tab", name="Why not?").click()
    expect(page.get_by_label("Key", exact=True)).to_have_value("name")  # the query's PARTITION BY
    picks = page.get_by_role("region", name="Events to pick").get_by_role("row")
    expect(picks).to_have_count(8)
    page.get_by_label("Value of the key").press_sequentially("AMZN")
    expect(picks).to_have_count(3)
    expect(page.locator("#panel-why .pager")).to_contain_text("events 1–2 of 2")
    page.get_by_role("checkbox", name="Pick row 4").check()
    page.get_by_label("Value of the key").fill("INTL")
    expect(picks).to_have_count(4)
    page.get_by_role("checkbox", name="Pick row 5").check()
    page.get_by_role("button", name="Why not?", exact=True).click()
    expect(page.locator(".why-answer")).to_contain_text("row 5 has another key")
    assert fits(page)
    keep(page, f"key-{size[0]}")
    page.get_by_label("Value of the key").fill("nobody")
    expect(page.locator("#panel-why .pager")).to_contain_text("no event has this value")
    page.get_by_label("Key", exact=True).select_option("type")
    page.get_by_label("Value of the key").fill("SELL")
    expect(picks).to_have_count(5)
    page.get_by_label("Value of the key").fill("")
    expect(picks).to_have_count(8)


def test_the_plan_is_told_in_words(open_page: Opener) -> None:
    page = open_page()
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_role("region", name="Plan in words")).to_contain_text("automaton")


# --------------------------------------------------------------------------------- data

HOSTILE = "<img src=x onerror=alert(1)>"


@SIZES
def test_a_file_is_uploaded_and_its_markup_stays_text(
    open_page: Opener, size: tuple[int, int]
) -> None:
    page = open_page(size=size)
    rows = [f'A,"{HOSTILE}",{n}\nB,"<b>bold</b>",{n}' for n in range(3)]
    file = {
        "name": f'"><script>alert(1)</script>{size[0]}.csv',
        "mimeType": "text/csv",
        "buffer": "\n".join([f'type,"{HOSTILE}",n', *rows]).encode(),
    }
    write(page, "")  # the page offers a query where there is none
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#data-body")).to_contain_text(HOSTILE)
    expect(page.locator("#count")).to_have_text("6")
    page.get_by_role("button", name="Show match 1", exact=True).click()
    expect(page.get_by_role("region", name="Events of match 1")).to_contain_text("<b>bold</b>")
    page.get_by_role("tab", name="Step by step").click()
    expect(page.locator(".step-words")).to_contain_text(HOSTILE)
    assert page.locator("main img, main b:text-is('bold'), main script").count() == 0
    assert fits(page)


def test_files_that_are_dropped_are_streams_of_one_source(open_page: Opener) -> None:
    page = open_page()
    page.evaluate(
        """() => {
            const carried = new DataTransfer();
            carried.items.add(new File(["type,n\\nC,1\\nD,2\\n"], "one.csv"));
            carried.items.add(new File(["type,n\\nE,1\\n"], "two.csv"));
            document.body.dispatchEvent(
                new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
        }"""
    )
    chosen = page.get_by_role("combobox", name="Data source").locator("option:checked")
    expect(chosen).to_have_text("2 files together")
    expect(page.locator("#data-body summary")).to_have_text(["one 2 events", "two 1 event"])


def test_an_upload_says_which_columns_are_types_and_times_and_is_removed(open_page: Opener) -> None:
    page = open_page()
    write(page, "")
    rows = b"what,when\nA,60\nB,90\nB,900\n"
    file = {"name": "odd.csv", "mimeType": "text/csv", "buffer": rows}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_label("Types in").select_option("what")
    expect(page.get_by_role("list", name="Event types").get_by_role("listitem").first).to_have_text(
        "B2"
    )
    page.get_by_label("Times in").select_option("when")
    choose(page, "counting", "s")
    write(page, "SELECT * FROM odd WHERE A AS a ; B AS b WITHIN 1 MINUTE")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#count")).to_have_text("1")
    page.get_by_role("button", name="Remove upload").click()
    expect(page.get_by_role("combobox", name="Data source")).to_have_value(
        '{"sample":"paper-core"}'
    )


def test_a_choice_of_a_column_keeps_the_one_that_is_still_being_read(open_page: Opener) -> None:
    page = open_page()
    file = {"name": "odd.csv", "mimeType": "text/csv", "buffer": b"what,when\nA,60\nB,90\nB,900\n"}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    types = page.get_by_label("Types in")
    expect(types).to_have_value("")
    held: list[Route] = []
    holds = True

    def hold(route: Route) -> None:
        held.append(route) if holds else route.continue_()

    page.route("**/api/data", hold)
    types.select_option("what")
    page.get_by_label("Times in").select_option("when")
    holds = False  # a request may come later than this
    for route in held:
        route.continue_()
    expect(page.get_by_label("counting")).to_be_visible()
    expect(types).to_have_value("what")


AIR = """SELECT ?n FROM STREAM air <urn:air>
WHERE { SEQ (Low : High)
  DEFINE GPM Low ON air { ?s <urn:p> "0" } DEFINE GPM High ON air { ?s <urn:p> ?n } }"""


def test_graphs_are_uploaded_with_a_query_to_begin_with(open_page: Opener) -> None:
    page = open_page()
    time = "<http://www.w3.org/ns/prov#generatedAtTime>"
    kind = "<http://www.w3.org/2001/XMLSchema#dateTime>"
    quads = [
        f'<urn:{n}> {time} "2024-07-01T12:0{n}:00Z"^^{kind} .\n<urn:s> <urn:p> "{n}" <urn:{n}> .\n'
        for n in range(3)
    ]
    file = {"name": "air.nq", "mimeType": "text/plain", "buffer": "".join(quads).encode()}
    write(page, "")
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#count")).to_have_text("3")
    expect(editor(page)).to_contain_text("FROM STREAM air <urn:air>")
    expect(page.get_by_role("list", name="Lanes")).to_contain_text("air")
    write(page, AIR)
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#count")).to_have_text("2")
    page.get_by_role("tab", name="Step by step").click()
    steps = page.locator("#panel-steps")
    expect(steps.get_by_role("img", name=re.compile("Automaton with"))).to_be_visible()
    steps.get_by_role("button", name="Next event", exact=True).click()
    expect(steps.locator(".where")).to_have_text("air 1 · 2 of 3")
    expect(steps.locator(".completed")).to_have_text("1 match ends with this event.")
    expect(steps.locator(".step-words")).to_contain_text("after Low 1 partial match")
    keep(page, "steps-of-graphs")
    page.get_by_role("tab", name="Why not?").click()
    page.get_by_label("Value of the key").fill('"2"')
    expect(page.get_by_role("checkbox")).to_have_count(1)
    page.get_by_label("Value of the key").fill("")
    for number in (1, 2):
        page.get_by_role("checkbox", name=f"Pick air {number}", exact=True).check()
    page.get_by_role("button", name="Why not?", exact=True).click()
    expect(page.locator(".why-answer li.stopped")).to_contain_text('air 1 Low: ?s <urn:p> "0"')


def test_a_file_that_cannot_be_read_says_why_with_the_page_of_its_code(open_page: Opener) -> None:
    page = open_page()
    file = {"name": "broken.parquet", "mimeType": "", "buffer": b"PAR1 no more"}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#trouble")).to_contain_text("broken.parquet")
    link = page.locator("#trouble a.code")
    expect(link).to_have_attribute("href", "/codes/unreadable-input")
    with page.context.expect_page() as opened:
        link.click()
    expect(opened.value.locator("h1")).to_have_text("unreadable-input")


def test_an_upload_over_the_limit_is_refused_before_it_is_sent(open_page: Opener) -> None:
    page = open_page()
    file = {"name": "large.csv", "mimeType": "text/csv", "buffer": b"a\n" * 600_000}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    expect(page.get_by_role("alert")).to_contain_text("large.csv has 1.2 MB; an upload may have")


# ------------------------------------------------------------------- links, colours, keys


@SIZES
def test_a_shared_link_holds_query_and_sample(open_page: Opener, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    write(page, "SELECT * FROM Stocks WHERE BUY AS b -- ü & #")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name=re.compile("Copied|address bar"))).to_be_visible()
    assert "sample=paper-core" in page.url
    page.reload()
    expect(page.locator("#count")).to_have_text("3")
    expect(editor(page)).to_have_text("SELECT * FROM Stocks WHERE BUY AS b -- ü & #")
    expect(page.get_by_role("combobox", name="Data source")).to_have_value(
        '{"sample":"paper-core"}'
    )


def test_a_reload_keeps_the_query_and_its_source(open_page: Opener) -> None:
    page = open_page(None)
    page.get_by_role("combobox", name="Data source").select_option('{"sample":"paper-core"}')
    expect(page.locator("#count")).to_have_text(re.compile(r"^[\d,]+$"))
    write(page, "SELECT * FROM Stocks WHERE BUY AS b -- mine")
    page.reload()
    expect(page.locator("#count")).to_have_text("3")
    expect(editor(page)).to_have_text("SELECT * FROM Stocks WHERE BUY AS b -- mine")
    source = page.get_by_role("combobox", name="Data source")
    expect(source).to_have_value('{"sample":"paper-core"}')
    file = {"name": "odd.csv", "mimeType": "text/csv", "buffer": b"what,when\nA,60\nB,90\nB,900\n"}
    page.get_by_label("Upload files").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_label("Types in").select_option("what")
    page.get_by_label("Times in").select_option("when")
    choose(page, "counting", "s")
    write(page, "SELECT * FROM odd WHERE A AS a ; B AS b WITHIN 1 MINUTE")
    page.reload()
    expect(page.locator("#count")).to_have_text("1")
    expect(source.locator("option:checked")).to_have_text("odd.csv")
    expect(page.get_by_label("counting")).to_have_value("s")
    keep(page, "reloaded")
    upload = json.loads(source.input_value())["uploads"][0]
    assert page.request.delete(f"/api/uploads/{upload}", headers={"X-Cernis": "1"}).ok
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("has these events no longer")
    expect(editor(page)).to_have_text("SELECT * FROM odd WHERE A AS a ; B AS b WITHIN 1 MINUTE")


def test_a_link_comes_before_what_a_tab_remembers(open_page: Opener) -> None:
    page = open_page()
    write(page, "SELECT * FROM Stocks WHERE BUY AS b -- mine")
    page.reload()  # the address still has the link that was opened first
    expect(editor(page)).to_contain_text("-- mine")
    page.goto(f"/#sample=paper-core&language=ceql&query={quote('SELECT * FROM Stocks WHERE SELL')}")
    expect(page.locator("#count")).to_have_text("4")
    expect(editor(page)).to_have_text("SELECT * FROM Stocks WHERE SELL")


def test_light_and_dark_are_a_choice_that_stays(open_page: Opener) -> None:
    page = open_page()
    dark = page.get_by_role("button", name="Dark colours")
    expect(dark).to_have_attribute("aria-pressed", "false")
    dark.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(dark).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#count")).not_to_be_empty()
    keep(page, "dark")
    dark.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_every_control_is_reached_by_the_tab_key(open_page: Opener) -> None:
    page = open_page()
    ids = ("share", "theme", "language", "run", "source", "upload", "tab-matches")
    missed = {"CANVAS", "editor", *ids}
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const { id, tagName, classList } = document.activeElement;
                return classList.contains("cm-content") ? "editor" : id || tagName;
            }"""
        )
        missed.discard(focused)
        if focused == "editor":
            page.keyboard.press("Escape")  # the next Tab leaves the editor
        if not missed:
            break
    assert missed == set()


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_axe_finds_nothing_to_mend(open_page: Opener, size: tuple[int, int], scheme: str) -> None:
    page = open_page(size=size)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    write(page, "SELECT * FROM Stocks WHERE SEL AS s -- a mistake\nFILTER s[prise > 1]")
    expect(page.get_by_role("list", name="Problems").locator("pre")).not_to_have_count(0)
    page.get_by_role("application").focus()
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Match 1")).to_be_visible()
    found = _run_axe(page)
    for tab in ("Step by step", "Why not?", "Label", "Plan"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel", name=tab)).to_be_visible()
        if tab == "Why not?":
            page.get_by_role("button", name="Count", exact=True).click()
            expect(page.get_by_role("region", name="Partial matches by step")).to_be_visible()
            keep(page, f"funnel-{scheme}")
        if tab == "Label":
            expect(page.get_by_role("heading", name="Is this real?")).to_be_visible()
            page.keyboard.press("y")
            expect(page.locator(".precision")).to_contain_text("Precision 100.0%")
            keep(page, f"label-{scheme}")
        found |= _run_axe(page, "#tabs")
    assert found == set()


def _run_axe(page: Page, part: str | None = None) -> set[str]:
    """Return what axe finds: the rule, and the element."""
    results = Axe().run(page, context=part).response
    return {
        f"{violation['id']}: {node['html']} {node.get('failureSummary', '')}"
        for violation in results["violations"]
        for node in violation["nodes"]
    }

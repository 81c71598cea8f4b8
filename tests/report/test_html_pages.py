"""The pages of `show --html` and `phases --html`, as a real browser opens them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenttrace.phases.distributions import GroupTimings
from agenttrace.records import ErrorRecord, Marks, PhaseTiming, SpanRecord, Usage
from agenttrace.report.phases_page import phases_page
from agenttrace.report.trace_page import OPENED, TEXT_LIMIT, trace_page
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from agenttrace.store.timings import Selection, read_timings
from tests.browser import open_page
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span
from tests.end_to_end.test_list_show import agenttrace
from tests.store.test_timings import a_call

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "</style></title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\x1b[31m\u202e"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_page() as page:
        yield page


def opened(page: Page, folder: Path, html: str) -> list[str]:
    """Open the page from its file; what the browser complained of, and what it wanted to load besides."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
    page.goto(file.as_uri())
    return said


def an_agent(name: str = "agent") -> list[SpanRecord]:
    phases = (
        PhaseTiming(name="queue", ns=SECOND // 2, source="server-reported"),
        PhaseTiming(name="decode", ns=None, low_ns=0, high_ns=SECOND // 2),
    )
    return [
        a_span(1, name=name, kind="agent", end_ns=NOON + 3 * SECOND),
        a_model_call(2, name="ChatModel", phases=phases, call_site=name, usage=Usage(input=10, output=5), marks=Marks(),
                     input=[{"role": "user", "content": f"{name} asks"}], output={"role": "assistant", "content": "long " * 9_000}),
        a_span(3, parent_id=f"{1:016x}", kind="tool", name="search", state="error", start_ns=NOON + SECOND,
               end_ns=NOON + 2 * SECOND, error=ErrorRecord(type="ValueError", message=name)),
    ]  # fmt: skip


def test_a_trace_opens_to_its_phases_and_messages_by_the_keyboard(page: Page, tmp_path: Path) -> None:
    """Tab reaches a step, Enter opens it; a screen reader gets names, levels and tables with captions."""
    said = opened(page, tmp_path, trace_page(a_run(), an_agent()))
    assert said == []
    assert page.title() == "agent: 3.0 s"
    steps = page.locator("ol.steps > li")
    assert steps.count() == 3
    phases = page.get_by_role("table", name="Phases of ChatModel")
    assert not phases.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert phases.is_visible()
    assert re.sub(r"\s+", " ", phases.inner_text()).endswith(
        "queue 0.5 s 50 % server-reported decode 0 to 0.5 s unknown"
    )
    assert not page.get_by_text("agent asks").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_by_text("user: agent asks").is_visible()
    assert steps.nth(1).get_attribute("aria-level") == "2"
    assert page.get_by_role("table", name="The critical path by cause").is_visible()


def test_what_is_cut_is_said(page: Page, tmp_path: Path) -> None:
    """A long output is shown as far as the limit, with how much is missing."""
    opened(page, tmp_path, trace_page(a_run(), an_agent()))
    step = page.locator("ol.steps > li").nth(1)
    assert len(step.locator("pre").last.text_content() or "") == TEXT_LIMIT
    assert "characters more" in (step.text_content() or "")


def test_what_was_recorded_stays_text(page: Page, tmp_path: Path) -> None:
    """Markup, scripts and control characters in names, errors and messages are shown and do nothing, by escaping and by policy."""
    html = trace_page(a_run(name=HOSTILE), an_agent(HOSTILE))
    assert opened(page, tmp_path, html) == []
    assert page.title() != "owned"
    assert page.locator("script").count() == page.locator("img").count() == 0
    assert "<script>" in page.locator("h1").inner_text()
    assert "\x1b" not in html
    assert "\u202e" not in html
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=\"document.title=1\">')"
    )
    assert page.evaluate("document.querySelector('img').naturalWidth") == 0
    assert page.title() != "1"


def test_ten_thousand_steps_are_all_there(page: Page, tmp_path: Path) -> None:
    """A long trace is one page, with every step; the shorter ones do not open, and the page says how many."""
    spans = [a_span(1, end_ns=NOON + 10_000 * SECOND)]
    for number in range(2, 10_001):
        start = NOON + number * SECOND
        spans.append(
            a_span(
                number, parent_id=f"{1:016x}", kind="tool", start_ns=start, end_ns=start + SECOND, output="word " * 50
            )
        )
    assert opened(page, tmp_path, trace_page(None, spans)) == []
    assert page.locator("ol.steps > li").count() == 10_000
    assert page.locator("ol.steps > li > details").count() == OPENED
    assert "9,500 shorter steps do not open here" in page.locator("main").inner_text()


def groups(store: Path, spans: list[SpanRecord]) -> tuple[GroupTimings, ...]:
    import_records(store, [a_run()], spans)
    with open_store(store).connection() as connection:
        return read_timings(connection, Selection()).groups


def test_distributions_are_drawn_and_told_in_tables(page: Page, tmp_path: Path) -> None:
    """Each measure has a picture with a label and a table with its quantiles; two runs share both."""
    found = groups(tmp_path / "store", [a_call(n) for n in range(1, 41)])
    assert opened(page, tmp_path, phases_page([HOSTILE, "later"], [found, found], None)) == []
    assert page.get_by_role("img", name="Histogram of queue").is_visible()
    table = page.get_by_role("table", name="Quantiles of queue").inner_text()
    assert re.search(r"A\s+100 %\s+20 ms \(14 ms to 27 ms\)", table)
    assert re.search(r"B\s+100 %\s+20 ms", table)
    assert page.locator("script").count() == 0
    assert page.locator("svg.plot rect.a").count() == page.locator("svg.plot rect.b").count() > 0
    assert "not judged here" in page.locator("main").inner_text()


def test_the_commands_write_the_pages(store: Path, tmp_path: Path) -> None:
    """`--html FILE` writes a file and says where; `-` prints it; a file that cannot be written is one sentence."""
    import_records(store, [a_run()], [a_call(n) for n in range(1, 10)])
    for command in (["show", "last"], ["phases"], ["phases", "--compare", "nightly", "run1"]):
        path = tmp_path / "page.html"
        result = agenttrace(*command, "--html", str(path))
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
        assert str(path) in result.stderr
        assert path.read_text().startswith("<!doctype html>")
        assert agenttrace(*command, "--html", "-").stdout == path.read_text()
        path.unlink()
    refused = agenttrace("phases", "--html", str(tmp_path / "nowhere" / "page.html"))
    assert refused.returncode == 3
    assert "cannot be written" in refused.stderr


def test_a_damaged_trace_has_a_page(page: Page, tmp_path: Path) -> None:
    """Without root, unfinished, with parents in a circle or clocks that jumped: every step is there, and no number is made up."""
    spans = [
        a_span(2, parent_id=f"{1:016x}", end_ns=None, state="unfinished"),
        a_span(3, parent_id=f"{4:016x}", end_ns=NOON - SECOND),
        a_span(4, parent_id=f"{3:016x}", kind="tool", end_ns=NOON + SECOND),
    ]
    assert opened(page, tmp_path, trace_page(None, spans)) == []
    assert page.locator("ol.steps > li").count() == 3
    assert "has not ended, or its root is missing" in page.locator("main").inner_text()
    assert "nan" not in page.locator("main").inner_text().lower()

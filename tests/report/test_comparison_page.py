"""The page of a comparison, in a real browser: all of it there, nothing recorded obeyed, small, and without a network."""

from __future__ import annotations

from pathlib import Path

from agenttrace.comparison.outcome import Comparison
from agenttrace.judging import Details
from agenttrace.phases.distributions import Distribution, GroupTimings, Load
from agenttrace.report.comparison_page import comparison_page
from agenttrace.report.output_diff import MAX_BYTES, output_diff, output_text
from tests.browser import open_page
from tests.report.reports import HOSTILE, hostile, refused, regressed

ATTACK = f"{HOSTILE} <img src=x onerror=alert(1)> \"' style=x {{{{ 7*7 }}}} </pre></style>"


def timings(bins: dict[int, int]) -> tuple[GroupTimings, ...]:
    measured = [
        Distribution(name=name, applicable=9, known=9, sources={}, quantiles={}, maximum=None, bins=bins)
        for name in ("duration", "prefill", ATTACK)
    ]
    return (
        GroupTimings(
            name="m-1", calls=9, left_out={}, distributions=tuple(measured), unknown_phases=(),
            load=Load(first_ns=0, last_ns=1), output_tokens=0, output_known=0, input_tokens=0, cached_tokens=0,
            cached_known=0, cache_hits=0,
        ),
    )  # fmt: skip


def with_traces(comparison: Comparison, before: str, after: str) -> tuple[Comparison, Details]:
    """Each case with two traces and their outputs."""
    from dataclasses import replace

    traces = {case.case: ((f"{number:031x}a",), (f"{number:031x}b",)) for number, case in enumerate(comparison.cases)}
    outputs = {one: text for a, b in traces.values() for one, text in ((a[0], before), (b[0], after))}
    details = Details(outputs=outputs, baseline_times=timings({70: 4, 72: 5}), candidate_times=timings({72: 4, 80: 5}))
    return replace(comparison, traces=traces), details


def page_of(comparison: Comparison, before: str, after: str, phoenix: str | None = None) -> str:
    told, details = with_traces(comparison, before, after)
    return comparison_page(told, details, store=None, phoenix=phoenix)


def test_all_of_it_is_there(tmp_path: Path) -> None:
    """Verdict, interval plot, settings, both outputs with what changed, times, and both traces; the keyboard opens a case."""
    file = tmp_path / "report.html"
    file.write_text(page_of(regressed(), "The vase is blue.", "The vase is red.", "http://127.0.0.1:6006"))
    with open_page() as page:
        page.goto(file.as_uri())
        assert page.locator("h1").inner_text().startswith("Verdict: regressed")
        assert page.get_by_role("img").count() >= 1 + 3
        assert page.locator("line.margin").count() >= 1
        assert "prompt.content" in page.locator("ul").nth(1).inner_text()
        row = page.locator("tbody tr").first.inner_text().split("\t")
        assert (row[:3], row[-1]) == (["correct", "30 × 5", "1 → 0.1"], "regressed")
        case = page.locator("details").first
        assert case.locator("summary").inner_text() == "q3: correct 1 → 0 regressed"
        assert not case.locator("pre").first.is_visible()
        case.locator("summary").focus()
        page.keyboard.press("Enter")
        assert case.locator("pre").first.inner_text() == "The vase is blue."
        assert (case.locator("del").inner_text(), case.locator("ins").inner_text()) == ("blue.", "red.")
        assert case.locator("code").first.inner_text().startswith("agenttrace show ")
        link = case.get_by_role("link").first.get_attribute("href") or ""
        assert link.startswith("http://127.0.0.1:6006/redirects/traces/")
        assert page.locator("rect.baseline").count() == page.locator("rect.candidate").count() == 6


def test_nothing_recorded_is_obeyed(tmp_path: Path) -> None:
    """No script, handler, style or request of an output runs; the page's own style does, and its policy breaks nowhere."""
    file = tmp_path / "report.html"
    text = page_of(hostile(), ATTACK, f"{ATTACK} and more", "javascript:alert(1)")
    file.write_text(text, encoding="utf-8", errors="replace")
    with open_page() as page:
        told: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.on("request", lambda request: told.append(request.url))
        page.goto(file.as_uri())
        assert told == [file.as_uri()]
        assert page.locator("script, img, a, iframe, form, [onerror], [style]").count() == 0
        assert page.locator("body").evaluate("element => getComputedStyle(element).maxWidth") == "1216px"
        page.locator("summary").first.click()
        assert "<img src=x onerror=alert(1)>" in page.locator("details pre").first.inner_text()
        assert "{{ 7*7 }}" in page.locator("details pre").first.inner_text()


def test_two_hundred_cases_stay_below_two_megabytes() -> None:
    """However long the outputs are, and although each of their characters takes five when it is escaped."""
    text = page_of(hostile(203), "<&'\" " * 10_000, "<&'\" " * 9_000 + "no")
    assert text.count("<details>") == 200
    assert len(text.encode("utf-8", "replace")) < 2_000_000


def test_a_refusal_has_a_page_too() -> None:
    """What differs and how to declare it; no numbers."""
    text = comparison_page(
        refused(), Details(outputs={}, baseline_times=(), candidate_times=()), store=None, phoenix=None
    )
    assert "not comparable" in text
    assert "--changed sampling.temperature" in text
    assert "<table>" not in text


def test_a_diff_tells_words_and_knows_when_to_be_silent() -> None:
    """What went and came between what stayed; nothing of equal texts, of missing ones, and of those with nothing in common."""
    assert output_diff("a b c", "a x c") == [("same", "a "), ("del", "b"), ("ins", "x"), ("same", " c")]
    assert output_diff("a", "a") == output_diff(None, "a") == []
    assert output_diff(" ".join("abcdefghij" * 9), " ".join("bacdxfghji" * 9)) == []


def test_a_long_output_is_cut_where_it_is_seen() -> None:
    """With a word that says so; a structure is shown as JSON, and nothing stays nothing."""
    assert (output_text("x" * (MAX_BYTES + 1)) or "").endswith("(cut here)")
    assert output_text("x" * MAX_BYTES) == "x" * MAX_BYTES
    assert output_text({"a": 1}) == '{\n "a": 1\n}'
    assert output_text(None) is None

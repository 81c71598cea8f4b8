"""The comment of a pull request: verdict first, nothing recorded is acted on, and it fits."""

from __future__ import annotations

import re

from agenttrace.report.markdown_report import MARKER, MAX_CHARACTERS, code, markdown_report, prose
from tests.report.reports import HOSTILE, hostile, refused, regressed, undecided


def test_the_verdict_comes_first_and_details_are_folded() -> None:
    """Marker, verdict, reasons, one table; settings and cases below a fold."""
    text = markdown_report(regressed())
    lines = text.splitlines()
    assert lines[0] == MARKER
    assert lines[1].startswith("## ❌ agenttrace: regressed")
    assert text.index("- correct regressed") < text.index("| metric |") < text.index("<details>")
    assert text.count("<details>") == text.count("</details>") > 1
    assert "<code>prompt&#46;content</code>" in text


def test_a_refusal_names_the_flag() -> None:
    """What differs, and what would declare it."""
    text = markdown_report(refused())
    assert "## ⛔ agenttrace: not comparable" in text
    assert code("--changed sampling.temperature") in text
    assert "| metric |" not in text


def test_inconclusive_says_what_would_decide() -> None:
    """It is neither a pass nor a failure."""
    assert "## ⚠️ agenttrace: inconclusive" in markdown_report(undecided())


def test_recorded_text_is_not_acted_on() -> None:
    """No tag, mention, link, table cell or control character of a name, a value or a case gets through."""
    text = markdown_report(hostile())
    assert "regressed" in text.splitlines()[1]
    tags = set(re.findall(r"<[^>]*>", text))
    assert tags <= {MARKER, "<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>"}
    assert not re.search(r"@octocat|#1\b(?!;)|\]\(http|\x1b|\x00|\ud800|\u202e|``", text)
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| ")}
    assert len(widths) == 2  # the metrics' table and the cases'


def test_a_sentence_summons_nobody() -> None:
    """A mention or a number of an issue within a sentence is code, where GitHub leaves it alone."""
    assert prose("ask @octocat about #1") == "ask <code>&#64;</code>octocat about <code>&#35;</code>1"


def test_it_fits_into_a_comment() -> None:
    """However many cases there are, whatever they are called."""
    text = markdown_report(hostile(300))
    assert len(text) <= MAX_CHARACTERS
    assert re.search(r"And [\d,]+ cases more", text)
    assert HOSTILE not in text

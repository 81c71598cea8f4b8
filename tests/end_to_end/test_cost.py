"""`agenttrace cost` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agenttrace.records import SettingValue, SpanRecord, Usage
from agenttrace.store.importing import import_records
from tests.builders import NOON, SECOND, a_model_call, a_run, a_span
from tests.end_to_end.test_list_show import agenttrace

DAY = 86_400 * SECOND


def said(value: str) -> SettingValue:
    return SettingValue(value=value, voice="sent", source="wire")


def a_call(number: int, model: str, provider: str | None, day: int = 0, **fields: object) -> SpanRecord:
    settings = {"model.served": said(model), **({"provider": said(provider)} if provider else {})}
    return a_model_call(
        number,
        trace_id=f"{day + 1:032x}",
        start_ns=NOON + day * DAY + number,
        end_ns=NOON + day * DAY + SECOND,
        call_site="planner" if day else "writer",
        usage=Usage(input=4000, cached=1024, output=100, reasoning=20),
        input=[
            {"role": "system", "content": f"Today is 2026-12-0{day + 1}. " + "Be brief. " * 100},
            {"role": "user", "content": "Hello"},
        ],
        settings=settings,
        **fields,
    )


@pytest.fixture
def project(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    calls = [
        a_call(2, "gpt-4o-2024-08-06", "openai"),
        a_call(3, "house-model", None, day=1),
        a_call(4, "house-model", None, day=2),
    ]
    roots = [a_span(1, trace_id=f"{day + 1:032x}", start_ns=NOON + day * DAY) for day in range(3)]
    import_records(store, [a_run(end_ns=NOON + 3 * DAY)], [*roots, *calls])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cost(*arguments: str) -> dict[str, object]:
    result = agenttrace("cost", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def test_what_has_no_price_is_unknown(project: Path) -> None:
    """A total that lacks a call's cost is unknown, at least so much, and the model without a price is named."""
    total = cost("nightly")["total"]
    assert isinstance(total, dict)
    assert total["cost_usd"] is None
    assert total["known_usd"] == pytest.approx(0.00972)
    assert total["unpriced_models"] == ["house-model"]
    shown = agenttrace("cost", "nightly").stdout
    assert "at least $0.00972" in shown
    assert "The cost of 2 calls is unknown: no price is known for house-model." in shown


def test_own_prices_and_days(project: Path) -> None:
    """Prices of one's own make it known; by day they are in order."""
    (project / "pyproject.toml").write_text('[tool.agenttrace.prices."house-model"]\ninput = 1\noutput = 2\n')
    answer = cost("--by", "day")
    assert isinstance(answer["total"], dict)
    assert answer["total"]["cost_usd"] == pytest.approx(0.00972 + 2 * 0.0042)
    assert isinstance(answer["by"], dict)
    days = answer["by"]["day"]
    assert [round(day["cost_usd"], 5) for day in days] == [0.00972, 0.0042, 0.0042]
    assert "prices of your own for house-model" in agenttrace("cost").stdout


def test_what_prompts_are_made_of(project: Path) -> None:
    """With a run: the parts of its prompts, what of them could be reused, and where the prefix breaks."""
    shown = agenttrace("cost", "nightly").stdout
    assert "prompts at planner  2 calls, 8,000 tokens" in shown
    assert "system 99.5 % (about 7,961 tokens), user input 0.5 % (about 39 tokens)" in shown
    assert "provider reported 2,048 cached" in shown
    assert "the prefix breaks at message 1 (system: a date) in 1 call" in shown


def test_a_wrong_configuration_is_told(project: Path) -> None:
    """A misspelt key is exit code 2, with the right one."""
    (project / "pyproject.toml").write_text("[tool.agenttrace]\nprice = 1\n")
    result = agenttrace("cost")
    assert result.returncode == 2
    assert "did you mean 'prices'?" in result.stderr


def test_a_store_without_model_calls(store: Path) -> None:
    """Nothing was paid for: it is said, and is no failure."""
    import_records(store, [a_run()], [a_span()])
    result = agenttrace("cost")
    assert (result.returncode, result.stdout) == (0, "")
    assert "no model call" in result.stderr


def test_the_dearest_traces_are_listed_first(project: Path) -> None:
    """`list --expensive` puts known costs first, says what is only known in part, and leaves out what has no price."""
    listed = json.loads(agenttrace("list", "--expensive", "--json").stdout)
    assert [trace["trace_id"] for trace in listed] == [f"{1:032x}"]
    assert listed[0]["cost_usd"] > 0
    assert "$0.0" in agenttrace("list", "--expensive").stdout
    assert json.loads(agenttrace("list", "--expensive", "--failed", "--json").stdout) == []
    assert agenttrace("list", "--expensive", "--slow").returncode == 2

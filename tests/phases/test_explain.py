"""`explain-response`'s document to its JSON, with the client's view."""

from __future__ import annotations

from typing import Any

import pytest

from agenttrace.phases.explain import explain_response, explanation_json
from tests.phases.builders import LLAMACPP
from tests.phases.test_oracles import ORACLES

MS = 1_000_000


def printed(**document: Any) -> dict[str, Any]:
    shown: dict[str, Any] = explanation_json(explain_response(document))
    return shown


def total(shown: dict[str, Any]) -> float:
    """What a reader of the JSON adds up."""
    entries = shown["phases"].values()
    return float(sum(one["seconds"] for one in entries if one["seconds"] is not None and "included_in" not in one))


def test_shape_is_the_designs() -> None:
    """The JSON has the keys that design.md lists, and the values of its example."""
    shown = explanation_json(explain_response(ORACLES["groq_docs_compound_llama33"]))
    phases: Any = shown["phases"]
    assert list(phases["queue"]) == ["seconds", "low", "high", "source", "method", "definition"]
    assert phases["queue"]["method"] == "groq.usage"
    assert (phases["delivery"]["seconds"], phases["delivery"]["low"], phases["delivery"]["high"]) == (None, 0.0, None)
    assert shown["server_ttft_s"] == pytest.approx(0.0413, abs=5e-5)
    assert shown["tokens"] == {"prompt": 226, "cached": None, "uncached": None, "output": 16, "reasoning": None}
    assert shown["notes"] == ["cached tokens unknown: prefill rate is over all prompt tokens"]
    assert list(shown) == [
        *("provider", "phases", "server_parts_s", "server_total_s", "server_ttft_s"),
        *("tokens", "rates", "rejected", "notes"),
    ]


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("e2e", [0.05, 1.5, 6.0, 500.0])
def test_client_time_divides_exactly(name: str, e2e: float) -> None:
    """With the client's end to end, what has seconds adds up to it."""
    payload = {key: value for key, value in ORACLES[name].get("payload", {}).items() if key != "e2e_s"}
    shown = printed(payload=payload, headers=ORACLES[name].get("headers", {}), client={"e2e_s": e2e})
    assert total(shown) == pytest.approx(e2e, abs=1e-9)


def test_client_marks_bound_and_observe() -> None:
    """First and last token as `show --json` prints them are understood."""
    client = {"e2e_s": 6.0, "first_content_s": 2.3, "last_content_s": 5.9, "chunks": 180}
    shown = printed(payload=LLAMACPP, client=client)
    assert shown["phases"]["queue"]["high"] == pytest.approx(1.4)
    shown = printed(client=client)
    assert shown["phases"]["decode"]["source"] == "client-observed"
    assert shown["phases"]["decode"]["seconds"] == pytest.approx(3.6)


def test_first_token_before_the_report_says() -> None:
    """A first token earlier than the server's own prefill bounds nothing, and that is told."""
    shown = printed(payload=LLAMACPP, client={"e2e_s": 6.0, "ttft_s": 0.01})
    assert shown["phases"]["queue"]["high"] == pytest.approx(1.5)
    assert any("first token arrived before" in note for note in shown["notes"])


def test_impossible_client_times_are_rejected() -> None:
    """A client's view is checked like a server's: negative, text and marks after the end are not believed."""
    shown = printed(payload=LLAMACPP, client={"e2e_s": -1, "ttft_s": "fast"})
    assert set(shown["rejected"]) == {"e2e_s", "ttft_s"}
    shown = printed(payload=LLAMACPP, client={"e2e_s": 6.0, "ttft_s": 7.0})
    assert any("after the end" in note for note in shown["notes"])


def test_retries_come_before_the_exchange() -> None:
    """Attempts of the client's cut the call: the server's time is the last one's."""
    attempts = [{"status": 429, "start_s": 0.1, "end_s": 0.2}, {"status": 200, "start_s": 1.0, "end_s": 5.9}]
    shown = printed(payload=LLAMACPP, client={"e2e_s": 6.0, "attempts": attempts, "ttft_s": 3.0})
    phases = shown["phases"]
    assert phases["retry_backoff"]["seconds"] == pytest.approx(0.9)
    assert phases["residual"]["seconds"] == pytest.approx(0.1)
    assert phases["queue"]["high"] == pytest.approx(0.4)
    assert total(shown) == pytest.approx(6.0)


@pytest.mark.parametrize("document", [{}, {"payload": None, "headers": None, "client": None}, {"provider": "nobody"}])
def test_empty_documents(document: dict[str, Any]) -> None:
    """Nothing to explain is explained as unknown."""
    shown = printed(**document)
    assert all(phase["seconds"] is None for phase in shown["phases"].values())
    assert shown["server_total_s"] is None

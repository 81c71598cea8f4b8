"""What `agenttrace phases` infers of servers that tell neither queue nor prefill."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agenttrace.records import Marks, PhaseTiming, SettingValue, SpanRecord, Usage
from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from tests.builders import NOON, SECOND, a_run
from tests.end_to_end.test_list_show import agenttrace
from tests.store.test_first_tokens import MS, a_call, attempt

PREFILL_MS = 0.25


def calls(model: str, first: int, *, is_told: bool) -> list[SpanRecord]:
    """Sixty calls with prompts of 300 to 16,000 tokens, of which a third waits."""
    source = np.random.default_rng(first)
    made = []
    for number in range(first, first + 60):
        start = NOON + number * SECOND
        tokens = int(np.exp(source.uniform(np.log(300), np.log(16_000))))
        queue, prefill = int(source.exponential(900) * (source.random() < 0.3)) * MS, int(tokens * PREFILL_MS * MS)
        phases = (("queue", queue), ("prefill", prefill)) if is_told else ()
        first_ns = 50 * MS + 80 * MS + queue + prefill
        made.append(
            a_call(
                number,
                settings={"model.served": SettingValue(value=model, voice="served", source="response")},
                end_ns=start + first_ns + SECOND,
                usage=Usage(input=tokens, cached=0, output=10),
                marks=Marks(first_content_ns=first_ns, chunks=9),
                phases=tuple(PhaseTiming(name=name, ns=ns, source="server-reported") for name, ns in phases),
                attempts=(attempt(start),),
            )
        )
    return made


@pytest.fixture
def hosted(store: Path) -> Path:
    import_records(store, [a_run()], [*calls("hidden", 1, is_told=False), *calls("telling", 100, is_told=True)])
    return store


def test_an_estimate_says_what_it_rests_on_and_how_far_off_it_may_be(hosted: Path) -> None:
    """Only the server that tells nothing is estimated, in words that promise no more than the model can; beside it stands
    the error found where a server tells."""
    text = " ".join(agenttrace("phases").stdout.split())
    assert "inferred, not measured" in text
    assert "from 60 calls in the last 24 h; prefill ±" in text
    assert "estimators disagree by" in text
    assert "over the best-observed floor" in text
    assert "Constant queueing cannot be seen from outside." in text
    assert "with the server's own numbers hidden, off by" in text
    assert text.count("best-observed floor") == 1


def test_json_is_marked_as_inferred_and_near_the_truth(hosted: Path) -> None:
    """The prefill of a token is found within its bounds, and says that it was not measured."""
    inferred = json.loads(agenttrace("phases", "--json").stdout)["inferred"]
    [fit], [calibration] = inferred["fits"], inferred["calibrations"]
    assert fit["source"] == "inferred"
    assert fit["prefill_s_per_token"] == pytest.approx(PREFILL_MS / 1e3, rel=0.05)
    assert fit["fixed_s"] == pytest.approx(0.08, abs=0.02)
    assert abs(calibration["slope_error"]) < 0.05


def test_an_estimate_is_never_stored(hosted: Path) -> None:
    """Asking leaves the phases as they were recorded."""
    agenttrace("phases")
    with open_store(hosted).connection() as connection:
        sources = connection.execute("SELECT DISTINCT source FROM phases").fetchall()
    assert sources == [("server-reported",)]

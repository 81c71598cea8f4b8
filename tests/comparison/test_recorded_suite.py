"""What a run keeps of its suite: the plan, what is missing of it, and whose part that is."""

from __future__ import annotations

from agenttrace.comparison.recorded_suite import RecordedSuite, recorded_suite, suite_metadata
from tests.builders import a_run

SUITE = RecordedSuite(
    name="qa",
    cases=("a", "b", "c"),
    repetitions=2,
    shards=2,
    settings={"data.cases": {"a": "1", "b": "2", "c": "3"}, "load": {"concurrency": 4}},
)


def test_a_suite_is_read_back_from_its_run() -> None:
    """What goes into a run's metadata comes out of it."""
    assert recorded_suite(a_run(metadata=suite_metadata(SUITE))) == SUITE


def test_a_run_that_no_suite_made_has_none() -> None:
    """Metadata of other origin, whatever they hold, are no suite."""
    assert recorded_suite(a_run()) is None
    assert recorded_suite(a_run(metadata={"evaluation": "mine"})) is None
    assert recorded_suite(a_run(metadata={"evaluation": {"suite": "mine", "settings": {"data.cases": {}}}})) is None


def test_a_missing_shard_is_named() -> None:
    """Every second case belongs to the second shard; what it did not deliver is told by its number."""
    done = [("a", 1), ("a", 2), ("c", 1), ("c", 2)]
    assert SUITE.missing(done) == (("b", 1), ("b", 2))
    assert SUITE.missing_text(done) == "2 of 6 attempts have no result (missing: shard 2/2)"
    assert SUITE.missing_text([*done, ("b", 1), ("b", 2)]) is None

"""When a rule fires."""

from __future__ import annotations

from agenttrace.phases.advice import RULES, advise


def test_a_rule_fires_on_the_least_share_of_calls() -> None:
    """Three of ten calls may be chance; thirty of a hundred are not."""
    assert advise({"queue": 3}, {"queue": 10}, 10) == ()
    [found] = advise({"queue": 30}, {"queue": 100}, 100)
    assert found.phase == "queue"
    assert 0.1 < found.at_least < 0.3


def test_unknown_calls_never_help_a_rule() -> None:
    """Long queues in all calls whose queue is known are no reason to act where few are known."""
    assert advise({"queue": 8}, {"queue": 8}, 8)
    assert advise({"queue": 8}, {"queue": 8}, 400) == ()


def test_every_rule_can_fire_and_names_a_remedy() -> None:
    """With all calls hit each rule fires; with none, none does."""
    everywhere = {rule.phase: 50 for rule in RULES}
    assert [found.phase for found in advise(everywhere, everywhere, 50)] == [rule.phase for rule in RULES]
    assert all(rule.remedy for rule in RULES)
    assert advise({}, everywhere, 50) == ()
    assert advise({}, {}, 0) == ()

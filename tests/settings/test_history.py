"""Over many runs: which setting changed when."""

from __future__ import annotations

from agenttrace.settings.history import FEW_SWITCHES, settings_history
from tests.builders import NOON, SECOND
from tests.comparison.builders import UNTOLD, a_call


def at(number: int) -> int:
    return NOON + number * SECOND


def test_a_setting_that_changed_is_told_with_its_moment() -> None:
    """Values in the order of their first calls, and the call from which the other one held; changed back is changed again."""
    values = (0.0, 0.0, 0.7, 0.0)
    [site] = settings_history(a_call(n, settings={"sampling.temperature": value}) for n, value in enumerate(values))
    [setting] = site.changed
    assert [(value.value, value.times_ns) for value in setting.values] == [
        (0.0, (at(0), at(1), at(3))),
        (0.7, (at(2),)),
    ]
    assert [(item.at_ns, item.before, item.after) for item in setting.switches] == [
        (at(2), 0.0, 0.7),
        (at(3), 0.7, 0.0),
    ]
    assert setting.switches[0].trace_id == f"{2:032x}"
    assert (site.calls, site.first_ns, site.last_ns) == (4, at(0), at(3))
    assert "model.served" in site.unchanged
    assert "sampling.temperature" not in site.unchanged


def test_the_order_is_that_of_time() -> None:
    """Calls come from many runs, in any order."""
    calls = [a_call(n, settings={"sampling.temperature": float(n > 1)}) for n in range(4)]
    assert settings_history(reversed(calls)) == settings_history(calls)


def test_an_alias_that_moved_is_told() -> None:
    """The name that was asked for stayed, the model that answers is another one."""
    calls = [a_call(n, settings={"model.requested": "gpt", "model.served": f"gpt-{n}"}) for n in range(2)]
    [site] = settings_history(calls)
    assert [(setting.dimension, setting.asked_for) for setting in site.changed] == [("model.served", "gpt")]
    both = [a_call(n, settings={"model.requested": f"gpt-{n}", "model.served": f"gpt-{n}"}) for n in range(2)]
    [site] = settings_history(both)
    assert {setting.dimension: setting.asked_for for setting in site.changed} == {
        "model.served": None,
        "model.requested": None,
    }


def test_values_that_take_turns_have_no_moment() -> None:
    """A load-balanced fallback changes over all the time."""
    calls = [a_call(n, settings={"service_tier": n % 2}) for n in range(FEW_SWITCHES + 2)]
    [setting] = settings_history(calls)[0].changed
    assert setting.takes_turns
    assert [len(value.times_ns) for value in setting.values] == [4, 4]


def test_unset_is_a_value_and_untold_is_none() -> None:
    """What a call does not tell is no change; from unset to a value is one."""
    calls = [a_call(n, settings={"sampling.top_p": value}) for n, value in enumerate((None, UNTOLD, 0.9))]
    [setting] = settings_history(calls)[0].changed
    assert [(item.before, item.after) for item in setting.switches] == [(None, 0.9)]


def test_call_sites_are_apart() -> None:
    """A change at one is none at the other."""
    calls = [
        a_call(n, site, settings={"sampling.temperature": n * (site == "writer")})
        for n in (0, 1)
        for site in ("planner", "writer")
    ]
    assert [(site.call_site, len(site.changed)) for site in settings_history(calls)] == [("planner", 0), ("writer", 1)]

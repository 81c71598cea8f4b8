"""How durations, sizes and times are read from a command line."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

from agenttrace.cli.options import Duration, Moment, Size
from tests.conftest import FakeClock


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (Duration(), "250ms", 250_000_000),
        (Duration(), "1.5s", 1_500_000_000),
        (Duration(), "90", 90_000_000_000),
        (Duration(), "10 m", 600_000_000_000),
        (Duration(), "30d", 30 * 86_400_000_000_000),
        (Size(), "500MB", 500_000_000),
        (Size(), "5gb", 5_000_000_000),
        (Moment(), "2026-12-01T00:00+00:00", int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 10**9),
        (Moment(), "2026-12-01", int(datetime(2026, 12, 1).astimezone().timestamp()) * 10**9),
    ],
)
def test_a_number_with_its_unit(kind: click.ParamType[int], text: str, number: int) -> None:
    """Durations and times become nanoseconds, sizes bytes; a time without a zone is local."""
    assert kind.convert(text, None, None) == number


def test_a_duration_before_now(fake_clock: FakeClock) -> None:
    """Where a time is asked for, a duration means so long ago."""
    assert Moment().convert("2h", None, None) == fake_clock.wall_ns() - 7200 * 10**9


@pytest.mark.parametrize("kind", [Duration(), Size(), Moment()])
@pytest.mark.parametrize("text", ["", "d", "-3d", "5 parsecs", "1e3s", "٣"])
def test_what_is_no_number_with_a_unit_is_refused(kind: click.ParamType[int], text: str) -> None:
    """The message shows how it is written."""
    with pytest.raises(click.BadParameter, match="Give one like"):
        kind.convert(text, None, None)

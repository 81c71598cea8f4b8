"""How numbers are written for people, "1.2 s", "2.1 to 2.4 s", "4,444 tokens/s", "20 %", and the only place for it.

Three significant digits; None is written "unknown" and never as zero.
"""

from __future__ import annotations

import datetime
from decimal import ROUND_HALF_UP, Context, Decimal

UNKNOWN = "unknown"

NOTHING = "—"
"""For a cell that has no number because none belongs there."""

MINUS = "\N{MINUS SIGN}"

_three_digits = Context(prec=3, rounding=ROUND_HALF_UP)

_UNITS = (
    (Decimal(10) ** 8, Decimal(10) ** 9, "s"),
    (Decimal(10) ** 6, Decimal(10) ** 6, "ms"),
    (Decimal(10) ** 3, Decimal(10) ** 3, "µs"),
)
"""(from this many nanoseconds, nanoseconds in the unit, unit). Seconds begin at 0.1 s: beside 1.2 s, 0.9 s reads well."""

_MINUTES_FROM = Decimal(100) * 10**9


def duration(ns: float | None) -> str:
    """A duration in the unit that suits it: "6.0 s", "20.1 ms", "2 min 5 s"."""
    if ns is None:
        return UNKNOWN
    number, unit = _number_and_unit(ns)
    return f"{number} {unit}" if unit else number


def change(ns: float) -> str:
    """A difference of durations, with its sign: "+1.1 s", "−20 ms", "0 s"."""
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def between(low_ns: float | None, high_ns: float | None) -> str:
    """What bounds allow: "2.1 to 2.4 s", "at least 2.1 s", "at most 2.4 s"."""
    if low_ns is None and high_ns is None:
        return UNKNOWN
    if high_ns is None:
        return f"at least {duration(low_ns)}"
    if low_ns is None:
        return f"at most {duration(high_ns)}"
    low, high = duration(low_ns), duration(high_ns)
    if low == high:
        return low
    number, unit = _number_and_unit(low_ns)
    return f"{number} to {high}" if low_ns == 0 or unit == _number_and_unit(high_ns)[1] else f"{low} to {high}"


def _number_and_unit(ns: float) -> tuple[str, str]:
    if ns < 0:
        number, unit = _number_and_unit(-ns)
        return f"{MINUS}{number}", unit
    rounded = _three_digits.create_decimal(Decimal(ns))
    if rounded >= _MINUTES_FROM:
        return _minutes(round(ns / 1e9)), ""
    for at_least, size, unit in _UNITS:
        if rounded >= at_least:
            number = _plain(rounded / size)
            return (f"{number}.0" if unit == "s" and "." not in number else number), unit
    return _plain(rounded), "ns" if rounded else "s"


def _minutes(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def _plain(number: Decimal) -> str:
    """Without exponent and without trailing zeros."""
    return f"{number.normalize():,f}"


def percent(share: float | None) -> str:
    """A share of one: "20 %", "5.4 %"; "<0.1 %" and ">99.9 %" rather than a nothing or an all that it is not."""
    if share is None:
        return UNKNOWN
    value = share * 100
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99.9 < value < 100:
        return ">99.9 %"
    digits = 0 if 10 <= abs(value) < 99.5 else 1
    return f"{_plain(round(Decimal(value), digits))} %".replace("-", MINUS)


def count(number: int | None) -> str:
    """A number of things: "4,000"."""
    return UNKNOWN if number is None else f"{number:,}"


def quantity(number: int | None, thing: str) -> str:
    """A number with its noun, which takes an s: "1 model call", "2 model calls"."""
    return f"{count(number)} {thing}" if number == 1 else f"{count(number)} {thing}s"


def rate(tokens_per_second: float | None) -> str:
    """A speed: "4,444 tokens/s", "64.2 tokens/s"."""
    if tokens_per_second is None:
        return UNKNOWN
    speed = Decimal(tokens_per_second)
    shown = round(speed) if speed >= 100 else _three_digits.create_decimal(speed)
    return f"{_plain(Decimal(shown))} tokens/s"


def moment(ns: int) -> str:
    """A time of day in this machine's time zone: "2026-12-01 14:03:22"."""
    return datetime.datetime.fromtimestamp(ns // 10**9).strftime("%Y-%m-%d %H:%M:%S")


def money(dollars: float | None) -> str:
    """An amount of US dollars: "$12.30", "$0.0042"; "$0" only for nothing."""
    if dollars is None:
        return UNKNOWN
    if dollars >= 1 or not dollars:
        return f"${dollars:,.2f}" if dollars else "$0"
    return f"${_plain(_three_digits.create_decimal(Decimal(dollars)))}"

"""What a metric shows, and what it would take to know more, in a sentence each: the same in every report and in JSON."""

from __future__ import annotations

from agenttrace.comparison.outcome import MetricComparison, Needed

MINUS = "\N{MINUS SIGN}"


def metric_sentence(row: MetricComparison) -> str:
    """`correct regressed: −0.21, between −0.33 and −0.09, where 0.05 less would pass.`"""
    if row.reason is not None:
        text = f"{row.name} decides nothing. {row.reason}"
    else:
        word = {"pass": "passes", "regressed": "regressed", "inconclusive": "is inconclusive"}.get(
            row.verdict, row.verdict
        )
        label = f" ({row.label})" if row.label else ""
        text = f"{row.name} {word}{label}: {_interval(row)}{_margin(row)}."
    return f"{text} {needed_sentence(row.needed)}".rstrip() if row.needed else text


def _interval(row: MetricComparison) -> str:
    ends = (signed(row, row.low), signed(row, row.high))
    return f"{signed(row, row.delta)}, between {ends[0]} and {ends[1]}"


def _margin(row: MetricComparison) -> str:
    if row.margin is None:
        return ", and no margin is declared, so any loss counts"
    size = f"{row.margin * 100:.3g} %" if row.effect == "relative" else f"{row.margin:.3g}"
    return f", where {size} {'less' if row.better == 'higher' else 'more'} would pass"


def signed(row: MetricComparison, value: float | None) -> str:
    """A difference as this metric tells it; "unbounded" where nothing bounds it."""
    if value is None:
        return "unbounded"
    number = value * 100 if row.effect == "relative" else value
    text = f"{abs(number):.3g}"
    sign = "" if float(text) == 0 else MINUS if number < 0 else "+"
    return f"{sign}{text}{' %' if row.effect == 'relative' else ''}"


def needed_sentence(needed: Needed | None) -> str:
    """`About 84 cases, or 9 repetitions of these, would decide it: 128 more attempts, about $1.90.`"""
    if needed is None:
        return ""
    ways = [f"{needed.cases:,} cases"] if needed.cases is not None else []
    if needed.repetitions is not None:
        ways.append(f"{needed.repetitions} repetitions of {'these' if ways else 'the same cases'}")
    price = ", ".join(_price(needed))
    return (
        f"About {', or '.join(ways)} would decide it: {needed.attempts:,} more attempts{', ' + price if price else ''}."
    )


def _price(needed: Needed) -> list[str]:
    told = []
    if needed.cost_usd is not None:
        told.append(f"about ${needed.cost_usd:,.2f}")
    if needed.tokens is not None:
        told.append(f"about {needed.tokens:,} tokens")
    if needed.seconds is not None:
        minutes = needed.seconds / 60
        told.append(
            f"{minutes / 60:,.1f} h"
            if minutes >= 90
            else f"{minutes:,.0f} min"
            if minutes >= 1.5
            else f"{needed.seconds:,.0f} s"
        )
        told[-1] += " one after another"
    return told

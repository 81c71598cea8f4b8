"""Distributions of model calls' times as an HTML page: each measure's histogram beside its quantiles, two runs over each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agenttrace.phases.distributions import BINS_A_DECADE, RATES, Distribution, GroupTimings
from agenttrace.phases.quantiles import QUANTILES
from agenttrace.report.html_page import html_page, html_table, text
from agenttrace.report.numbers import NOTHING, count, duration, percent, quantity, rate
from agenttrace.report.phases_report import NAMES, group_facts

WIDTH, HEIGHT, FOOT = 600, 90, 18
"""Of a histogram, and of the scale below it."""


def phases_page(titles: Sequence[str], runs: Sequence[Sequence[GroupTimings]], sampled: float | None) -> str:
    """One selection, or two over each other, A and B."""
    sides = [{group.name: group for group in groups} for groups in runs]
    body = []
    if sampled is not None:
        body.append(f"<p>Of so many calls a sample was taken, {percent(sampled)} of them.</p>")
    body.append(
        '<p class="dim">Behind each quantile its 95 % interval; — where too few calls are known for one. Scales are logarithmic.</p>'
    )
    if len(runs) > 1:
        body.append(
            "<p>Whether B is worse is not judged here: agenttrace compare asks first whether they may be compared.</p>"
        )
    for name in dict.fromkeys(name for side in sides for name in side):
        body += _group(name, [side.get(name) for side in sides])
    shown = (
        " and ".join(f"{label} {title}" for label, title in zip("AB", titles, strict=False))
        if len(runs) > 1
        else titles[0]
    )
    return html_page(f"Phases of {shown}", body)


def _group(name: str, sides: Sequence[GroupTimings | None]) -> Iterator[str]:
    calls = ", ".join(quantity(group.calls if group else 0, "call") for group in sides)
    yield f'<h2>{text(name, limit=200)} <span class="dim">{calls}</span></h2>'
    found = [{item.name: item for item in group.distributions if item.known} if group else {} for group in sides]
    for measure in dict.fromkeys(measure for side in found for measure in side):
        yield from _measure(measure, [side.get(measure) for side in found])
    for group in sides:
        if group is not None:
            rows = [(text(label), text(value)) for label, value in group_facts(group)]
            yield html_table(("load", ""), rows, caption=f"Load and throughput of {group.name}")
            for item in group.advice:
                hits = (
                    f"{percent(item.share)} of the call or more in {count(item.hits)} of {quantity(item.calls, 'call')}"
                )
                yield f"<p><strong>{text(item.phase)}</strong> took {hits}: {text(item.remedy)}</p>"


def _measure(name: str, sides: Sequence[Distribution | None]) -> Iterator[str]:
    shown = NAMES.get(name, name)
    yield f"<h3>{text(shown, limit=100)}</h3>"
    yield _plot(shown, sides)
    quantiles = list(QUANTILES)
    rows = [
        (
            label if len(sides) > 1 else "calls",
            percent(item.known_share),
            *(_quantile(item, quantile) for quantile in quantiles),
            _value(item.name, item.maximum),
        )
        for label, item in zip("AB", sides, strict=False)
        if item is not None
    ]
    yield html_table(("", "known", *quantiles, "max"), rows, caption=f"Quantiles of {shown}")


def _quantile(item: Distribution, name: str) -> str:
    told = item.quantiles[name]
    if told is None:
        return NOTHING
    low, high = _value(item.name, told.low), _value(item.name, told.high)
    return f'{_value(item.name, told.value)} <span class="dim">({low} to {high})</span>'


def _value(measure: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return rate(value) if measure in RATES else duration(value)


def _plot(name: str, sides: Sequence[Distribution | None]) -> str:
    """Shares of calls in logarithmic bins; the table below says the same in numbers."""
    bins = [item.bins if item is not None else {} for item in sides]
    held = sorted({number for one in bins for number in one})
    first, last = held[0], held[-1]
    step = WIDTH / (last - first + 1)
    most = max(max(one.values(), default=0) / sum(one.values()) for one in bins if one)
    drawn = [
        f'<rect x="{(number - first) * step:.1f}" y="{HEIGHT - height:.1f}" width="{max(step - 1, 1):.1f}" height="{height:.1f}"'
        f' class="{label}"/>'
        for label, one in zip("ab", bins, strict=False)
        for number, height in _heights(one, most)
    ]
    measure = next(item.name for item in sides if item is not None)
    drawn.append(f'<line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}"/>')
    for number, anchor, x in ((first, "start", 0), (last + 1, "end", WIDTH)):
        place = _value(measure, 10 ** (number / BINS_A_DECADE))
        drawn.append(f'<text x="{x}" y="{HEIGHT + FOOT - 4}" text-anchor="{anchor}">{place}</text>')
    label = text(f"Histogram of {name}; its numbers are in the table that follows", limit=200)
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT + FOOT}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'


def _heights(bins: Mapping[int, int], most: float) -> Iterator[tuple[int, float]]:
    whole = sum(bins.values())
    return ((number, max(calls / whole / most * HEIGHT, 1.0)) for number, calls in sorted(bins.items()))

"""The documentation's table of dimensions is the code's."""

from __future__ import annotations

from pathlib import Path

from agenttrace.comparison.dimensions import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "comparing.md"


def test_the_page_has_every_dimension_as_it_is() -> None:
    """A severity that changes in the code changes on the page; the failure shows the table to paste."""
    rows = ["| dimension | for scores | for times and cost | told by one run only |", "|---|---|---|---|"]
    for one in TABLE:
        quality = one.quality + (", cannot be declared" if one.instead else "")
        rows.append(f"| `{one.name}` | {quality} | {one.cost} | {one.one_unknown} |")
    assert "\n".join(rows) in PAGE.read_text()

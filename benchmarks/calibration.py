"""How often the verdict is wrong, by simulation: the table of docs/comparing.md#error-rates.

    python -m benchmarks.calibration [--simulations 2000] [--markdown] [--json]

Each cell simulates pairs of runs and judges them with the product's own functions. "Spread" losses lower every case a
little; "broken" losses make a few cases fail always. Ends with exit code 1 where a rate is above the nominal one by more
than three Monte-Carlo standard errors, or coverage below by as much.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from agenttrace.comparison.estimates import Sample, estimate
from agenttrace.comparison.intervals import Floats
from agenttrace.comparison.policy import Policy
from agenttrace.comparison.verdicts import decide

ALPHA = Policy().alpha
MARGINS = (0.05, 0.10)
CASES = (5, 10, 20, 30, 50, 100)
REPETITIONS = (1, 3, 5)
STANDARD_ERRORS = 3

Difficulty = Literal["broad", "two kinds", "saturated"]
Loss = Literal["spread", "broken"]

PASS_RATES: dict[Difficulty, float] = {"broad": 2 / 3, "two kinds": 0.74 * 0.98 + 0.26 * 0.1, "saturated": 0.94}
"""Mean chance that a case passes: beta(2, 1); most at 0.98 and a quarter at 0.1; beta(9.4, 0.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a kind of suite came to. Rates are shares of all simulations."""

    difficulty: Difficulty
    cases: int
    repetitions: int
    regressed: float
    """With no change; so are the next three."""
    passed: float
    inconclusive: float
    covered: float
    false_pass: float
    """With a loss of the margin: the highest of both margins and kinds of loss."""
    true_regressed: float
    """With a spread loss of twice the margin of 0.1."""
    worst: float
    """The highest of the rates that must not exceed alpha."""
    is_met: bool


def pass_rates(difficulty: Difficulty, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Each case's chance to pass."""
    if difficulty == "broad":
        return rng.beta(2, 1, shape)
    if difficulty == "saturated":
        return rng.beta(9.4, 0.6, shape)
    return np.where(rng.random(shape) < 0.74, 0.98, 0.1)


def with_loss(rates: Floats, difficulty: Difficulty, loss: Loss, size: float, rng: np.random.Generator) -> Floats:
    """The chances of a candidate whose mean is lower by `size`."""
    share = size / PASS_RATES[difficulty]
    return rates * (1 - share) if loss == "spread" else np.where(rng.random(rates.shape) < share, 0.0, rates)


def samples(before: Floats, after: Floats, repetitions: int, rng: np.random.Generator) -> Iterator[Sample]:
    """Simulated scores of both runs, a sample a row."""
    drawn = [rng.binomial(repetitions, rates) / repetitions for rates in (before, after)]
    counts = np.full(before.shape[1], float(repetitions))
    for row in range(len(before)):
        yield Sample(
            before=drawn[0][row],
            after=drawn[1][row],
            k_before=counts,
            k_after=counts,
            noise_before=None,
            noise_after=None,
            is_binary=repetitions == 1,
            score_range=1.0,
            is_bounded=True,
            clusters=None,
            effect="difference",
        )


def simulate(difficulty: Difficulty, cases: int, repetitions: int, simulations: int, seed: int = 0) -> Cell:
    """One cell of the grid."""
    rng = np.random.default_rng((seed, cases, repetitions, *difficulty.encode()))
    rates = pass_rates(difficulty, (simulations, cases), rng)
    same = [estimate(data, ALPHA).interval for data in samples(rates, rates, repetitions, rng)]
    verdicts = [decide(one.low, one.high, MARGINS[-1])[0] for one in same]
    false_pass = max(
        np.mean(
            [
                decide(found.low, found.high, margin)[0] == "pass"
                for data in samples(rates, with_loss(rates, difficulty, loss, margin, rng), repetitions, rng)
                for found in (estimate(data, ALPHA).interval,)
            ]
        )
        for margin in MARGINS
        for loss in ("spread", "broken")
    )
    worse = with_loss(rates, difficulty, "spread", 2 * MARGINS[-1], rng)
    found = [estimate(data, ALPHA).interval for data in samples(rates, worse, repetitions, rng)]
    regressed = verdicts.count("regressed") / simulations
    error = STANDARD_ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / simulations)
    covered = float(np.mean([one.low <= 0 <= one.high for one in same]))
    coverage_error = STANDARD_ERRORS * math.sqrt(2 * ALPHA * (1 - 2 * ALPHA) / simulations)
    worst = max(regressed, float(false_pass))
    return Cell(
        difficulty=difficulty,
        cases=cases,
        repetitions=repetitions,
        regressed=regressed,
        passed=verdicts.count("pass") / simulations,
        inconclusive=verdicts.count("inconclusive") / simulations,
        covered=covered,
        false_pass=float(false_pass),
        true_regressed=float(np.mean([decide(one.low, one.high, MARGINS[-1])[0] == "regressed" for one in found])),
        worst=worst,
        is_met=worst <= ALPHA + error and covered >= 1 - 2 * ALPHA - coverage_error,
    )


HEADINGS = (
    "suite", "cases", "repetitions", "no change: pass", "regressed", "inconclusive", "covered",
    "worse by the margin: pass", "worse by 0.2: regressed",
)  # fmt: skip


def rows(cells: list[Cell]) -> list[tuple[str, ...]]:
    """The table, as text."""
    return [
        (
            f"{cell.difficulty} ({PASS_RATES[cell.difficulty]:.2f})", str(cell.cases), str(cell.repetitions),
            *(
                f"{rate:.3f}"
                for rate in (
                    cell.passed, cell.regressed, cell.inconclusive, cell.covered, cell.false_pass, cell.true_regressed,
                )
            ),
        )
        for cell in cells
    ]  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--simulations", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--json", action="store_true", dest="as_json")
    arguments.add_argument("--markdown", action="store_true")
    asked = arguments.parse_args()
    cells = []
    for difficulty in PASS_RATES:
        for cases in CASES:
            for repetitions in REPETITIONS:
                cells.append(simulate(difficulty, cases, repetitions, asked.simulations, asked.seed))
                print(f"\r{len(cells)} of {len(PASS_RATES) * len(CASES) * len(REPETITIONS)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    missed = [cell for cell in cells if not cell.is_met]
    if asked.as_json:
        print(json.dumps([asdict(cell) for cell in cells]))
    else:
        divider = " | " if asked.markdown else "  "
        table = [HEADINGS, *rows(cells)]
        widths = [0 if asked.markdown else max(len(row[n]) for row in table) for n in range(len(HEADINGS))]
        for number, row in enumerate(table):
            line = divider.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            print(f"| {line} |" if asked.markdown else line)
            if asked.markdown and not number:
                print("|" + "---|" * len(HEADINGS))
        print(
            f"{asked.simulations} simulations a rate; {len(missed)} of {len(cells)} cells miss the nominal rate",
            file=sys.stderr,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the evidence could have shown, and what it would take to decide: cases, repetitions, and their price."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

POWER = 0.8
"""Chance to see what is there, where a plan does not ask for another one."""

MAX_CASES = 10_000_000
"""Beyond this a plan is no plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variances:
    """What the variance of a difference is made of (Miller 2024): omega² + noise_baseline / K + noise_candidate / K."""

    between: float
    """Omega²: how differently cases change, whatever the repetitions."""
    noise_baseline: float
    """Of one repetition, within a case."""
    noise_candidate: float

    def of_difference(self, k_baseline: float, k_candidate: float) -> float:
        """Of one case's difference, with so many repetitions."""
        return self.between + self.noise_baseline / k_baseline + self.noise_candidate / k_candidate


def quantiles_sum(alpha: float, power: float = POWER) -> float:
    """The normal quantile of 1 − alpha plus that of the power."""
    return float(special.ndtri(1 - alpha) + special.ndtri(power))


def smallest_detectable(sd: float, n: int, alpha: float, power: float = POWER) -> float:
    """The smallest true difference that n cases show with this power (Miller 2024, section 5)."""
    return quantiles_sum(alpha, power) * sd / math.sqrt(n)


def cases_needed(variance: float, distance: float, alpha: float, power: float = POWER) -> int:
    """How many cases tell a difference of this size from none."""
    return min(math.ceil(quantiles_sum(alpha, power) ** 2 * variance / distance**2 - 1e-9), MAX_CASES)


def cases_to_exclude(score_range: float, distance: float, alpha: float) -> int:
    """How many cases without any change make both guards narrower than the distance: pseudo-cases and Tango's interval."""
    z, share = float(special.ndtri(1 - alpha)), distance / score_range
    return min(max(math.ceil(z * math.sqrt(2) / share) - 2, math.ceil(z**2 * (1 / share - 1)) + 1), MAX_CASES)


def repetitions_needed(variances: Variances, n: int, distance: float, alpha: float, power: float = POWER) -> int | None:
    """How many repetitions of the same cases tell it; None where no number does, since the cases themselves differ."""
    left = n * distance**2 / quantiles_sum(alpha, power) ** 2 - variances.between
    if left <= 0:
        return None
    return max(1, math.ceil((variances.noise_baseline + variances.noise_candidate) / left - 1e-9))


def design_effect(mean_cluster_size: float, intra_cluster_correlation: float) -> float:
    """How many times more cases are needed where those of one source are alike (Kish)."""
    return 1 + (mean_cluster_size - 1) * intra_cluster_correlation

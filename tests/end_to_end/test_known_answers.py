"""Published examples go in as scored runs and come out of `compare --json` with the published answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agenttrace.cli.main import group
from tests.comparison.test_statistics import CLINIC, MAIZE

SLEEP = ([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4], [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])


def agenttrace(*arguments: str) -> str:
    result = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert result.exit_code in (0, 1, 10), result.output
    return result.stdout


def compared(folder: Path, before: Sequence[float], after: Sequence[float], *options: str) -> dict[str, Any]:
    """The metric of the comparison of two imported runs with one attempt a case."""
    for name, values in (("before", before), ("after", after)):
        file = folder / f"{name}.jsonl"
        file.write_text(
            "\n".join(json.dumps({"case": f"q{n}", "scores": {"score": value}}) for n, value in enumerate(values))
        )
        agenttrace("import", str(file), "--run", name)
    told = json.loads(agenttrace("compare", "before", "after", "--json", *options))
    [metric] = [one for one in told["metrics"] if one["name"] == "score"]
    return {**metric, "overall": told["verdict"]}


def pairs(both: int, down: int, up: int, neither: int) -> tuple[list[float], list[float]]:
    """Cases that passed in both runs, in the first, in the second and in none."""
    counts = ((1.0, 1.0, both), (1.0, 0.0, down), (0.0, 1.0, up), (0.0, 0.0, neither))
    rows = [(before, after) for before, after, count in counts for _ in range(count)]
    return [before for before, _ in rows], [after for _, after in rows]


@pytest.mark.usefixtures("store")
def test_students_sleep(tmp_path: Path) -> None:
    """R: t.test(paired = TRUE) gives −1.58, −2.4598858 to −0.7001142, p = 0.002833."""
    metric = compared(tmp_path, *SLEEP, "--alpha", "0.025")
    assert metric["delta"] == pytest.approx(-1.58)
    assert (metric["low"], metric["high"]) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert metric["p_values"]["t"] == pytest.approx(0.002832890, abs=1e-9)
    assert (metric["method"], metric["overall"]) == ("t", "regressed")


@pytest.mark.usefixtures("store")
def test_darwins_maize(tmp_path: Path) -> None:
    """Mean 20.9333; 1726 of 32768 sign changes are as extreme; p of t 0.049703, of Wilcoxon 0.0412598."""
    metric = compared(tmp_path, [0.0] * 15, [float(d) for d in MAIZE])
    assert metric["delta"] == pytest.approx(20.9333333)
    assert metric["p_values"]["sign_flip"] == pytest.approx(1726 / 32768)
    assert metric["p_values"]["wilcoxon"] == pytest.approx(0.0412598, abs=1e-6)
    assert (metric["verdict"], metric["label"]) == ("pass", "improved")


@pytest.mark.usefixtures("store")
def test_the_airway_data(tmp_path: Path) -> None:
    """Fagerland et al. 2013: Tango −0.5172 to −0.0260; McNemar 0.0339, exact 0.0703, mid-p 0.0391."""
    metric = compared(tmp_path, *pairs(1, 7, 1, 12), "--alpha", "0.025")
    assert (metric["low"], metric["high"]) == pytest.approx((-0.5172, -0.0260), abs=5e-5)
    found = metric["p_values"]
    assert (found["mcnemar"], found["mcnemar_exact"], found["mcnemar_mid_p"]) == pytest.approx(
        (0.0339, 0.0703, 0.0391), abs=5e-5
    )
    assert (metric["better_cases"], metric["worse_cases"], metric["verdict"]) == (1, 7, "regressed")


@pytest.mark.usefixtures("store")
def test_approval_ratings(tmp_path: Path) -> None:
    """Agresti: difference −0.04 with a standard error of 0.00955; p of McNemar 3.099e-5; Wald's interval is near Tango's."""
    metric = compared(tmp_path, *pairs(794, 150, 86, 570), "--alpha", "0.025")
    assert metric["delta"] == pytest.approx(-0.04)
    assert metric["standard_error"] == pytest.approx(0.00955, abs=1e-5)
    assert metric["p_values"]["mcnemar"] == pytest.approx(3.099e-5, rel=1e-3)
    assert (metric["low"], metric["high"]) == pytest.approx((-0.0587, -0.0213), abs=4e-4)


@pytest.mark.usefixtures("store")
def test_nothing_changed(tmp_path: Path) -> None:
    """Fifty equal cases leave ±z²/(n + z²) = ±0.07135, so five points are not excluded."""
    metric = compared(tmp_path, [1.0] * 50, [1.0] * 50, "--alpha", "0.025")
    assert (metric["low"], metric["high"]) == pytest.approx((-0.07135, 0.07135), abs=5e-6)
    assert metric["overall"] == "inconclusive"


@pytest.mark.usefixtures("store")
def test_equivalence(tmp_path: Path) -> None:
    """R's `equivalence`: mean 0.1646667, −0.0744337 to 0.4037670, p = 0.003166881 against a margin of 0.6."""
    metric = compared(tmp_path, *CLINIC["var1"], "--margin", "score=0.6")
    assert metric["delta"] == pytest.approx(0.1646667, abs=1e-7)
    assert (metric["low"], metric["high"]) == pytest.approx((-0.0744336620516462, 0.4037669953849797))
    assert metric["p_values"]["tost"] == pytest.approx(0.003166881489265175)
    assert (metric["verdict"], metric["label"]) == ("pass", "equivalent")


@pytest.mark.usefixtures("store")
def test_passing_every_time_and_once(tmp_path: Path) -> None:
    """tau-bench: 6 of 8 passed, so four drawn ones all did with 15/70. Chen et al.: 3 of 10, so one of five did with 1 − 21/252."""
    for before, after, name, expected in (
        ((8, 6), (4, 4), "pass^4", 15 / 70),
        ((10, 3), (5, 5), "pass@5", 1 - 21 / 252),
    ):
        for run, (count, passed) in (("before", before), ("after", after)):
            file = tmp_path / f"{run}-{count}.jsonl"
            file.write_text(
                "\n".join(
                    json.dumps({"case": case, "repetition": number + 1, "scores": {"ok": number < passed}})
                    for case in ("q1", "q2")
                    for number in range(count)
                )
            )
            agenttrace("import", str(file), "--run", run)
        told = json.loads(agenttrace("compare", "before", "after", "--json"))
        [metric] = [one for one in told["metrics"] if one["name"] == f"ok {name}"]
        assert (metric["baseline"], metric["candidate"]) == (pytest.approx(expected), 1.0)

"""Under what a run was made: the code's commit, the packages' versions (that of the price table among them), the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from agenttrace.digest import digest
from agenttrace.steps import JSON

GIT_TIMEOUT_S = 10

COMMIT = re.compile("[0-9a-f]{7,64}|HEAD")
"""What git is asked about: nothing that it could take for an option."""


def provenance(folder: Path) -> dict[str, JSON]:
    """By dimension: `code.commit` (where `folder` is in a checkout), `code.packages`, `environment`."""
    commit = _commit(folder)
    return {
        **({"code.commit": commit} if commit else {}),
        "code.packages": _packages(),
        "environment": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "processors": os.cpu_count(),
        },
    }


def load_average() -> float | None:
    """How many processes wanted this machine's processors, on average over a minute; None where nobody counts."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _commit(folder: Path) -> dict[str, JSON] | None:
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    dirty = bool((_git(folder, "status", "--porcelain", "--untracked-files=no") or b"").strip())
    changes = digest(_git(folder, "diff", "HEAD") or b"") if dirty else None
    told: dict[str, JSON] = {"commit": commit.decode().strip(), "dirty": dirty, "changes": changes}
    branch = _branch(folder)
    return {**told, "branch": branch} if branch else told


BRANCH_VARIABLES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILD_SOURCEBRANCHNAME", "BRANCH_NAME")
"""Where GitHub, GitLab, Azure and Jenkins say which branch they check: they check out a commit, on no branch."""


def _branch(folder: Path) -> str | None:
    checked_out = (_git(folder, "branch", "--show-current") or b"").decode("utf-8", "replace").strip()
    return checked_out or next((name for key in BRANCH_VARIABLES if (name := os.environ.get(key, "").strip())), None)


def is_ancestor(folder: Path, commit: str, of: str = "HEAD") -> bool | None:
    """Whether a commit is in another one's history; None where git does not know one of them, or is not there."""
    for one in (commit, of):
        if not COMMIT.fullmatch(one) or _git(folder, "cat-file", "-e", f"{one}^{{commit}}") is None:
            return None
    return _git(folder, "merge-base", "--is-ancestor", commit, of) is not None


def _git(folder: Path, *arguments: str) -> bytes | None:
    command = ["git", "-C", str(folder), "--no-optional-locks", *arguments]
    try:
        result = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT_S, check=False)  # noqa: S603  # git, with our own arguments
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None


@cache  # reading them takes a tenth of a second, and they do not change under a process
def _packages() -> dict[str, JSON]:
    versions = {(item.metadata["Name"] or "").lower(): item.version for item in distributions()}
    return {name: versions[name] for name in sorted(versions) if name}

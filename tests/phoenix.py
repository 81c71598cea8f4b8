"""The real Phoenix for tests, from the environment that 'make phoenix' makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttrace.export.phoenix import PYTHON, Phoenix, free_port, serve_phoenix
from tests.conftest import require

OWN_ENVIRONMENT = Path(__file__).parents[1] / ".venv-phoenix" / "bin" / "python"


def phoenix_python() -> str:
    """The interpreter that has Phoenix. Leaves the test out where there is none."""
    python = os.environ.get(PYTHON) or str(OWN_ENVIRONMENT)
    require(Path(python).exists(), "Phoenix ('make phoenix' installs it)")
    return python


@contextmanager
def a_phoenix(folder: Path) -> Iterator[Phoenix]:
    """An empty Phoenix, which is the one that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON, phoenix_python())
        with serve_phoenix(folder, port=free_port(0)) as phoenix:
            patch.setenv("PHOENIX_COLLECTOR_ENDPOINT", phoenix.address)
            yield phoenix

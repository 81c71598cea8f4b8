"""`agenttrace prune` and `compact` as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from agenttrace.store.importing import import_records
from agenttrace.store.reading import open_store
from tests.builders import a_model_call, a_run, a_span


def agenttrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agenttrace", *arguments], capture_output=True, text=True, check=False)


def test_prune_says_what_goes_before_it_goes(store: Path) -> None:
    """Nothing goes without a condition or in a dry run; then what was said goes, and the space with it."""
    import_records(store, [a_run()], [a_span(1), a_model_call(2)])
    assert agenttrace("prune").returncode == 2
    told = agenttrace("prune", "--older-than", "1d", "--dry-run")
    assert told.stdout == "Would take out 1 trace, 2 spans, 1 run. Nothing was changed.\n", told.stderr
    assert len(open_store(store).traces()) == 1
    assert json.loads(agenttrace("prune", "--older-than", "36500d", "--json").stdout)["traces"] == 0
    assert agenttrace("prune", "--older-than", "1d").stdout.startswith("Took out 1 trace, 2 spans, 1 run;")
    assert open_store(store).traces() == ()
    compacted = json.loads(agenttrace("compact", "--json").stdout)
    assert 0 < compacted["bytes_after"] <= compacted["bytes_before"]

"""`agenttrace view` with the real Phoenix: it has the stored traces, phases and all, and leaves nothing running."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from agenttrace.export.phoenix import PYTHON, free_port, serve_phoenix
from agenttrace.records import PhaseTiming
from agenttrace.store.importing import import_records
from tests.builders import SECOND, a_model_call, a_run, a_span
from tests.end_to_end.test_export import export
from tests.phoenix import phoenix_python

PHASES = (
    PhaseTiming(name="queue", ns=SECOND // 4, source="server-reported", definition="waiting"),
    PhaseTiming(name="decode", ns=SECOND // 2, source="server-reported", definition="generating"),
)


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real Phoenix, from the environment that 'make phoenix' makes."""
    monkeypatch.setenv(PYTHON, phoenix_python())


@pytest.fixture
def filled(store: Path) -> Path:
    call = a_model_call(
        phases=PHASES,
        input=[{"role": "user", "content": "how tall?"}],
        output={"role": "assistant", "content": "very"},
    )
    import_records(store, [a_run()], [a_span(1), call])
    return store


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    return int(number)


def view(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "view", *arguments], capture_output=True, text=True, check=False, **options
    )


def get(address: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=30) as response:
        return json.load(response)


def test_phoenix_has_what_the_store_has(phoenix: None, filled: Path, port: int) -> None:
    """Kinds, tokens, messages, and the phases as children of their model call; Ctrl-C ends it all."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agenttrace", "view", "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    shown = ""
    while f"127.0.0.1:{port}" not in shown:
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        shown += line
    spans = {span["name"]: span for span in get(f"http://127.0.0.1:{port}/v1/projects/nightly/spans?limit=10")["data"]}
    assert {name: span["span_kind"] for name, span in spans.items()} == {
        "agent": "CHAIN", "ChatModel": "LLM", "queue": "CHAIN", "decode": "CHAIN"
    }  # fmt: skip
    model = spans["ChatModel"]
    assert model["attributes"]["llm.token_count.prompt"] == 40
    assert model["attributes"]["llm.input_messages.0.message.content"] == "how tall?"
    assert spans["decode"]["parent_id"] == model["context"]["span_id"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", port)) != 0


def test_showing_twice_changes_nothing(phoenix: None, filled: Path, port: int) -> None:
    """What Phoenix has is not sent again."""
    first = view("--check", "--port", str(port))
    assert first.returncode == 0, first.stderr
    assert "4 spans; 4 were new to it" in first.stdout
    assert "4 spans; 0 were new to it" in view("--check", "--port", str(port)).stdout


def test_a_taken_port_is_said(phoenix: None, filled: Path) -> None:
    """Somebody else on the port: a sentence that says so, at once."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = view("--check", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 3
    assert "docs/messages.md#port-in-use" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_phoenix_that_dies_is_said(filled: Path, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Phoenix that ends while starting is named with its last words."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: no module of that name' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv(PYTHON, str(broken))
    result = view("--check", "--port", str(port))
    assert result.returncode == 3
    assert "no module of that name" in result.stderr
    assert "docs/messages.md#phoenix-not-healthy" in result.stderr


def test_without_the_extra_one_line_says_what_to_install(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core works without Phoenix, and says how to get it."""
    monkeypatch.delenv(PYTHON, raising=False)
    hidden = "import importlib.metadata as m, sys\nreal = m.version\n"
    hidden += "def version(name):\n    if name == 'arize-phoenix': raise m.PackageNotFoundError(name)\n    return real(name)\n"
    code = hidden + "m.version = version\nfrom agenttrace.cli.main import main\nmain(['view', '--check'])\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 3
    assert "pip install 'agenttrace-lab[phoenix]'" in result.stderr


def test_a_phoenix_elsewhere_is_shown_them(
    phoenix: None, filled: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment names a Phoenix, none is started: that one has the run's traces afterwards."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with serve_phoenix(elsewhere, port=port) as running:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", running.address)
        result = view("nightly")
        assert result.returncode == 0, result.stderr
        assert "4 were new to it" in result.stdout
        exported = export("--to", "phoenix", "--resume")
        again = export("--to", "phoenix", "--resume")
    assert "0 were new to it" in exported.stdout
    assert "Nothing to send" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "said"), [(("nothing-of-that-name",), "nothing-of-that-name"), (("nightly", "--run", "x"), "once")]
)
def test_a_name_that_is_none_is_said(filled: Path, arguments: tuple[str, ...], said: str) -> None:
    """Neither a run nor a trace, or both ways at once: one sentence."""
    result = view(*arguments)
    assert result.returncode in (2, 3)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_another_port_is_taken_where_the_usual_one_is_not_free() -> None:
    """Somebody's own Phoenix on 6006 keeps nobody from looking."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert free_port(number) != number
    assert free_port(number) == number

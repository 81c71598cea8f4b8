"""`agenttrace serve`: receives spans of other programs over OTLP, and keeps them in the store."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import click

from agenttrace.cli.options import store_option


@click.command(short_help="Receive spans from other programs (OTLP over HTTP).")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; any but loopback takes a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=4318, show_default=True, help="0: a free one.")
@click.option("--token-file", metavar="FILE", help="A file of mode 0600 with the token that senders must tell.")
@store_option
def serve(host: str, port: int, token_file: str | None, store: str | None) -> None:
    """Receive spans over OTLP/HTTP (protobuf and JSON) at /v1/traces until Ctrl-C, and merge what is in the journals.

    What is acknowledged is on disk. /healthz says how many spans came. See docs/receiving.md.
    """
    from agenttrace.export.receiver import PATH, Receiver, read_token
    from agenttrace.store.intake import Intake

    token = None if token_file is None else read_token(token_file)
    receiver = Receiver(Intake(store), host=host, port=port, token=token)
    click.echo(f"Receiving at {receiver.url}{PATH}; the store is {receiver.intake.layout.folder}. Stop it with Ctrl-C.")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not the main thread
            signal.signal(number, lambda *_: stop.set())
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    stop.wait()
    receiver.shutdown()
    receiver.server_close()
    click.echo(f"Received {receiver.intake.spans:,} spans.")

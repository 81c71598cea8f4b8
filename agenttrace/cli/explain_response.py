"""`agenttrace explain-response`: how the time of one response divides, from a file with what its server said."""

from __future__ import annotations

import sys
from typing import Any

import click

from agenttrace.cli.options import json_option
from agenttrace.cli.output import print_json
from agenttrace.errors import InvalidRecord

LARGEST = 256 << 20
"""Bytes of a file that are read at most."""


RATES = {
    "prefill_tok_s": "prefill rate",
    "decode_tok_s": "decode rate",
    "tpot_n_s": "decode / N",
    "itl_n1_s": "decode / (N - 1)",
    "itl_client_n1_s": "(end to end - first token) / (N - 1)",
    "itl_mean_low_s": "mean token at least",
    "itl_mean_high_s": "mean token at most",
}


@click.command(short_help="Divide one response's time from what its server reported.")
@click.argument("file", type=click.Path(allow_dash=True))
@json_option
def explain_response(file: str, as_json: bool) -> None:
    """Print how one response's time divides into phases.

    FILE holds {"provider": …, "payload": {…}, "headers": {…}, "client": {…}}; '-' reads standard input. A provider or a
    shape that is not known is said, and what the client saw is divided all the same.
    """
    from agenttrace.phases.explain import explain_response as explain
    from agenttrace.phases.explain import explanation_json

    explanation = explanation_json(explain(_document(file)))
    if as_json:
        print_json(explanation)
        return
    _draw(explanation)


def _document(file: str) -> dict[str, Any]:
    import json

    import orjson

    name = "standard input" if file == "-" else file
    data = _read(file, name)
    if len(data) > LARGEST:
        raise InvalidRecord(f"{name} is larger than {LARGEST >> 20} MB. Give one response, without its content.")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            # Python's servers write NaN and Infinity where a rate divides by zero; what else they say is still true.
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise InvalidRecord(f"{name} is no JSON: {error}. Give an object with 'payload' and 'headers'.") from error
    if not isinstance(document, dict):
        raise InvalidRecord(f"{name} holds no JSON object. Give an object with 'payload' and 'headers'.")
    return document


def _read(file: str, name: str) -> bytes:
    try:
        if file == "-":
            return sys.stdin.buffer.read(LARGEST + 1)
        with open(file, "rb") as opened:  # a file, or a pipe
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise InvalidRecord(
            f"{name} cannot be read: {error.strerror}. Name a file that holds a response, or '-' for standard input."
        ) from error


def _draw(explanation: dict[str, Any]) -> None:
    from agenttrace.report.escaping import visible
    from agenttrace.report.numbers import between, duration

    def shown(phase: dict[str, Any]) -> str:
        if phase["seconds"] is not None:
            return duration(phase["seconds"] * 1e9)
        bounds = (phase["low"], phase["high"])
        return between(*(None if bound is None else bound * 1e9 for bound in bounds)) if any(bounds) else "unknown"

    click.echo(f"provider {visible(str(explanation['provider']))}")
    for name, phase in explanation["phases"].items():
        click.echo(
            f"  {visible(name):34} {shown(phase):>16}  {phase['source']:16} {visible(phase['definition'] or '')}"
        )
    for title, key in (("server total", "server_total_s"), ("server time to first token", "server_ttft_s")):
        if explanation[key] is not None:
            click.echo(f"  {title:34} {duration(explanation[key] * 1e9):>16}")
    for name, value in explanation["rates"].items():
        shown_rate = f"{value:,.4g} tokens/s" if name.endswith("_tok_s") else duration(value * 1e9)
        click.echo(f"  {RATES.get(name, visible(name)):34} {shown_rate:>16}")
    for name, reason in explanation["rejected"].items():
        click.echo(f"  rejected {visible(name)}: {visible(reason)}")
    for note in explanation["notes"]:
        click.echo(f"  note: {visible(note)}")

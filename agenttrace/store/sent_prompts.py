"""The prompts of a run's model calls, each message read once however often it was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import orjson

from agenttrace.settings.prompt_parts import Message, SentPrompt
from agenttrace.steps import JSON
from agenttrace.store.content import expand, references
from agenttrace.store.reading import read_chains, read_contents
from agenttrace.store.stored_settings import put_told

CALLS = """
SELECT
    coalesce(call_site, '') AS call_site,
    trace_id,
    coalesce(model_served, model_requested, '') AS model,
    settings ->> '@content' AS settings,
    CASE WHEN settings ->> '@content' IS NULL THEN json_extract(settings, $paths) END AS told,
    input,
    input_tokens,
    cached_tokens
FROM spans
WHERE run_id = $run_id AND kind = 'model'
ORDER BY start_ns, span_id
"""

TOLD = "SELECT told, hashes FROM told"

RETRIEVED = "SELECT trace_id, output FROM spans WHERE run_id = $run_id AND kind = 'retriever' AND output IS NOT NULL"

TOOLS = ("tools.names", "tools.descriptions", "tools.parameters", "tools.order")


def read_prompts(
    connection: duckdb.DuckDBPyConnection, run_id: str
) -> tuple[list[SentPrompt], dict[str, Message], dict[str, list[str]]]:
    """The prompts in the order of time, their messages by id, and what was retrieved by trace."""
    paths = put_told(connection, "run_id IN (SELECT unnest($value))", [run_id], TOOLS)
    tools = {digest: _tools(told) for told, all_of in connection.execute(TOLD).fetchall() for digest in all_of}
    rows = connection.execute(CALLS, {"run_id": run_id, "paths": paths}).fetchall()
    inputs = {text: orjson.loads(text) for text in {row[5] for row in rows if row[5] is not None}}
    chains = read_chains(connection, list({digest for value in inputs.values() for digest in _of(value, "chain")}))
    hashes = {digest for value in inputs.values() for digest in _of(value, "content")}.union(*chains.values())
    messages = {digest: _message(body) for digest, body in read_contents(connection, list(hashes)).items()}
    sent = {text: tuple(_items(value, chains, messages)) for text, value in inputs.items()}
    prompts = [
        SentPrompt(
            call_site=call_site,
            trace_id=trace_id,
            model=model,
            messages=sent.get(text, ()),
            tools=_tools(told) if settings is None else tools.get(settings, ""),
            tokens=tokens,
            cached=cached,
        )
        for call_site, trace_id, model, settings, told, text, tokens, cached in rows
    ]
    return prompts, messages, _retrieved(connection, run_id)


def _of(value: JSON, wanted: str) -> Iterator[str]:
    return (digest for kind, digest in references(value) if kind == wanted)


def _items(value: JSON, chains: Mapping[str, list[str]], messages: dict[str, Message]) -> Iterator[str]:
    """The ids of a prompt's messages. What stands in the row itself gets its text as its id."""
    if isinstance(value, Mapping) and ("@list" in value or "@chain" in value or "@content" in value):
        for key in ("@head", "@list"):
            held = value.get(key)
            yield from (str(digest) for digest in held) if isinstance(held, list) else ()
        yield from chains.get(str(value.get("@chain")), ())
        if "@content" in value:
            yield str(value["@content"])
    elif isinstance(value, list):
        for item in value:
            yield from _items(item, chains, messages)
    elif value is not None:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        messages.setdefault(text, Message("user", text))
        yield text


def _message(body: JSON) -> Message:
    if isinstance(body, Mapping) and "role" in body:
        rest = {key: value for key, value in body.items() if key not in ("role", "content", "id") and value}
        return Message(str(body["role"]), _text(body.get("content")) + (_text(rest) if rest else ""))
    return Message("user", _text(body))


def _text(value: JSON) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _tools(told: Sequence[str | None] | None) -> str:
    """The definitions as one text, by their values as JSON."""
    known = [f'"{name}":{value}' for name, value in zip(TOOLS, told or (), strict=False) if value not in (None, "null")]
    return f"{{{','.join(known)}}}" if known else ""


def _retrieved(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    rows = [
        (trace, orjson.loads(output)) for trace, output in connection.execute(RETRIEVED, {"run_id": run_id}).fetchall()
    ]
    chains = read_chains(connection, list({digest for _, output in rows for digest in _of(output, "chain")}))
    hashes = {digest for _, output in rows for digest in _of(output, "content")}.union(*chains.values())
    contents = read_contents(connection, list(hashes))
    for trace_id, output in rows:
        documents: Any = expand(output, contents, chains)
        for document in documents if isinstance(documents, list) else ():
            text = document.get("page_content", document.get("content")) if isinstance(document, Mapping) else document
            if isinstance(text, str):
                found[trace_id].append(text)
    return found

"""Which traces are asked for, as conditions on the query that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import orjson

WITH_TEXT = """
trace_id IN (
    WITH RECURSIVE
    found AS (SELECT hash FROM contents WHERE contains(lower(body::VARCHAR), $text) UNION ALL SELECT unnest($large_texts)),
    holding AS (
        SELECT hash FROM links WHERE item IN (FROM found)
        UNION
        SELECT links.hash FROM links JOIN holding ON links.prefix = holding.hash
    ),
    said AS (
        SELECT trace_id, name, coalesce(input::VARCHAR, '') AS words FROM span_starts
        UNION ALL
        SELECT trace_id, name, concat(input::VARCHAR, output::VARCHAR, metadata::VARCHAR, error_message) FROM spans
    )
    SELECT trace_id FROM said
    WHERE contains(lower(name), $text) OR contains(lower(words), $text)
        OR list_has_any(
            regexp_extract_all(words, '"([0-9a-f]{32})"', 1),
            (SELECT coalesce(list(hash), []) FROM (FROM found UNION ALL FROM holding))
        )
)
"""
"""Texts are kept once, by hash: first those that hold the words, then the conversations with one of them, then who
refers to any."""

CONDITIONS = {
    "run_id": "run_id = $run_id",
    "session": "session = $session",
    "state": "state = $state",
    "since_ns": "start_ns >= $since_ns",
    "until_ns": "start_ns < $until_ns",
    "min_ns": "end_ns - start_ns >= $min_ns",
    "max_ns": "end_ns - start_ns <= $max_ns",
    "tag": """
        (trace_id IN (
            SELECT trace_id FROM spans WHERE list_contains(tags, $tag)
            UNION ALL SELECT trace_id FROM span_starts WHERE list_contains(tags, $tag)
        ) OR run_id IN (
            SELECT run_id FROM runs
            WHERE list_contains(list_transform(json_keys(tags), lambda key: key || '=' || (tags ->> key)), $tag)
        ))
    """,
    "model": """
        trace_id IN (
            SELECT trace_id FROM spans
            WHERE kind = 'model' AND (model_served GLOB $model OR model_requested GLOB $model)
        )
    """,
    "error": """
        trace_id IN (
            SELECT trace_id FROM spans
            WHERE contains(lower(error_type || ': ' || coalesce(error_message, '')), lower($error))
        )
    """,
    "min_tokens": """
        trace_id IN (
            SELECT trace_id FROM spans WHERE kind = 'model' GROUP BY trace_id
            HAVING sum(coalesce(total_tokens, input_tokens + output_tokens)) >= $min_tokens
        )
    """,
    "max_tokens": """
        trace_id IN (
            SELECT trace_id FROM spans WHERE kind = 'model' GROUP BY trace_id
            HAVING sum(coalesce(total_tokens, input_tokens + output_tokens)) <= $max_tokens
        )
    """,
    "text": WITH_TEXT,
    "has_failed": "state IN ('error', 'timed_out') = $has_failed",
    "trace_ids": "trace_id IN (SELECT unnest($trace_ids))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """What a trace must be to be listed; None asks for nothing. A duration or count that is unknown fits no bound."""

    run_id: str | None = None
    session: str | None = None
    tag: str | None = None
    """A tag of one of its steps, or `key=value` of its run's tags."""
    model: str | None = None
    """Served or asked for; `*` and `?` stand for any characters and for one."""
    state: str | None = None
    error: str | None = None
    """A part of an error's type or message, of any of its steps."""
    since_ns: int | None = None
    until_ns: int | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    text: str | None = None
    """A part of a name, input, output, metadata or error message, in any case of letters."""
    has_failed: bool | None = None
    """Whether it ended in an error or was timed out."""
    trace_ids: Sequence[str] | None = None

    def candidates(self) -> str | None:
        """SQL that finds all traces that may fit by less than looking at every trace; None where there is none."""
        if self.trace_ids is not None:
            return "SELECT unnest($trace_ids) AS trace_id"
        if self.has_failed:
            return "SELECT DISTINCT trace_id FROM spans WHERE state IN ('error', 'timed_out')"
        return None

    def given(self) -> Iterator[str]:
        """The names of what is asked for."""
        return (field.name for field in fields(self) if getattr(self, field.name) is not None)

    def condition(self) -> str:
        """SQL on a trace's columns."""
        return " AND ".join(["true", *(CONDITIONS[name] for name in self.given())])

    def parameters(self) -> dict[str, object]:
        """What `condition` refers to."""
        values = {name: getattr(self, name) for name in self.given()}
        if self.text is not None:
            values["text"] = orjson.dumps(self.text.lower())[1:-1].decode()  # as it stands within JSON
            values[
                "large_texts"
            ] = []  # the hashes of those outside the database that hold it: for whoever can read them
        if self.trace_ids is not None:
            values["trace_ids"] = list(self.trace_ids)
        return values


EVERYTHING = TraceFilter()

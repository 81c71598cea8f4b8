"""The recent calls of a call site, as far as one of them is compared with the others."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from agenttrace.phases.why import CallTimes, call_times
from agenttrace.records import Marks, SpanRecord, Usage

MOST = 200
"""The latest so many."""

RECENT = """
WITH recent AS (
    SELECT
        trace_id, span_id, end_ns - start_ns AS whole_ns,
        input_tokens, output_tokens, cached_tokens, reasoning_tokens, first_reasoning_ns, first_content_ns, first_tool_ns
    FROM spans
    WHERE kind = 'model' AND state = 'ok' AND end_ns >= start_ns AND start_ns < $start_ns
        AND call_site IS NOT DISTINCT FROM $call_site
        AND coalesce(model_served, model_requested) IS NOT DISTINCT FROM (
            SELECT coalesce(model_served, model_requested) FROM spans WHERE trace_id = $trace_id AND span_id = $span_id
        )
    ORDER BY start_ns DESC, span_id
    LIMIT $most
)
SELECT recent.*, list(phases.name) AS names, list(phases.ns) AS times
FROM recent
LEFT JOIN (SELECT * FROM phases WHERE ns IS NOT NULL AND included_in IS NULL) AS phases
    ON phases.trace_id = recent.trace_id AND phases.span_id = recent.span_id
GROUP BY ALL
"""


def read_recent_calls(connection: duckdb.DuckDBPyConnection, call: SpanRecord) -> Sequence[CallTimes]:
    """Those before `call` with its call site and model that ended well, in no order."""
    asked = {
        "start_ns": call.start_ns,
        "call_site": call.call_site,
        "trace_id": call.trace_id,
        "span_id": call.span_id,
        "most": MOST,
    }
    found = []
    for _, _, whole_ns, *rest, names, times in connection.execute(RECENT, asked).fetchall():
        prompt, output, cached, reasoning, first_reasoning, first_content, first_tool = rest
        found.append(
            call_times(
                whole_ns,
                {name: ns for name, ns in zip(names, times, strict=True) if name is not None},
                Usage(input=prompt, output=output, cached=cached, reasoning=reasoning),
                Marks(first_reasoning_ns=first_reasoning, first_content_ns=first_content, first_tool_ns=first_tool),
            )
        )
    return found

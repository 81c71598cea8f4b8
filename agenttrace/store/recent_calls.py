"""The recent calls of a call site, as far as a call is compared with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from agenttrace.phases.why import CallTimes, call_times
from agenttrace.records import Marks, SpanRecord, Usage
from agenttrace.store.timings import IS_REPLAYED

MOST = 200
"""The latest so many."""

ASKED = """
CREATE OR REPLACE TEMP TABLE asked AS
SELECT span_id AS asked, start_ns, call_site, coalesce(model_served, model_requested) AS model
FROM spans
WHERE trace_id = $trace_id AND span_id IN (SELECT unnest($span_ids))
"""

# Unfinished calls of the asked ones are in no table of finished ones: nothing is usual of them.
RECENT = f"""
WITH recent AS (
    SELECT
        asked, trace_id, span_id, end_ns - spans.start_ns AS whole_ns,
        input_tokens, output_tokens, cached_tokens, reasoning_tokens, first_reasoning_ns, first_content_ns, first_tool_ns
    FROM spans
    JOIN asked ON asked.call_site IS NOT DISTINCT FROM spans.call_site
        AND asked.model IS NOT DISTINCT FROM coalesce(model_served, model_requested)
    WHERE kind = 'model' AND state = 'ok' AND end_ns >= spans.start_ns AND NOT {IS_REPLAYED} AND spans.start_ns < asked.start_ns
    QUALIFY row_number() OVER (PARTITION BY asked ORDER BY spans.start_ns DESC, span_id) <= {MOST}
)
SELECT recent.*, list(phases.name) AS names, list(phases.ns) AS times
FROM recent
LEFT JOIN (SELECT * FROM phases WHERE ns IS NOT NULL AND included_in IS NULL) AS phases
    ON phases.trace_id = recent.trace_id AND phases.span_id = recent.span_id
GROUP BY ALL
"""


def read_recent_calls(
    connection: duckdb.DuckDBPyConnection, calls: Sequence[SpanRecord]
) -> Mapping[str, Sequence[CallTimes]]:
    """By the id of each of `calls`, which are of one trace: those before it with its call site and model that ended well."""
    found: dict[str, list[CallTimes]] = {call.span_id: [] for call in calls}
    if not calls:
        return found
    connection.execute(ASKED, {"trace_id": calls[0].trace_id, "span_ids": list(found)})
    for asked, _, _, whole_ns, *rest, names, times in connection.execute(RECENT).fetchall():
        prompt, output, cached, reasoning, first_reasoning, first_content, first_tool = rest
        found[asked].append(
            call_times(
                whole_ns,
                {name: ns for name, ns in zip(names, times, strict=True) if name is not None},
                Usage(input=prompt, output=output, cached=cached, reasoning=reasoning),
                Marks(first_reasoning_ns=first_reasoning, first_content_ns=first_content, first_tool_ns=first_tool),
            )
        )
    return found

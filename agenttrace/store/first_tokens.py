"""Times to first token beside prompt lengths, for servers that do not say how the two are related."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb

from agenttrace.store.timings import MODEL, PROVIDERS, Selection

if TYPE_CHECKING:
    from agenttrace.phases.prefill_fit import FirstTokens

DAY_NS = 24 * 3600 * 10**9

# One attempt, seen: another one's time would be in the first token's. Hidden reasoning would be, too.
CALLS = f"""
CREATE OR REPLACE TEMP TABLE first_tokens AS
WITH latest AS (
    SELECT max(start_ns) AS ns FROM spans WHERE kind = 'model' AND <condition>
),
chosen AS (
    SELECT
        trace_id,
        span_id,
        start_ns,
        {MODEL} AS model,
        provider,
        service_tier,
        (input_tokens - cached_tokens)::DOUBLE AS uncached,
        least(first_reasoning_ns, first_content_ns, first_tool_ns) AS first_token_ns
    FROM spans
    LEFT JOIN providers ON providers.settings = spans.settings
    WHERE kind = 'model' AND state = 'ok' AND <condition> AND start_ns > (SELECT ns FROM latest) - {DAY_NS}
        AND chunks IS NOT NULL AND cached_tokens <= input_tokens
        AND (coalesce(reasoning_tokens, 0) = 0 OR first_reasoning_ns IS NOT NULL)
),
once AS (
    SELECT
        trace_id,
        span_id,
        any_value(start_ns) AS sent_from_ns,
        any_value(coalesce(sent_ns, connect_ns, 0)) AS sent_ns,
        any_value(coalesce(host, '')) AS host,
        bool_and(connect_ns IS NULL) AS is_reused
    FROM attempts
    SEMI JOIN chosen USING (trace_id, span_id)
    GROUP BY ALL
    HAVING count(*) = 1
)
SELECT
    trace_id,
    span_id,
    start_ns,
    concat(
        model, ' at ', coalesce(nullif(host, ''), provider, 'an unknown server'),
        if(service_tier IS NULL, '', ', tier ' || service_tier),
        if(is_reused, '', ', new connections')
    ) AS name,
    uncached,
    (start_ns + first_token_ns - sent_from_ns - sent_ns)::DOUBLE AS first_token_ns
FROM chosen
JOIN once USING (trace_id, span_id)
WHERE first_token_ns IS NOT NULL AND start_ns + first_token_ns > sent_from_ns + sent_ns
"""

TOLD = """
SELECT
    any_value(first_tokens.name) AS name,
    any_value(uncached) AS uncached,
    any_value(first_token_ns) AS first_token_ns,
    coalesce(any_value(ns) FILTER (phases.name = 'prefill'), 'nan'::DOUBLE) AS prefill_ns,
    coalesce(any_value(ns) FILTER (phases.name = 'queue'), 'nan'::DOUBLE) AS queue_ns
FROM first_tokens
LEFT JOIN (
    FROM phases WHERE name IN ('prefill', 'queue') AND source = 'server-reported'
) AS phases USING (trace_id, span_id)
GROUP BY trace_id, span_id
ORDER BY any_value(start_ns)
"""


def read_first_tokens(connection: duckdb.DuckDBPyConnection, selection: Selection) -> Sequence[FirstTokens]:
    """By server and conditions, those with most calls first; of the last day of the selection."""
    from agenttrace.phases.prefill_fit import first_tokens_by_name

    def query(text: str) -> duckdb.DuckDBPyConnection:
        return connection.execute(text.replace("<condition>", selection.condition()), selection.parameters())

    query(PROVIDERS)
    query(CALLS)
    if not connection.execute("SELECT 1 FROM first_tokens LIMIT 1").fetchone():
        return ()
    return first_tokens_by_name(connection.execute(TOLD).fetchnumpy())

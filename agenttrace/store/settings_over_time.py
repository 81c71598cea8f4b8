"""Reads the model calls of all runs of one name, as the history of an agent's settings needs them."""

from __future__ import annotations

import duckdb

from agenttrace.settings.contract import ObservedCall
from agenttrace.store.reading import find_run
from agenttrace.store.stored_settings import NO_SETTINGS, read_settings

# A name stands for all its runs: each start of a program is one.
RUNS = "SELECT run_id FROM runs WHERE run_id = $run_id OR name = $ref"

CALLS = """
SELECT coalesce(call_site, '') AS call_site, settings, trace_id, start_ns, state = 'ok' AS is_answered
FROM spans
WHERE run_id IN (SELECT unnest($run_ids)) AND kind = 'model' AND start_ns >= $since_ns
ORDER BY start_ns, span_id
"""


def read_calls_since(
    connection: duckdb.DuckDBPyConnection, ref: str, since_ns: int
) -> tuple[str, int, list[ObservedCall]]:
    """The name of the run, how many runs it stands for, and their model calls since a time, in the order of time.

    Raises:
        RunNotFound: there is none.
    """
    run = find_run(connection, ref)
    rows = connection.execute(RUNS, {"run_id": run.run_id, "ref": ref}).fetchall()
    run_ids = [run_id for (run_id,) in rows]
    settings = read_settings(connection, run_ids)
    calls = [
        ObservedCall(
            call_site=call_site,
            settings=(told := settings.get(text, NO_SETTINGS)).shared,
            own=told.own,
            trace_id=trace_id,
            case=None,
            start_ns=start_ns,
            is_answered=is_answered,
        )
        for call_site, text, trace_id, start_ns, is_answered in connection.execute(
            CALLS, {"run_ids": run_ids, "since_ns": since_ns}
        ).fetchall()
    ]
    return run.name, len(run_ids), calls

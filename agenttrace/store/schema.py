"""The database schema as text that can be pasted into DuckDB, with its version and history.

A line of a journal holds rows under these column names, so a column is named here and nowhere else.

History of SCHEMA_VERSION:
1  before the first release
2  what a run kept and whose it was, suites and their results, arrivals of streams, exports
3  large texts outside the database, how many rows each table should hold, comparisons; views of contracts and scores
"""

from __future__ import annotations

SCHEMA_VERSION = 3

STORAGE_VERSION = "v1.5.0"
"""DuckDB's file format: the newest that both 1.5 and 2.x open, and the oldest that compresses JSON with zstd."""

SCHEMA = """
-- One row: the version of this schema, and of the product that wrote it.
CREATE TABLE schema_version (
    version       INTEGER NOT NULL,   -- SCHEMA_VERSION
    written_by    VARCHAR NOT NULL    -- agenttrace's version
);

-- One recorded execution with one intent.
CREATE TABLE runs (
    run_id        VARCHAR NOT NULL,
    name          VARCHAR NOT NULL,   -- resolves to its latest run
    start_ns      BIGINT  NOT NULL,   -- nanoseconds since 1970 UTC, as in every column ending in _ns that is no duration
    end_ns        BIGINT,             -- NULL while the run goes on, or when its process ended first
    tags          JSON,
    metadata      JSON,
    session       VARCHAR,
    "user"        VARCHAR,
    process       VARCHAR,            -- host:pid:random of the process that opened it
    policy        JSON,               -- what was kept of content and of traces; empty where everything was
    sampled_out   BIGINT              -- traces that sampling did not keep; NULL where nothing was sampled
);

-- One finished step of an agent. Marks are durations from the step's start.
CREATE TABLE spans (
    trace_id             VARCHAR NOT NULL,  -- 32 hexadecimal digits
    span_id              VARCHAR NOT NULL,  -- 16 hexadecimal digits
    parent_id            VARCHAR,           -- NULL for a root
    run_id               VARCHAR NOT NULL,
    kind                 VARCHAR NOT NULL,  -- model, tool, retriever, embedding, chain, agent, prompt, parser
    name                 VARCHAR NOT NULL,
    state                VARCHAR NOT NULL,  -- ok, error, cancelled, abandoned, interrupted, handed_off, timed_out
    start_ns             BIGINT  NOT NULL,
    end_ns               BIGINT,
    call_site            VARCHAR,           -- where in the agent a model is called
    session              VARCHAR,           -- session_id or thread_id of the config, else that of record()
    "user"               VARCHAR,
    attempt              INTEGER,           -- counts from 1 within a retry or fallback
    model_requested      VARCHAR,
    model_served         VARCHAR,
    finish_reason        VARCHAR,
    input_tokens         BIGINT,            -- NULL is unknown, never zero
    output_tokens        BIGINT,
    cached_tokens        BIGINT,            -- part of input_tokens
    cache_written_tokens BIGINT,
    reasoning_tokens     BIGINT,            -- part of output_tokens
    total_tokens         BIGINT,
    first_byte_ns        BIGINT,
    first_reasoning_ns   BIGINT,
    first_content_ns     BIGINT,
    first_tool_ns        BIGINT,
    last_content_ns      BIGINT,
    chunks               BIGINT,            -- non-empty chunks of a stream; NULL when the call did not stream
    arrivals             VARCHAR,           -- when each came: microseconds from one to the next, packed (zlib, base64)
    settings             JSON,              -- a reference: dimension to {value, voice, source}, stored once
    tags                 VARCHAR[],
    metadata             JSON USING COMPRESSION zstd,
    input                JSON USING COMPRESSION zstd,  -- with references into contents and links
    output               JSON USING COMPRESSION zstd,
    events               JSON USING COMPRESSION zstd,
    error_type           VARCHAR,
    error_message        VARCHAR,
    notes                VARCHAR[],
    paused_at            VARCHAR,           -- the checkpoint where an interrupted graph paused
    resumed_from         VARCHAR,           -- the checkpoint that a graph went on from
    server_parts         JSON,              -- parts a server reports that are no phase of ours, nanoseconds
    server_report        JSON USING COMPRESSION zstd   -- the server's own words
);

-- A step that has started; it is unfinished as long as spans has no row for it.
CREATE TABLE span_starts (
    trace_id      VARCHAR NOT NULL,
    span_id       VARCHAR NOT NULL,
    parent_id     VARCHAR,
    run_id        VARCHAR NOT NULL,
    kind          VARCHAR NOT NULL,
    name          VARCHAR NOT NULL,
    start_ns      BIGINT  NOT NULL,
    call_site     VARCHAR,
    session       VARCHAR,
    "user"        VARCHAR,
    tags          VARCHAR[],
    metadata      JSON USING COMPRESSION zstd,
    input         JSON USING COMPRESSION zstd
);

-- A named part of a span's time. Durations in nanoseconds; NULL is unknown.
CREATE TABLE phases (
    trace_id      VARCHAR NOT NULL,
    span_id       VARCHAR NOT NULL,
    name          VARCHAR NOT NULL,   -- a phase, or the members of a sum joined with _plus_
    ns            BIGINT,
    low_ns        BIGINT,
    high_ns       BIGINT,
    source        VARCHAR NOT NULL,   -- server-reported, client-observed, derived, inferred, unknown, not-applicable
    method        VARCHAR,
    definition    VARCHAR,
    included_in   VARCHAR             -- the sum that holds this phase's time
);

-- One HTTP request of a model call. Durations in nanoseconds from its start.
CREATE TABLE attempts (
    trace_id      VARCHAR NOT NULL,
    span_id       VARCHAR NOT NULL,
    ordinal       INTEGER NOT NULL,   -- from 1
    start_ns      BIGINT  NOT NULL,
    end_ns        BIGINT,
    status        INTEGER,
    host          VARCHAR,
    connect_ns    BIGINT,
    sent_ns       BIGINT,
    headers_ns    BIGINT,
    first_byte_ns BIGINT,
    reads         BIGINT,
    read_bytes    BIGINT,             -- of the body, over the reads that were timed
    arrivals      VARCHAR,            -- when each read of a stream came: microseconds, packed as in spans
    error         VARCHAR,
    headers       JSON
);

-- A message, document or long text, stored once under its hash.
CREATE TABLE contents (
    hash          VARCHAR NOT NULL,
    body          JSON USING COMPRESSION zstd,  -- NULL where it lies in a file: blobs/<first two digits>/<hash>.json.gz
    blob_bytes    BIGINT              -- the length of its JSON, where it is over 1 MiB
);

-- A list as a chain: everything before its last item, and that item. A growing conversation adds one row a message.
CREATE TABLE links (
    hash          VARCHAR NOT NULL,
    prefix        VARCHAR,            -- the link before; NULL for the first
    item          VARCHAR NOT NULL,   -- hash of a content
    root          VARCHAR NOT NULL,   -- the chain's first link
    depth         INTEGER NOT NULL    -- from 1
);

-- How one attempt at a case ended and was judged.
CREATE TABLE results (
    run_id        VARCHAR NOT NULL,
    case_id       VARCHAR NOT NULL,
    repetition    INTEGER NOT NULL,   -- from 1 within the case
    cluster       VARCHAR,            -- cases with one source share it
    outcome       VARCHAR NOT NULL,   -- scored, or why not: agent_error, timeout, limit, refusal, infra_error, …
    scores        JSON,               -- name to number
    metrics       JSON,               -- name to number: seconds in names that end in _s
    settings      JSON,               -- a reference: dimension to {value, voice, source}, where another tool told them
    trace_id      VARCHAR,            -- NULL for a result without a trace
    detail        JSON                -- reasons, labels and errors by evaluator, and what each try came to
);

-- What `agenttrace compare` found, each time it was asked.
CREATE TABLE comparisons (
    at_ns         BIGINT  NOT NULL,
    baseline      VARCHAR NOT NULL,   -- a run's id; of an accepted baseline it may not be in this store
    candidate     VARCHAR NOT NULL,
    verdict       VARCHAR NOT NULL,   -- pass, regressed, inconclusive, not_comparable, invalid
    result        JSON USING COMPRESSION zstd  -- as docs/comparison.schema.json has it, with no cases
);

-- Finished steps that a place to export to has confirmed; they are not sent there again.
CREATE TABLE exports (
    destination   VARCHAR NOT NULL,   -- its kind, address and project
    trace_id      VARCHAR NOT NULL,
    span_ids      VARCHAR[] NOT NULL,
    at_ns         BIGINT  NOT NULL
);

-- What a process could not record; the latest row of a process counts.
CREATE TABLE counters (
    process        VARCHAR NOT NULL,
    at_ns          BIGINT  NOT NULL,
    capture_errors BIGINT  NOT NULL,
    dropped        BIGINT  NOT NULL,
    last_error     VARCHAR
);

-- How far each journal segment has been merged: written in the transaction of its rows, so a row is merged exactly once.
CREATE TABLE segments (
    segment       VARCHAR NOT NULL,
    merged_bytes  BIGINT  NOT NULL,
    records       BIGINT  NOT NULL,
    damaged       BIGINT  NOT NULL    -- lines that could not be read
);

-- How many rows of each table were merged and not pruned; opening the store compares it with what is there.
CREATE TABLE row_counts (
    table_name    VARCHAR NOT NULL,
    rows          BIGINT  NOT NULL
);
"""

VIEWS = """
-- One row: a call of a model, as a person asks for it in a notebook. Times in seconds, NULL where not known.
CREATE OR REPLACE VIEW model_calls AS
SELECT
    spans.trace_id,
    span_id,
    run_id,
    runs.name                                    AS run,
    call_site,
    state,
    coalesce(model_served, model_requested)      AS model,
    make_timestamp(spans.start_ns // 1000)       AS started,  -- UTC
    (spans.end_ns - spans.start_ns) / 1e9        AS seconds,
    coalesce(least(first_reasoning_ns, first_content_ns, first_tool_ns), first_byte_ns) / 1e9
                                                 AS first_token_s,
    input_tokens,
    cached_tokens,
    output_tokens,
    reasoning_tokens,
    chunks,
    attempt,
    finish_reason,
    coalesce(contents.body, settings)            AS settings,  -- dimension to {value, voice, source}
    error_type,
    error_message,
    spans.session,
    spans."user"
FROM spans
LEFT JOIN runs USING (run_id)
LEFT JOIN contents ON contents.hash = (settings ->> '$."@content"')  -- 1.5 reads = before ->>
WHERE kind = 'model';

-- One row: a phase of a step, in seconds; seconds is NULL where only bounds, or a sum that holds it, are known.
CREATE OR REPLACE VIEW phase_seconds AS
SELECT
    phases.trace_id,
    span_id,
    run_id,
    runs.name                                    AS run,
    call_site,
    coalesce(model_served, model_requested)      AS model,
    phases.name                                  AS phase,
    ns / 1e9                                     AS seconds,
    low_ns / 1e9                                 AS low_s,
    high_ns / 1e9                                AS high_s,
    source,
    method,
    included_in
FROM phases
JOIN spans USING (trace_id, span_id)
LEFT JOIN runs USING (run_id);

-- One row: a value that a setting had at a call site of a run, and how many model calls had it: what a comparison's gate
-- is asked about. Prompts and tools are settings too, as the dimensions prompt.* and tools.*.
CREATE OR REPLACE VIEW contracts AS
WITH calls AS (
    SELECT run_id, call_site, settings ->> '$."@content"' AS hash, count(*) AS calls
    FROM spans
    WHERE kind = 'model' AND settings IS NOT NULL
    GROUP BY ALL
)
SELECT
    run_id,
    runs.name                                    AS run,
    call_site,
    setting.key                                  AS dimension,
    setting.value ->> '$.value'                  AS value,   -- NULL where it was unset or is not known
    setting.value ->> '$.voice'                  AS voice,   -- requested, sent or served
    sum(calls)::BIGINT                           AS calls
FROM calls
JOIN contents USING (hash)
CROSS JOIN json_each(contents.body) AS setting
LEFT JOIN runs USING (run_id)
GROUP BY ALL;

-- One row: a score of an attempt at a case.
CREATE OR REPLACE VIEW scores AS
SELECT
    run_id,
    runs.name                                    AS run,
    case_id,
    repetition,
    cluster,
    outcome,
    score.key                                    AS name,
    score.value::DOUBLE                          AS value,
    trace_id
FROM results
CROSS JOIN json_each(results.scores) AS score
LEFT JOIN runs USING (run_id);

-- One row: a stretch of a trace's time, and the step that had to end for the trace to go on. The stretches of a trace
-- add up to its root's time. From the end backwards: time belongs to the step below that ended last, then to the one
-- that ended last before that one began, and to the step itself where none below it ran.
CREATE OR REPLACE VIEW critical_path AS
WITH RECURSIVE walk AS (
    SELECT trace_id, span_id, start_ns, start_ns AS from_ns, end_ns AS until_ns, true AS is_open, true AS is_whole
    FROM spans AS root
    WHERE end_ns IS NOT NULL
        AND NOT EXISTS (FROM spans AS above WHERE above.trace_id = root.trace_id AND above.span_id = root.parent_id)
    UNION ALL
    SELECT
        trace_id,
        CASE step WHEN 'below' THEN last.span_id ELSE span_id END,
        CASE step WHEN 'below' THEN last.start_ns ELSE start_ns END,
        CASE step WHEN 'own' THEN coalesce(last.end_ns, start_ns) WHEN 'below' THEN last.start_ns ELSE start_ns END,
        CASE step WHEN 'own' THEN until_ns WHEN 'below' THEN last.end_ns ELSE last.start_ns END,
        step != 'own',
        step = 'below'
    FROM (
        SELECT
            walk.trace_id,
            walk.span_id,
            walk.start_ns,
            walk.until_ns,
            max_by(
                {'span_id': child.span_id,
                 'start_ns': greatest(child.start_ns, walk.start_ns),
                 'end_ns': least(child.end_ns, walk.until_ns)},
                -- One that had ended, rather than one that was still running.
                (least(child.end_ns, walk.until_ns), walk.is_whole OR child.end_ns <= walk.until_ns, child.start_ns,
                 child.span_id)
            ) FILTER (child.span_id IS NOT NULL) AS last
        FROM walk
        LEFT JOIN spans AS child
            ON child.trace_id = walk.trace_id
            AND child.parent_id = walk.span_id
            AND greatest(child.start_ns, walk.start_ns) < walk.until_ns
            AND child.end_ns > greatest(child.start_ns, walk.start_ns)
        WHERE walk.is_open
        GROUP BY ALL
    )
    CROSS JOIN (VALUES ('own'), ('below'), ('before')) AS steps(step)
    WHERE step = 'own' OR last IS NOT NULL
)
SELECT
    walk.trace_id,
    span_id,
    spans.run_id,
    spans.kind,
    spans.name,
    spans.call_site,
    (walk.from_ns - min(walk.from_ns) OVER (PARTITION BY walk.trace_id)) / 1e9 AS from_s,  -- since the trace began
    (walk.until_ns - walk.from_ns) / 1e9                                       AS seconds
FROM walk
JOIN spans USING (trace_id, span_id)
WHERE NOT is_open AND walk.until_ns > walk.from_ns;
"""

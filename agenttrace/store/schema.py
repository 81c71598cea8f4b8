"""The database schema as text that can be pasted into DuckDB, with its version and history.

A line of a journal holds rows under these column names, so a column is named here and nowhere else.

History of SCHEMA_VERSION:
1  first release
"""

from __future__ import annotations

SCHEMA_VERSION = 1

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
    body          JSON USING COMPRESSION zstd
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
"""

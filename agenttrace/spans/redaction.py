"""Takes secrets out of whatever is about to be written: by the name of the key, and by the shape of the value (D12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import cast

import orjson
from ahocorasick_rs import BytesAhoCorasick

from agenttrace.records import SpanRecord
from agenttrace.steps import JSON

SECRET_KEY = re.compile(
    r"(^|[_\-.])(authorization|api[_-]?key|secret([_-]?key)?|password|passwd|cookie|set-cookie|credentials?|private[_-]?key"
    r"|(access|auth|bearer|refresh|session|id)[_-]?token|token)$",
    re.IGNORECASE,
)
"""A key that names a secret. Counts of tokens (`max_tokens`, `total_tokens`) are none."""

SECRET_VALUE = re.compile(
    r"sk-[A-Za-z0-9_\-]{16,}"  # OpenAI, Anthropic
    r"|gsk_[A-Za-z0-9]{16,}"  # Groq
    r"|hf_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|xai-[A-Za-z0-9]{16,}"
    r"|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}"  # AWS
    r"|AIza[0-9A-Za-z_\-]{30,}"  # Google
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|xox[abprs]-[A-Za-z0-9\-]{10,}"  # Slack
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}"  # JSON web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user and password in a URL
    r"|(?<=[Bb]earer )[A-Za-z0-9._\-]{8,}"
)
MARKERS = tuple(
    marker.encode()
    for marker in (
        *("sk-", "gsk_", "hf_", "xai-", "akia", "asia", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "eyj", "-----begin", "bearer "),
        *("authorization", "api_key", "api-key", "apikey", "secret", "passw", "cookie", "credential", 'token":'),
        *("private_key", "private-key", "privatekey"),
    )
)
"""In lower case, what a line must hold before it is looked through: few do."""

URL = b"://"

_markers = BytesAhoCorasick([URL, *MARKERS])
"""All of them in one pass: searched one after the other they cost twelve times as much, more than building the records."""


def scrub(value: JSON) -> JSON:
    """The value without its secrets. A secret becomes `[redacted:…]` with a short hash, so that two can still be compared."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Mapping):
        changed = {key: _scrub_entry(key, item) for key, item in value.items()}
        # The same object where nothing was taken out: content is known by identity further on.
        return value if all(changed[key] is value[key] for key in changed) else changed
    if isinstance(value, (list, tuple)):
        items = [scrub(item) for item in value]
        return cast(JSON, value) if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def scrub_line(line: bytes) -> bytes:
    """A line of JSON without its secrets; the same line where it holds none."""
    return orjson.dumps(scrub(orjson.loads(line)), option=orjson.OPT_APPEND_NEWLINE) if _is_suspect(line) else line


def scrub_lines(lines: list[bytes]) -> list[bytes]:
    """Lines of JSON without their secrets. Looks through all of them at once first: mostly there is nothing to find."""
    return [scrub_line(line) for line in lines] if _is_suspect(b"".join(lines)) else lines


def _is_suspect(line: bytes) -> bool:
    found = {pattern for pattern, _, _ in _markers.find_matches_as_indexes(line.lower())}
    return bool(found) and (found != {0} or b"@" in line)


def scrub_record(span: SpanRecord) -> SpanRecord:
    """A record without its secrets, for where it leaves by another way than the journal."""
    error = None if span.error is None else replace(span.error, message=scrub_text(span.error.message))
    return replace(
        span,
        input=scrub(span.input),
        output=scrub(span.output),
        metadata=cast(Mapping[str, JSON], scrub(span.metadata)),
        events=tuple(replace(event, data=scrub(event.data)) for event in span.events),
        settings={key: replace(setting, value=scrub(setting.value)) for key, setting in span.settings.items()},
        server_report=scrub(span.server_report),
        error=error,
    )


def scrub_text(text: str) -> str:
    return SECRET_VALUE.sub(lambda match: _redacted(match[0]), text)


def _scrub_entry(key: str, value: JSON) -> JSON:
    if isinstance(value, str) and value and SECRET_KEY.search(key):
        return value if set(value) == {"*"} else _redacted(value)
    return scrub(value)


def _redacted(secret: str) -> str:
    return f"[redacted:{blake2b(secret.encode('utf-8', 'replace'), digest_size=4).hexdigest()}]"

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
    r"(^|[_\-.]|(?<=[a-z])(?=[A-Z]))(?i:(proxy-)?authorization|api[_-]?key|(api|client)?[_-]?secret([_-]?(access)?[_-]?key)?"
    r"|password|passwd|passphrase|pwd|cookies?|set-cookie|credentials?|(private|account|access|subscription|signing)[_-]?key"
    r"|connection[_-]?string|(access|auth|bearer|refresh|session|id|security|csrf)[_-]?token|token)$"
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
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"  # user and password in a URL
    r"|(?<=://)[^/\s:@]{8,}(?=@)"  # a token in a URL
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/\-]{8,}=*"
    r"|(?<=[Bb]asic )(?=[A-Za-z0-9+/][a-z]*[A-Z0-9+/][A-Za-z]*?[A-Z0-9+/=])[A-Za-z0-9+/]{8,}=*"  # base64, no word
)
ASSIGNED = re.compile(
    # NAME=value, as in an environment, a query or a connection string: whatever the name begins with.
    # From the name's beginning on: tried at each letter, a long word would cost its length squared.
    r"(?<![A-Za-z0-9_.\-])(?i:(?P<name>[a-z0-9_.\-]*(api[_-]?key|apikey|secret|secret[_-]?(access[_-]?)?key|passw(or)?d|passphrase|pwd|token|"
    r"(private|account|access|subscription|signing)[_-]?key|credentials?|signature|sig))=)[\"']?"
    r"(?P<value>[^\s\"'&;,<>)}\]]{4,})"
    # "name": "value", as in JSON or a dict that was written into a text.
    r"|(?i:[\"'\\]{1,3}[a-z0-9_.\-]*(api[_-]?key|apikey|secret|secret[_-]?(access[_-]?)?key|passw(or)?d|passphrase|token|"
    r"(private|account|access|subscription)[_-]?key|(proxy-)?authorization|(set-)?cookie)[\"'\\]{1,3}\s*[:,]\s*b?[\"'\\]{1,3})"
    r"(?P<quoted>[^\"'\\]{4,})"
    # Name: value, as a header is written.
    r"|(?i:\b((proxy-)?authorization|(set-)?cookie|x-[a-z\-]*(key|token)|api-key):[ \t]*)(?P<header>[^\r\n\"']{4,})"
)
"""A secret that stands in a text beside its name."""

MARKERS = tuple(
    marker.encode()
    for marker in (
        *("sk-", "gsk_", "hf_", "xai-", "akia", "asia", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "eyj", "-----begin", "bearer "),
        *("authorization", "api_key", "api-key", "apikey", "secret", "passw", "cookie", "credential", 'token":'),
        *("private_key", "private-key", "privatekey", "basic ", "token=", "token'", "pwd", "passphrase"),
        *("account_key", "accountkey", "access_key", "accesskey", "access-key", "signing", "sig="),
        *("subscription_key", "subscription-key", "subscriptionkey", "connection_string", "connection-string"),
        *("connectionstring", "signature=", "token\\", "-key:", "-token:", "key="),
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
        # Beside a log probability, a token is a piece of text.
        named = "token" if "logprob" in value else None
        changed = {key: scrub(item) if key == named else _scrub_entry(key, item) for key, item in value.items()}
        # The same object where nothing was taken out: content is known by identity further on.
        return value if all(changed[key] is value[key] for key in changed) else changed
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str) and SECRET_KEY.search(value[0]):
            return [value[0], _scrub_secret(value[1])]  # a header as a pair
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
        tags=tuple(scrub_text(tag) for tag in span.tags),
        session=None if span.session is None else scrub_text(span.session),
        user=None if span.user is None else scrub_text(span.user),
    )


def scrub_text(text: str) -> str:
    return ASSIGNED.sub(_without_value, SECRET_VALUE.sub(lambda match: _redacted(match[0]), text))


def _without_value(match: re.Match[str]) -> str:
    value = match["value"] or match["quoted"] or match["header"]
    if value.startswith("[redacted") or "[redacted:" in value or set(value) == {"*"}:
        return match[0]
    return match[0][: match.start(match.lastgroup or 0) - match.start()] + _redacted(value)


def _scrub_entry(key: str, value: JSON) -> JSON:
    if SECRET_KEY.search(key):
        return _scrub_secret(value)
    return scrub(value)


def _scrub_secret(value: JSON) -> JSON:
    """What stands under the name of a secret: every text of it, whatever its shape."""
    if isinstance(value, str):
        return value if not value or set(value) == {"*"} or value.startswith("[redacted:") else _redacted(value)
    if isinstance(value, Mapping):
        return {key: _scrub_secret(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrub_secret(item) for item in value]
    return value


def _redacted(secret: str) -> str:
    return f"[redacted:{blake2b(secret.encode('utf-8', 'replace'), digest_size=4).hexdigest()}]"

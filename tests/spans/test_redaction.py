"""Secrets never reach the disk, and nothing else is touched."""

from __future__ import annotations

import orjson
import pytest

from agenttrace.spans.redaction import scrub, scrub_line, scrub_text
from agenttrace.steps import JSON

SECRETS = [
    "sk-abcdefghijklmnop1234",
    "sk-ant-api03-abcdefghijklmnop",
    "gsk_abcdefghijklmnop1234",
    "hf_abcdefghijklmnop1234",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "xoxb-1234567890-abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_known_by_its_shape(secret: str) -> None:
    """A key in the middle of a text is taken out, and the text around it stays."""
    assert secret not in scrub_text(f"before {secret} after")
    assert scrub_text(f"before {secret} after").startswith("before [redacted:")
    assert scrub_text(f"before {secret} after").endswith("] after")


@pytest.mark.parametrize(
    "key",
    ["api_key", "OPENAI_API_KEY", "Authorization", "x-api-key", "password", "access_token", "Set-Cookie", "token"],
)
def test_a_secret_is_known_by_its_key(key: str) -> None:
    """What is called a key, token or password is one, whatever it looks like."""
    assert scrub({"outer": {key: "plain looking"}}) != {"outer": {key: "plain looking"}}


@pytest.mark.parametrize("key", ["max_tokens", "total_tokens", "keyboard", "tokenizer", "password_policy", "author"])
def test_what_only_sounds_like_a_secret_stays(key: str) -> None:
    """Counts of tokens and the like are no secrets."""
    assert scrub({key: "300"}) == {key: "300"}


def test_a_password_in_a_url_goes_and_the_host_stays() -> None:
    """A connection string says where, not with what."""
    text = scrub_text("postgres://me:hunter2@db.example:5432/x")
    assert "hunter2" not in text
    assert text.endswith("@db.example:5432/x")


def test_the_same_secret_is_the_same_mark() -> None:
    """Two runs can still be compared for the same key."""
    assert scrub_text(SECRETS[0]) == scrub_text(SECRETS[0])
    assert scrub_text(SECRETS[0]) != scrub_text(SECRETS[1])


def test_what_holds_no_secret_is_the_same_object() -> None:
    """Content is known by identity further on, so nothing is copied without need."""
    value: JSON = {"messages": [{"role": "user", "content": "hello"}], "n": 1, "t": (1, 2)}
    assert scrub(value) is value


@pytest.mark.parametrize("secret", [*SECRETS, "postgres://me:hunter2@db/x", "Bearer abcdefgh12345"])
def test_a_line_with_a_secret_is_always_looked_through(secret: str) -> None:
    """The quick look that spares most lines a walk misses no secret."""
    assert secret.encode() not in scrub_line(orjson.dumps({"r": "spans", "input": f"x {secret} y"}))
    assert b"hush" not in scrub_line(orjson.dumps({"metadata": {"Api_Key": "hush", "x": {"refresh_token": "hush"}}}))


def test_a_line_without_a_secret_is_the_same_line() -> None:
    """Most lines are written as they were built."""
    line = orjson.dumps({"r": "spans", "max_tokens": 300, "input": "hello"})
    assert scrub_line(line) is line


@pytest.mark.parametrize(
    "text",
    [
        "OPENAI_API_KEY=plain-hush and more",
        "GET /x?api_key=plain-hush&n=1",
        "redis://:plain-hush@host/0",
        "https://plain-hush-token@host/x",
        "Authorization: Digest plain-hush",
        "Cookie: sid=plain-hush; theme=dark",
        '{"api_key": "plain-hush"}',
        r"{\"password\": \"plain-hush\"}",
        "('x-api-key', 'plain-hush')",
        "AccountKey=plain-hush;EndpointSuffix=x",
    ],
)
def test_a_secret_beside_its_name_in_a_text_goes(text: str) -> None:
    """Assignments, queries, URLs, headers and JSON inside a text; in a whole line too, past the quick look."""
    assert "plain-hush" not in scrub_text(text)
    assert b"plain-hush" not in scrub_line(orjson.dumps({"r": "spans", "input": text}))


@pytest.mark.parametrize(
    "text", ["max_tokens=1000", "token: 5", "the password: please ask", "the basic functionality", "monkey=banana"]
)
def test_prose_that_sounds_like_a_secret_stays(text: str) -> None:
    """What is no secret is kept as it is."""
    assert scrub_text(text) == text

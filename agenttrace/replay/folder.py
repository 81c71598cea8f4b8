"""The files of a recording: JSON Lines, one file a process, each line vouching for the ones before it.

A message, or a set of parameters, is a line of its own, once a file; replies refer to it by number, so that a conversation
takes space as it grows and no more. Each line ends in a check over its text and the check before: a line that was cut,
edited, removed or moved is found, with its place.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from agenttrace import clock
from agenttrace.digest import digest
from agenttrace.errors import NoRecording, RecordingDamaged
from agenttrace.langchain.asked_request import Request
from agenttrace.langchain.replay import Reply
from agenttrace.settings.canonical import canonical
from agenttrace.steps import JSON

FORMAT: Final = 1
FILES: Final = "replies-*.jsonl"
CHECK: Final = b',"check":"'
CHECK_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """A reply with the request that it answers."""

    request: Request
    reply: Reply
    key: str
    """Of the request: `key_of`."""
    place: tuple[int, int]
    """When its file was begun, and its number among the calls of that process: the order in which calls began."""


def key_of(request: Request) -> str:
    """Equal for requests with the same model, parameters and messages, by their spelling of RFC 8785."""
    return _key(request.model, _digest(request.params), [_digest(message) for message in request.messages])


def _digest(value: JSON) -> str:
    return digest(canonical(value))


def _key(model: str, params: str, messages: Sequence[str]) -> str:
    return _digest([model, params, list(messages)])


class ReplyFile:
    """Appends the replies of one process. Used by one thread at a time; raises `OSError` where the disk refuses."""

    def __init__(self, folder: Path, process: str, runs: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = process.replace(":", "-").replace("/", "-")
        self._path = folder / f"replies-{name}-{secrets.token_hex(2)}.jsonl"
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._check = b""
        self._contents: dict[str, int] = {}
        self._write([{"format": FORMAT, "begun_ns": clock.wall_ns(), "runs": list(runs)}])

    def append(self, number: int, request: Request, reply: Reply) -> None:
        """What is given holds no secrets any more."""
        new: list[Mapping[str, Any]] = []
        params, *messages = (self._content(value, new) for value in (request.params, *request.messages))
        told = {**asdict(reply), "params": params, "messages": messages, "model": request.model}
        told |= {"reply": number, "site": request.site, "scope": request.scope, "run_id": request.run_id}
        self._write([*new, {key: value for key, value in told.items() if value not in (None, [], {})}])

    def _content(self, value: JSON, new: list[Mapping[str, Any]]) -> int:
        key = _digest(value)
        if key not in self._contents:
            self._contents[key] = len(self._contents)
            new.append({"content": value})
        return self._contents[key]

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        data = b""
        check = self._check
        for line in lines:
            body = _body(line)
            check = _checked(check, body)
            data += body[:-1] + CHECK + check + b'"}\n'
        os.write(self._file, data)
        self._check = check

    def close(self) -> None:
        os.close(self._file)


def _body(line: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(line)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(line, separators=(",", ":")).encode()


def _checked(before: bytes, body: bytes) -> bytes:
    return blake2b(before + body, digest_size=CHECK_DIGITS // 2).hexdigest().encode()


def recorded_runs(folder: Path) -> frozenset[str] | None:
    """The runs that a recording in this folder was begun for; None where there is no recording."""
    files = sorted(folder.glob(FILES))
    if not files:
        return None
    return frozenset(run for path in files for run in next(_lines(path)).get("runs", ()))


def read_replies(folder: Path) -> list[RecordedReply]:
    """All replies of a recording, in the order in which their calls began.

    Raises:
        NoRecording: there is none in the folder, or one of a later release.
        RecordingDamaged: a line is not as it was written.
    """
    files = sorted(folder.glob(FILES)) if folder.is_dir() else []
    if not files:
        raise NoRecording(f"There is no recording in {folder}. Make one with --record {folder}, or check the path.")
    return sorted((reply for path in files for reply in _replies(path)), key=lambda one: one.place)


def _replies(path: Path) -> Iterator[RecordedReply]:
    lines = _lines(path)
    head = next(lines)
    contents: list[JSON] = []
    digests: list[str] = []
    for number, line in enumerate(lines, 2):
        try:
            if "content" in line:
                contents.append(line["content"])
                digests.append(_digest(line["content"]))
                continue
            yield _reply(line, head["begun_ns"], contents, digests)
        except (LookupError, TypeError, ValueError) as error:
            raise _damaged(path, number, "it is no reply") from error


def _reply(line: Mapping[str, Any], begun: int, contents: Sequence[JSON], digests: Sequence[str]) -> RecordedReply:
    messages = line.get("messages", [])
    request = Request(
        model=line["model"],
        params=contents[line["params"]],
        messages=[contents[number] for number in messages],
        site=line.get("site", ""),
        scope=line.get("scope", {}),
        run_id=line.get("run_id"),
    )
    reply = Reply(**{name: line[name] for name in (field.name for field in fields(Reply)) if name in line})
    key = _key(request.model, digests[line["params"]], [digests[number] for number in messages])
    return RecordedReply(request=request, reply=reply, key=key, place=(begun, line.get("reply", 0)))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, the head first; each is looked through before the next one is."""
    check = b""
    number = 0
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            body, mark, rest = raw.rpartition(CHECK)
            if not raw.endswith(b"\n"):
                raise _damaged(path, number, "it is cut off")
            body += b"}"
            check = _checked(check, body)
            if not mark or rest != check + b'"}\n':
                raise _damaged(path, number, "it is not as it was written, or the line before it is missing")
            line: dict[str, Any] = json.loads(body)
            if number == 1 and line.get("format") != FORMAT:
                raise NoRecording(
                    f"{path} is a recording of format {line.get('format')}, and this agenttrace reads format {FORMAT}. "
                    "Use the agenttrace that made it, or record again."
                )
            yield line
    if number == 0:
        raise _damaged(path, 1, "the file is empty")


def _damaged(path: Path, line: int, what: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"{path}, line {line}, is damaged: {what}. Take the recording from where it is kept, or record again; nothing was replayed."
    )

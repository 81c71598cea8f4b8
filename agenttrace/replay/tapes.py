"""The two tapes: one takes down what models reply, the other replies in their place."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from agenttrace.errors import NoRecording, ReplayMiss, UsageError
from agenttrace.langchain.asked_request import Request
from agenttrace.langchain.replay import Delivery, Reply, at
from agenttrace.replay.cleaning import clean_reply, clean_request
from agenttrace.replay.folder import RecordedReply, ReplyFile, key_of, read_replies, recorded_runs
from agenttrace.replay.nearest import differences, nearest
from agenttrace.spans.content_policy import CONTENT, ContentPolicy
from agenttrace.store.journal import process_name

MOST_CANDIDATES = 2_000
"""Recorded requests that a miss is held against: each costs its messages."""

log = logging.getLogger("agenttrace")

PolicyOf = Callable[[str | None], ContentPolicy]
"""What may be kept of a run's content."""


class RecordingTape:
    """Takes replies down into a folder. A reply of a run whose content may not be kept in full is left out, and counted."""

    is_replay = False

    def __init__(self, folder: Path, policy_of: PolicyOf, runs: Sequence[str] = ()) -> None:
        """`runs`: a recording that was begun for the same runs is added to.

        Raises:
            NoRecording: the folder holds a recording already, or cannot be written.
        """
        begun_for = recorded_runs(folder) if folder.is_dir() else None
        if begun_for is not None and not (runs and begun_for >= set(runs)):
            raise NoRecording(
                f"{folder} holds a recording already, and two would answer for each other. "
                "Delete it, or name another folder; to use it: --replay."
            )
        self._folder, self._runs, self._policy_of = folder, runs, policy_of
        self.kept = self.withheld = self.failed = 0
        self.misses: tuple[str, ...] = ()
        self.last_error: str | None = None
        self._file: ReplyFile | None = None
        self._is_closed = False
        self._start_afresh()
        try:
            self._file = ReplyFile(self._folder, process_name(), self._runs)
        except OSError as error:
            raise NoRecording(f"{self._folder} cannot be written: {error.strerror}. Name another folder.") from error
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_afresh)

    def _start_afresh(self) -> None:
        """A forked child writes a file of its own, once it has something to write."""
        self._file = None
        self._waiting: deque[tuple[int, Request, Reply]] = deque()
        self._lock = threading.Lock()
        self._numbers = count(1)

    def ask(self, request: Request) -> int:
        return next(self._numbers)

    def answer(self, request: Request, delivery: Delivery) -> Reply:
        raise ReplayMiss("This is being recorded, and not replayed.")

    def keep(self, place: int, request: Request, reply: Reply) -> None:
        self._waiting.append((place, request, reply))
        # Never waiting for the lock: a stream that is thrown away ends inside garbage collection, which may run while this
        # very thread holds it. Who holds it writes what came meanwhile.
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                self._write()
            finally:
                self._lock.release()

    def _write(self) -> None:
        while self._waiting:
            number, request, reply = self._waiting.popleft()
            if self._is_closed:  # a stream that was read on after the recording had ended
                continue
            policy = self._policy_of(request.run_id)
            if any(getattr(policy, kind) != "full" for kind in CONTENT):
                self.withheld += 1
                continue
            try:
                if self._file is None:
                    self._file = ReplyFile(self._folder, process_name(), self._runs)
                self._file.append(number, clean_request(request, policy.redact), clean_reply(reply, policy.redact))
                self.kept += 1
            except Exception as error:
                self.count_error(error)

    def count_error(self, error: Exception) -> None:
        self.failed += 1
        self.last_error = f"{type(error).__name__}: {error}"[:500]
        if self.failed == 1:
            log.warning("agenttrace could not keep a reply for replaying (%s).", self.last_error)

    def close(self) -> None:
        with self._lock:
            self._write()
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def told(self) -> str:
        """What became of the recording, as a sentence."""
        text = f"{self.kept} {'reply' if self.kept == 1 else 'replies'} of models recorded in {self._folder}."
        if self.withheld:
            text += f" {self.withheld} left out: the content policy does not let them be kept in full."
        if self.failed:
            text += f" {self.failed} could not be kept ({self.last_error})."
        return text


@dataclass(slots=True)
class _Repetitions:
    """The replies to one request, at one call site, within one attempt."""

    replies: list[RecordedReply] = field(default_factory=list)
    given: int = 0


class ReplayTape:
    """Gives the replies of a recording, each once, in the order in which their calls began."""

    is_replay = True

    def __init__(self, folder: Path, policy_of: PolicyOf) -> None:
        """Raises `NoRecording` and `RecordingDamaged`: the whole recording is read and checked first."""
        self._folder, self._policy_of = folder, policy_of
        self._lock = threading.Lock()
        self._recorded = _latest_attempts(read_replies(folder))
        self._by_key: dict[tuple[str, str, tuple[tuple[str, object], ...]], _Repetitions] = {}
        for one in self._recorded:
            self._by_key.setdefault(_slot(one.key, one.request), _Repetitions()).replies.append(one)
        self.given = 0
        self.misses: list[str] = []

    def ask(self, request: Request) -> int:
        return 0

    def keep(self, place: int, request: Request, reply: Reply) -> None:
        """Nothing: what is replayed is kept already."""

    def count_error(self, error: Exception) -> None:
        """Nothing: what fails while replaying is raised."""

    def answer(self, request: Request, delivery: Delivery) -> Reply:
        asked = clean_request(request, self._policy_of(request.run_id).redact)
        repetitions = self._by_key.get(_slot(key_of(asked), asked))
        with self._lock:
            if repetitions is None or repetitions.given >= len(repetitions.replies):
                raise self._miss(self._why(asked, repetitions))
            reply = repetitions.replies[repetitions.given].reply
            if _can_be_given(reply, delivery):
                repetitions.given += 1
                self.given += 1
                return reply
        raise self._miss(
            f"What is asked{at(asked)} was recorded as {WORDS[reply.delivery]}"
            f"{'' if reply.is_whole else ', which its reader left'}, and is asked for as {WORDS[delivery]} now. "
            "Ask for it as it was recorded, or record again."
        )

    def _miss(self, text: str) -> ReplayMiss:
        self.misses.append(text)
        return ReplayMiss(text)

    def _why(self, asked: Request, repetitions: _Repetitions | None) -> str:
        if repetitions is not None:
            recorded = len(repetitions.replies)
            times = "once" if recorded == 1 else f"{recorded} times"
            return (
                f"The recording {self._folder} has this request{at(asked)} {times}, "
                "and it is asked once more. Record again, with as many repetitions as are wanted."
            )
        near = nearest(asked, self._candidates(asked))
        if near is None:
            return f"The recording {self._folder} holds no reply at all. Record again, with --record."
        lines = "\n".join(f"  {line}" for line in differences(asked, near))
        return (
            f"The recording {self._folder} has no reply to what is asked{at(asked)}. "
            f"The nearest recorded request{at(near)} differs in:\n{lines}\n"
            "Undo the difference, or record again with --record; no model was called."
        )

    def _candidates(self, asked: Request) -> list[Request]:
        """Where the nearest request is looked for: in the same attempt and place if there is any, and not in all of a large one."""
        requests = [one.request for one in self._recorded]
        here = [one for one in requests if one.site == asked.site]
        same = [one for one in here if one.scope == asked.scope]
        return (same or here or requests)[:MOST_CANDIDATES]

    def close(self) -> None:
        """Nothing is open."""

    def told(self) -> str | None:
        """What was not in the recording, as a sentence; None where all was."""
        if not self.misses:
            return None
        missed = len(self.misses)
        return f"{missed} {'request was' if missed == 1 else 'requests were'} not in the recording. The first: {self.misses[0]}"


WORDS: Mapping[Delivery, str] = {"whole": "a whole reply", "stream": "a stream", "events": "a stream of events"}


def _can_be_given(reply: Reply, delivery: Delivery) -> bool:
    """As it was recorded; a whole stream also as a whole; an error before the first chunk in any way."""
    if reply.delivery == delivery:
        return True
    if reply.error is not None and not reply.chunks:
        return True
    return delivery == "whole" and reply.delivery == "stream" and reply.is_whole and bool(reply.chunks)


def _slot(key: str, request: Request) -> tuple[str, str, tuple[tuple[str, object], ...]]:
    return key, request.site, tuple(sorted(request.scope.items()))


def _latest_attempts(recorded: Sequence[RecordedReply]) -> list[RecordedReply]:
    """Without attempts that were broken off and made again by a later process: what they got decided nothing."""
    latest: dict[tuple[object, object], int] = {}
    for one in recorded:
        if "case" in one.request.scope:
            attempt = one.request.scope.get("case"), one.request.scope.get("repetition")
            latest[attempt] = max(latest.get(attempt, 0), one.place[0])
    return [
        one
        for one in recorded
        if "case" not in one.request.scope
        or latest[one.request.scope.get("case"), one.request.scope.get("repetition")] == one.place[0]
    ]


def new_tape(
    recorded: str | os.PathLike[str] | None,
    replayed: str | os.PathLike[str] | None,
    runs: Sequence[str],
    policy_of: PolicyOf,
) -> RecordingTape | ReplayTape:
    """The tape of `--record`, or of `--replay`. Raises what their making raises."""
    if recorded is not None and replayed is not None:
        raise UsageError("A run is recorded or replayed, not both. Give --record or --replay.")
    if recorded is not None:
        return RecordingTape(Path(recorded).absolute(), policy_of, runs)
    assert replayed is not None
    return ReplayTape(Path(replayed).absolute(), policy_of)

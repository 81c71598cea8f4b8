"""Threads for sync tasks: as many as are asked for, and none that keeps the process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Returned = TypeVar("Returned")


class DaemonThreads(ThreadPoolExecutor):
    """A thread a call. The runner bounds how many calls there are; one that never returns ends with the process."""

    def submit(self, function: Callable[..., Returned], /, *args: Any, **kwargs: Any) -> Future[Returned]:
        future: Future[Returned] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="agenttrace-task", daemon=True).start()
        return future

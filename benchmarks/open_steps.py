"""Memory of one handler over 100,000 steps of which a tenth never ends. Run: python benchmarks/open_steps.py"""

from __future__ import annotations

import gc
import resource
import sys
import tempfile
from uuid import UUID, uuid4

from agenttrace import AgentTraceHandler, recording

STEPS = 100_000


def main() -> None:
    """Print the peak of resident memory and the size of the handler's maps as steps go by."""
    handler = AgentTraceHandler(store=tempfile.mkdtemp())
    held: list[UUID] = []  # as an agent that hangs would hold them; else their ends would be seen
    print("steps    MB     open  set aside  remembered  lost")
    for number in range(STEPS + 1):
        run_id = uuid4()
        handler.on_chain_start({"name": "x"}, {"n": number}, run_id=run_id, metadata={}, tags=[])
        if number % 10 == 0:
            held.append(run_id)
        else:
            handler.on_chain_end({"n": number}, run_id=run_id)
        if number % 1_000 == 0:
            recording.flush()
        if number % (STEPS // 5) == 0:
            gc.collect()
            steps = handler._steps

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
            sizes = (len(steps._open), len(steps._aside), len(steps._ended), recording.lost())
            print(f"{number:<7} {peak:6.1f} {sizes[0]:6} {sizes[1]:10} {sizes[2]:11} {sizes[3]:5}")


if __name__ == "__main__":
    main()

"""`agenttrace run`: runs a Python program as `python` would, recorded, and sums up at its end.

The program runs in this process, so its output, exit code and signals are its own. The summary is drawn by a process of its
own: an agent's process never opens the database.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

import click

from agenttrace.cli.options import tape_options
from agenttrace.errors import ScriptNotFound, UsageError
from agenttrace.store.layout import Layout, store_path

if TYPE_CHECKING:
    from agenttrace.replay.tapes import RecordingTape, ReplayTape


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a Python program and record its agents.",
)
@click.option("--store", metavar="PATH", help="Where to record. [default: $AGENTTRACE_STORE, else ./.agenttrace]")
@click.option("--name", metavar="RUN", help="The run's name. [default: the program's]")
@tape_options
@click.option("-q", "--quiet", is_flag=True, help="No summary at the end.")
@click.option("-m", "is_module", is_flag=True, help="The program is a module, as with 'python -m'.")
@click.argument("program", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    store: str | None,
    name: str | None,
    recorded: str | None,
    replayed: str | None,
    quiet: bool,
    is_module: bool,
    program: str | None,
    arguments: tuple[str, ...],
) -> Callable[[], None]:
    """Run a Python program and record every LangChain and LangGraph call it makes.

    \b
    agenttrace run app.py [ARGUMENTS]
    agenttrace run -m package.module [ARGUMENTS]
    """  # noqa: D301  # click reads the control character
    if program is None:
        raise UsageError(
            "No program was named. Give a script, 'agenttrace run app.py', or a module, 'agenttrace run -m app'."
        )
    start = _module(program, arguments) if is_module else _script(program, arguments)
    path = store_path(store)
    Layout(path).require_no_other_use()
    stack = ExitStack()
    tape = None
    if recorded is not None or replayed is not None:
        from agenttrace.recording import tape_in_place

        # Now: that a recording is not right is said before the program runs.
        tape = stack.enter_context(tape_in_place(recorded, replayed, everywhere=True))

    def execute() -> None:
        from agenttrace import recording

        os.environ["AGENTTRACE_STORE"] = str(path)  # the program may change its folder, and start others
        recording.install(path)
        recording.name_process_run(name or (program if is_module else Path(program).stem))
        if not quiet:
            atexit.register(_sum_up, os.getpid())
        if tape is not None:
            atexit.register(_end_tape, os.getpid(), stack, tape)
        sys.excepthook = _without_our_frames(sys.excepthook)
        start()

    return execute


def _script(script: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    path = Path(script).absolute()
    if path.is_dir() and (path / "__main__.py").is_file():
        path = path / "__main__.py"
    if not path.is_file():
        raise ScriptNotFound(
            f"There is no script {script}. Check the path; a module is run with 'agenttrace run -m NAME'."
        )
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(
            f"{script}{where} is no Python program: {_one_line(error)}. "
            "Name a Python file; agenttrace runs it in its own interpreter."
        ) from error

    def start() -> None:
        sys.argv = [script, *arguments]
        _begin_path_with(str(path.resolve().parent))
        main = _new_main()
        main.__dict__.update(__file__=str(path), __loader__=SourceFileLoader("__main__", str(path)))
        exec(code, main.__dict__)  # noqa: S102  # running the user's program is what this command is for

    return start


def _one_line(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def _new_main() -> ModuleType:
    """A fresh `__main__`. It stays in place afterwards: threads and exit handlers of the program go on."""
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __spec__=None)
    sys.modules["__main__"] = main
    return main


def _begin_path_with(folder: str) -> None:
    """What Python puts first on the path, where it puts anything there: it stands in for our own entry's folder."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _module(module: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    top = module.partition(".")[0]
    _begin_path_with(os.getcwd())
    # Only the first part is looked for: what is below it can only be found by importing, and that is the program's run.
    try:
        is_there = importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        raise ScriptNotFound(
            f"There is no module {module}. Check its name, and that it is importable from {os.getcwd()}."
        )

    def start() -> None:
        sys.argv = [module, *arguments]
        _new_main()
        run_as_main: Callable[[str], object] = vars(runpy)["_run_module_as_main"]  # what `python -m` itself calls
        run_as_main(module)

    return start


def _end_tape(process: int, stack: ExitStack, tape: RecordingTape | ReplayTape) -> None:
    """Say what became of a recording, or what was not in it: the program may have gone on without. A fork is told of nothing."""
    stack.close()
    told = tape.told()
    if os.getpid() == process and told is not None:
        _say(f"agenttrace: {told}")


def _sum_up(process: int) -> None:
    """Draw the closing screen of each store that was recorded into. A forked child has none: its run is its parent's."""
    if os.getpid() != process:
        return
    from agenttrace import recording

    recording.flush()
    with suppress(OSError, ValueError, AttributeError):  # the program may have closed it, or its reader may be gone
        sys.stdout.flush()
    recorded = recording.recorded_runs()
    if not any(recorded.values()) and not recording.lost():
        _say("agenttrace: the program made no LangChain or LangGraph call, so nothing was recorded.")
    for store, runs in recorded.items():
        if runs:
            _draw_summary(store, runs)
    if recording.lost():
        _say(f"agenttrace: {recording.lost()} records could not be kept. 'agenttrace doctor' says more.")


def _draw_summary(store: Path, runs: Sequence[str]) -> None:
    command = [sys.executable, "-P", "-m", "agenttrace", "summary", *runs, "--store", str(store)]
    # Its standard output is our standard error: the program's own output stays clean for whoever pipes it. The
    # program's own folder may be gone by now.
    with suppress(OSError, KeyboardInterrupt):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, cwd=store, check=False)  # noqa: S603  # our own


def _say(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")


ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def _without_our_frames(hook: ExceptHook) -> ExceptHook:
    """The hook, given a traceback that begins in the user's program, as `python app.py` would print it."""
    ours = (str(Path(__file__).parents[1]), runpy.__file__, "<frozen runpy>", os.path.abspath(sys.argv[0]), sys.argv[0])

    def show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> object:
        shown = frames
        while shown is not None and shown.tb_frame.f_code.co_filename.startswith(ours):
            shown = shown.tb_next
        # The interpreter's own hook prints what the exception carries, whatever it is given.
        return hook(kind, error.with_traceback(shown or frames), shown or frames)

    return show

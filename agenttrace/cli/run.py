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
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

import click

from agenttrace.errors import ScriptNotFound, UsageError
from agenttrace.store.layout import store_path


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a Python program and record its agents.",
)
@click.option("--store", metavar="PATH", help="Where to record. [default: $AGENTTRACE_STORE, else ./.agenttrace]")
@click.option("--name", metavar="RUN", help="The run's name. [default: the program's]")
@click.option("-q", "--quiet", is_flag=True, help="No summary at the end.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as 'python -m' does.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    store: str | None, name: str | None, quiet: bool, module: str | None, arguments: tuple[str, ...]
) -> Callable[[], None]:
    r"""Run a Python program and record every LangChain and LangGraph call it makes.

    \b
    agenttrace run app.py [ARGUMENTS]
    agenttrace run -m package.module [ARGUMENTS]
    """
    if module is None and not arguments:
        raise UsageError(
            "No program was named. Give a script, 'agenttrace run app.py', or a module, 'agenttrace run -m app'."
        )
    program = _module(module, arguments) if module is not None else _script(arguments[0], arguments[1:])
    path = store_path(store)

    def execute() -> None:
        from agenttrace import recording

        os.environ["AGENTTRACE_STORE"] = str(path)  # the program may change its folder, and start others
        recording.install(path)
        recording.name_process_run(name or (module if module is not None else Path(arguments[0]).stem))
        if not quiet:
            atexit.register(_sum_up, path)
        sys.excepthook = _without_our_frames(sys.excepthook)
        program()

    return execute


def _script(script: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    path = Path(script)
    if path.is_dir() and (path / "__main__.py").is_file():
        path = path / "__main__.py"
    if not path.is_file():
        raise ScriptNotFound(
            f"There is no script {script}. Check the path; a module is run with 'agenttrace run -m NAME'."
        )
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"{script} is no Python program: {_one_line(error)}. Name a Python file; agenttrace runs it in its own interpreter."
        ) from error

    def program() -> None:
        sys.argv = [script, *arguments]
        sys.path[0] = str(path.resolve().parent)
        _execute(code, path)

    return program


def _one_line(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def _execute(code: CodeType, path: Path) -> None:
    """Run the code as `__main__`. The module stays in place afterwards: threads and exit handlers of it go on."""
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=__builtins__, __loader__=None, __spec__=None)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  # running the user's program is what this command is for


def _module(module: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise ScriptNotFound(
            f"There is no module {module}. Check its name, and that it is importable from {os.getcwd()}."
        )

    def program() -> None:
        sys.argv = [module, *arguments]
        if sys.path[1:2]:
            del sys.path[1]  # the folder of our own entry script
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return program


def _sum_up(store: Path) -> None:
    from agenttrace import recording

    recording.flush()
    sys.stdout.flush()
    runs = recording.recorded_runs()
    if not runs:
        sys.stderr.write("agenttrace: the program made no LangChain or LangGraph call, so nothing was recorded.\n")
        return
    command = [sys.executable, "-P", "-m", "agenttrace", "summary", *runs, "--store", str(store)]
    # Its standard output is our standard error: the program's own output stays clean for whoever pipes it.
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False)  # noqa: S603  # our own command


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

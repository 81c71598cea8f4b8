"""Finds a suite by what is typed: a Python file or a module, and the suite's name in it where there are several."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from agenttrace.errors import AgentTraceError, InvalidSuite
from agenttrace.evaluation.suite import Suite


def load_suite(text: str) -> Suite:
    """The suite of `suite.py`, `suite.py:name`, `package.module` or `package.module:name`.

    Raises:
        InvalidSuite: there is no such file or module, it cannot be imported, or it holds no suite, or several.
        AgentTraceError: what the suite itself raised on its way.
    """
    place, _, name = text.partition(":")
    module = _import_file(Path(place)) if place.endswith(".py") or os.sep in place else _import_module(place)
    suites = {key: value for key, value in vars(module).items() if isinstance(value, Suite)}
    if name:
        if name not in suites:
            raise InvalidSuite(f"{place} holds no suite '{name}'. It holds: {', '.join(suites) or 'none'}.")
        return suites[name]
    different = {id(suite): suite for suite in suites.values()}
    if len(different) != 1:
        found = f"holds {len(different)} suites, {', '.join(suites)}" if suites else "holds no suite"
        advice = f"Name one: {place}:{next(iter(suites))}" if suites else "Make one: suite = Suite(…)"
        raise InvalidSuite(f"{place} {found}. {advice}")
    return next(iter(different.values()))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidSuite(f"There is no suite file {path}. Check the path, or make one: 'agenttrace eval init'.")
    _look_in(os.getcwd(), str(path.resolve().parent))
    name = f"agenttrace_suite_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InvalidSuite(f"{path} is no Python file by its name. Name a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickles and type hints look for it
    try:
        spec.loader.exec_module(module)
    except AgentTraceError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidSuite(_not_imported(str(path), error)) from error
    return module


def _import_module(name: str) -> ModuleType:
    _look_in(os.getcwd())
    try:
        return importlib.import_module(name)
    except AgentTraceError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and (name + ".").startswith(f"{error.name}."):
            raise InvalidSuite(
                f"There is no suite {name}: no file, and no module importable from {os.getcwd()}. Check its name."
            ) from error
        raise InvalidSuite(_not_imported(name, error)) from error


def _look_in(*folders: str) -> None:
    for folder in folders:
        if folder not in sys.path:
            sys.path.insert(0, folder)


def _not_imported(what: str, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    said = traceback.format_exception_only(error)[-1].strip()
    return f"{what} does not import: {said}{where}. Put that right; nothing was run."

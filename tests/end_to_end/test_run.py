"""`agenttrace run` runs a program as `python` would, recorded, and sums up at its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agenttrace import open_store

AGENT = """
import sys
from langchain_core.language_models.fake_chat_models import FakeListChatModel
print("answer:", FakeListChatModel(responses=["42"]).invoke("question").content)
"""


def run(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agenttrace", "run", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, input=stdin,
    )  # fmt: skip


@pytest.fixture
def script(tmp_path: Path, store: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(AGENT)
    return path


def test_a_script_runs_untouched_and_is_summed_up(script: Path, store: Path) -> None:
    """The program's output is its own; the summary stands on standard error, with the command that shows more."""
    result = run("app.py", cwd=script.parent)
    assert (result.returncode, result.stdout) == (0, "answer: 42\n")
    trace = open_store().traces()[0]
    assert f"agenttrace show {trace.trace_id[:8]}" in result.stderr
    assert "1 model call" in result.stderr
    assert open_store().runs()[0].name == "app"


def test_arguments_belong_to_the_program(script: Path) -> None:
    """What stands behind the script is the script's, options too."""
    script.write_text("import sys; print(sys.argv, __name__, __file__, sys.path[0])")
    result = run("app.py", "--store", "x", "-m", cwd=script.parent)
    assert result.stdout.strip() == f"['app.py', '--store', 'x', '-m'] __main__ {script} {script.parent}"


def test_a_module_runs_as_python_m_does(script: Path) -> None:
    """A package's `__main__` finds its own modules, and names the run."""
    package = script.parent / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("VALUE = 7")
    (package / "__main__.py").write_text(
        "import sys\nfrom pack.helper import VALUE\nprint(VALUE, sys.argv[1:])\n" + AGENT
    )
    result = run("-m", "pack", "a", "--b", cwd=script.parent)
    assert result.stdout.startswith("7 ['a', '--b']\nanswer: 42"), result.stderr
    assert open_store().runs()[0].name == "pack"


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(7)", 7), ("sys.exit('bye')", 1), ("raise SystemExit", 0), ("1 / 0", 1)]
)
def test_the_exit_code_is_the_programs_own(script: Path, ending: str, code: int) -> None:
    """Whatever way a program ends, its exit code is what `python` would give, and all is recorded."""
    script.write_text(AGENT + ending)
    plain = subprocess.run([sys.executable, "app.py"], capture_output=True, text=True, cwd=script.parent, check=False)
    result = run("app.py", cwd=script.parent)
    assert result.returncode == plain.returncode == code
    assert len(open_store().traces()) == 1


def test_a_traceback_is_the_programs_own(script: Path) -> None:
    """A program that raises shows what `python` would show, without a frame of ours."""
    script.write_text("def inner():\n    raise ValueError('mine')\n\ninner()\n")
    plain = subprocess.run([sys.executable, "app.py"], capture_output=True, text=True, cwd=script.parent, check=False)
    result = run("-q", "app.py", cwd=script.parent)
    shown = result.stderr.replace(f'"{script.parent}/app.py"', '"app.py"')
    assert shown == plain.stderr.replace(f'"{script.parent}/app.py"', '"app.py"')


def test_standard_input_reaches_the_program(script: Path) -> None:
    """The program reads what is piped in."""
    script.write_text("print(input()[::-1])")
    assert run("-q", "app.py", cwd=script.parent, stdin="abc\n").stdout == "cba\n"


def test_nothing_recorded_is_said_in_one_line(script: Path, store: Path) -> None:
    """A program without LangChain gets one line and no store."""
    script.write_text("print('hi')")
    result = run("app.py", cwd=script.parent)
    assert (result.stdout, len(result.stderr.splitlines())) == ("hi\n", 1)
    assert not store.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["broken.py"], "broken.py, line 1"),
        (["nowhere.py"], "There is no script nowhere.py"),
        (["-m", "no.such.module"], "There is no module no.such.module"),
        ([], "No program was named"),
        (["broken.py"], "is no Python program"),
    ],
)
def test_what_cannot_run_is_said_in_a_sentence(script: Path, store: Path, arguments: list[str], text: str) -> None:
    """A missing or broken program is a usage error, without a traceback and without a store."""
    (script.parent / "broken.py").write_text("def (")
    result = run(*arguments, cwd=script.parent)
    assert result.returncode == 2
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert not store.exists()


def test_a_folder_of_something_else_is_not_made_a_store(script: Path, tmp_path: Path) -> None:
    """Nothing is written into it and the program is not started; an empty folder will do."""
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_bytes(b"")
    refused = run("-q", "--store", str(folder), "app.py", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "cat.jpg" in refused.stderr
    assert [file.name for file in folder.iterdir()] == ["cat.jpg"]
    (folder / "cat.jpg").unlink()
    assert run("-q", "--store", str(folder), "app.py", cwd=tmp_path).returncode == 0
    assert len(open_store(folder).traces()) == 1


def test_an_interrupt_ends_the_program_as_ever(script: Path) -> None:
    """Ctrl-C ends the program by the signal, as it does without us; what was recorded is there."""
    script.write_text(AGENT + "sys.stdout.flush()\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "agenttrace", "run", "app.py"],
        cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "answer: 42\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert "agenttrace show" in errors
    assert [trace.state for trace in open_store().traces()] == ["ok"]


def test_a_killed_program_leaves_what_it_had_done(script: Path) -> None:
    """After `kill -9` the finished steps are there, and the open one is unfinished."""
    script.write_text(
        "import time\nfrom langchain_core.runnables import RunnableLambda\n"
        "RunnableLambda(lambda x: x).invoke(1)\n"
        "RunnableLambda(lambda x: (time.sleep(0.3), print('waiting', flush=True), time.sleep(60))).invoke(2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "agenttrace", "run", "app.py"], cwd=script.parent, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()  # the open step began 0.3 s ago, which is six times the promised 50 ms
    process.kill()
    process.communicate()
    assert [trace.state for trace in open_store().traces()] == ["unfinished", "ok"]


def test_two_programs_and_a_reader_lose_nothing(script: Path, store: Path) -> None:
    """Two agents record into one store while somebody reads it all the time: every step is there once."""
    script.write_text(
        "from langchain_core.runnables import RunnableLambda\n"
        "step = RunnableLambda(lambda x: x + 1)\n"
        "for number in range(400):\n    (step | step | step).invoke(number)\n"
    )
    command = [sys.executable, "-m", "agenttrace", "run", "-q", "app.py"]
    programs = [subprocess.Popen(command, cwd=script.parent) for _ in range(2)]
    looks = 0
    while any(program.poll() is None for program in programs):
        if store.exists():
            looks += len(open_store().traces(limit=5)) > 0
        time.sleep(0.02)  # the reader's pace
    assert [program.returncode for program in programs] == [0, 0]
    assert looks > 0
    traces = open_store().traces()
    assert len(traces) == 800
    assert {trace.spans for trace in traces} == {4}
    assert {trace.state for trace in traces} == {"ok"}
    assert open_store().damaged_lines() == 0
    assert os.listdir(store / "journal") == []


def test_options_behind_a_module_are_the_modules(script: Path) -> None:
    """Everything behind the module's name belongs to the module, `--help` and `--` too."""
    (script.parent / "echo.py").write_text("import sys; print(sys.argv[1:])")
    result = run("-m", "echo", "--name", "bob", "-q", "--help", "--", "x", cwd=script.parent)
    assert result.stdout.strip() == "['--name', 'bob', '-q', '--help', '--', 'x']"


@pytest.mark.parametrize("module", ["bad", "bad.inner", "nomain", "os.nowhere"])
def test_a_module_that_cannot_start_fails_as_in_python(script: Path, module: str) -> None:
    """An error while importing the program's own package is the program's, code and text."""
    (script.parent / "bad").mkdir()
    (script.parent / "bad" / "__init__.py").write_text("import nosuchdep")
    (script.parent / "nomain").mkdir()
    (script.parent / "nomain" / "__init__.py").write_text("")
    plain = subprocess.run(
        [sys.executable, "-m", module], capture_output=True, text=True, cwd=script.parent, check=False
    )
    result = run("-q", "-m", module, cwd=script.parent)
    assert result.returncode == plain.returncode == 1
    assert result.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert "bug in agenttrace" not in result.stderr


def test_main_stays_in_place_for_threads_and_exit_handlers(script: Path) -> None:
    """What runs after the program's last line still finds its classes in `__main__`."""
    late = (
        "import atexit, pickle, threading, time\n"
        "class C: pass\n"
        "atexit.register(lambda: print('exit', pickle.loads(pickle.dumps(C())).__class__.__name__))\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread', len(pickle.dumps(C())) > 0))).start()\n"
    )
    (script.parent / "late.py").write_text(late)
    for arguments in (["late.py"], ["-m", "late"]):
        assert run("-q", *arguments, cwd=script.parent).stdout == "thread True\nexit C\n"


@pytest.mark.parametrize(
    "ending", ["sys.stdout.close()", "import os, shutil; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"]
)
def test_the_closing_screen_needs_nothing_of_the_programs(script: Path, ending: str) -> None:
    """A closed output or a vanished folder of the program's costs no screen and brings no traceback of ours."""
    script.write_text(AGENT + ending)
    result = run("app.py", cwd=script.parent)
    assert result.returncode == 0
    assert "agenttrace show" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_programs_output_keeps_its_encoding(script: Path) -> None:
    """Bytes that are no UTF-8 leave as Python would let them leave."""
    script.write_text("print('\\udcff')")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "utf-8:surrogateescape"}
    command = [sys.executable, "-m", "agenttrace", "run", "-q", "app.py"]
    result = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, check=False)
    assert result.stdout == b"\xff\n", result.stderr


def test_forked_workers_belong_to_the_run(script: Path) -> None:
    """Workers of multiprocessing end without exit handlers; what they did is there, and shown once."""
    script.write_text(
        "import multiprocessing\n"
        "from langchain_core.runnables import RunnableLambda\n"
        "def work(x):\n    return RunnableLambda(lambda x: x).invoke(x)\n"
        "if __name__ == '__main__':\n"
        "    work(0)\n"
        "    context = multiprocessing.get_context('fork')\n"
        "    workers = [context.Process(target=work, args=(n,)) for n in range(4)]\n"
        "    [worker.start() for worker in workers]\n    [worker.join() for worker in workers]\n"
    )
    result = run("app.py", cwd=script.parent)
    traces = open_store().traces()
    assert len(traces) == 5
    assert len({trace.run_id for trace in traces}) == 1
    assert result.stderr.count("agenttrace show") == 1
    assert "5 traces" in result.stderr


def test_a_run_of_another_store_has_its_own_screen(script: Path, tmp_path: Path) -> None:
    """`record(store=…)` inside a program that is run goes where it says, and is shown from there."""
    script.write_text(
        "from agenttrace import record\n"
        "from langchain_core.runnables import RunnableLambda\n"
        f"with record('elsewhere', store={str(tmp_path / 'other')!r}):\n"
        "    RunnableLambda(lambda x: x).invoke(1)\n"
    )
    result = run("app.py", cwd=script.parent)
    assert "agenttrace  elsewhere" in result.stderr
    assert "There is no run" not in result.stderr


def test_a_store_that_is_removed_is_made_again(script: Path, store: Path) -> None:
    """Somebody deletes the store while a program records: what follows is recorded into a new one."""
    script.write_text(
        "import shutil, sys, os\n"
        "from langchain_core.runnables import RunnableLambda\n"
        "from agenttrace.recording import flush\n"
        "step = RunnableLambda(lambda x: x)\n"
        "step.invoke(1); flush(); shutil.rmtree(os.environ['AGENTTRACE_STORE']); step.invoke(2); flush(); step.invoke(3)\n"
    )
    result = run("app.py", cwd=script.parent)
    assert [trace.state for trace in open_store().traces()] == ["ok", "ok"]
    assert "agenttrace show" in result.stderr


def test_a_name_that_has_no_utf8_form_costs_nothing(script: Path) -> None:
    """A lone surrogate in a run's name or a tag is escaped, and the record is kept."""
    script.write_text(
        "from langchain_core.runnables import RunnableLambda\n"
        "RunnableLambda(lambda x: x).invoke(1, config={'tags': ['\\ud800'], 'run_name': '\\udfff'})\n"
    )
    command: list[str | bytes] = [sys.executable, "-m", "agenttrace", "run", "--name", b"\xff", "app.py"]
    result = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)
    assert "agenttrace show" in result.stderr
    assert [span.state for span in open_store().trace("last")] == ["ok"]

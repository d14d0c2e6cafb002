"""The face of the command line: help, errors, exit codes, and how fast it comes up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from worker.cli import COMMANDS

MCP = ("mcp", "mcp_types", "httpx2", "worker.mcp")
PYTHON = [sys.executable, "-m", "worker"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def shell(*words: str, env: dict[str, str] | None = None, **options: object) -> object:
    """Run the command line as a process of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, **(env or {})}
    return subprocess.run(
        [*PYTHON, *words], env=environment, capture_output=True, timeout=30, check=False, **options
    )


def test_overview_names_every_command(cli):
    """The help lists each command, examples and the exit codes."""
    ran = cli("--help")

    assert ran.code == 0
    assert [name for name in COMMANDS if f" {name} " not in ran.out] == []
    assert "examples:" in ran.out
    assert "exit codes:" in ran.out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_teaches(cli, name):
    """`COMMAND --help` describes the command and shows an example or its exit codes."""
    ran = cli(name, "--help")

    assert ran.code == 0
    assert f"usage: loopworker {name}" in ran.out
    assert "example" in ran.out or "exit codes:" in ran.out


def test_no_command_is_usage(cli):
    """Nothing typed prints the overview and exits 2."""
    assert cli().code == 2


def test_wrong_command_suggests_the_right_one(cli):
    """A typing error is one line that names the likely command."""
    ran = cli("sumbit", "x")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "loopworker: there is no command 'sumbit'; did you mean 'submit'?"
        " (loopworker --help lists them)\n"
    )


@pytest.mark.parametrize("name", ["incident"])
def test_unbuilt_commands_are_not_offered(cli, name):
    """What does not exist yet is not listed and not accepted."""
    assert name not in COMMANDS
    assert cli(name, "x").code == 2


def test_wrong_setting_is_one_line(cli, monkeypatch):
    """A wrong setting ends with its name, what was wrong and what is allowed, exit 2."""
    monkeypatch.setenv("LOOPWORKER_CONCURRENCY", "many")
    ran = cli("config")

    assert ran.code == 2
    assert ran.err.startswith("loopworker: LOOPWORKER_CONCURRENCY: ")
    assert "many" in ran.err
    assert "Traceback" not in ran.err


def test_config_tells_value_source_and_default(cli, monkeypatch):
    """Every setting has value, source and default; secrets are masked."""
    monkeypatch.setenv("LOOPWORKER_CONCURRENCY", "5")
    monkeypatch.setenv("LOOPWORKER_API_KEY", "sk-canary-1234567890")
    plain, ran = cli("config"), cli("config", "--json")
    settings = {each["name"]: each for each in json.loads(ran.out)}

    assert settings["LOOPWORKER_CONCURRENCY"]["value"] == 5
    assert settings["LOOPWORKER_CONCURRENCY"]["default"] == 16
    assert settings["LOOPWORKER_CONCURRENCY"]["source"] == "environment LOOPWORKER_CONCURRENCY"
    assert settings["LOOPWORKER_MAX_STEPS"]["source"] == "default"
    assert "LOOPWORKER_CONCURRENCY" in plain.out
    assert "canary" not in ran.out + plain.out


def test_a_bug_is_one_line_too(cli, monkeypatch):
    """Whatever is raised, a person reads one line and never a traceback."""
    monkeypatch.setattr("worker.configuration.load", lambda: 1 / 0)
    ran = cli("config")

    assert ran.code == 1
    assert ran.err.startswith("loopworker: a bug in loopworker: ZeroDivisionError")
    assert ran.err.count("\n") == 1


def test_help_loads_little():
    """The overview loads neither settings nor libraries."""
    code = "import sys, worker.cli as c; c.main(['--help']); print(sorted(sys.modules))"
    loaded = shell_python(code)

    assert "pydantic" not in loaded
    assert "asyncio" not in loaded


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "import worker; [getattr(worker, name) for name in worker.__all__]",
            id="import",
            marks=pytest.mark.system,  # a second to load all of it
        ),
        pytest.param("import worker.cli as c; c.main(['--help'])", id="help"),
    ],
)
def test_nothing_of_mcp_is_loaded_for_who_has_no_servers(code):
    """The official SDK takes half a second and is not there in every install."""
    loaded = shell_python(f"{code}; import sys; print(sys.modules.keys())")

    assert "'worker'" in loaded
    assert [name for name in MCP if f"'{name}'" in loaded] == []


@pytest.mark.timing
def test_help_is_quick():
    """The best of three is under 150 ms."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        assert shell("--help").returncode == 0
        took.append(time.perf_counter() - began)

    assert min(took) < 0.15


def shell_python(code: str) -> str:
    """Run a snippet and return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=30,
        check=True,
    )
    return ran.stdout.decode()


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_chinese_comes_out_under_any_locale(locale):
    """Output is UTF-8 whatever the locale says."""
    env = {"LC_ALL": locale, "LANG": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ran = shell("tools", env=env)

    assert ran.returncode == 0
    assert "行情暂不可用" in ran.stdout.decode("utf-8")


def test_reader_that_leaves_is_no_error():
    """`loopworker … | head -1` ends quietly."""
    command = f"{sys.executable} -m worker config --json | head -c 1"
    ran = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        env={"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert ran.stderr == b""
    assert ran.stdout.decode().splitlines()[-1].strip("[{") in ("0", "141")

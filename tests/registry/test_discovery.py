"""Tools are found where the setting says, or the start ends with a clear error."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker import ToolContext, discovery
from worker.core.errors import ConfigError
from worker.discovery import load_registry, split_places

ONE = '''
from worker import tool

@tool
def {name}(value: int) -> int:
    """Return the value again."""
    return value
'''


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(*places: object) -> list[str]:
    """Load the places and return the names of their tools."""
    return list(load_registry([str(place) for place in places], entry_points=False).names)


def test_file_is_loaded(tmp_path: Path):
    """A path to a file is enough, whatever the file is called."""
    (tmp_path / "my-tools.v2.py").write_text(ONE.format(name="echo"))

    assert load(tmp_path / "my-tools.v2.py") == ["echo"]


def test_folder_gives_every_file_but_the_hidden(tmp_path: Path):
    """In order of the file names, sub-packages too; files share code by relative imports."""
    (tmp_path / "b.py").write_text(ONE.format(name="second"))
    (tmp_path / "a.py").write_text("from ._shared import NAME\n" + ONE.format(name="first"))
    (tmp_path / "_shared.py").write_text("NAME = 1\n" + ONE.format(name="hidden"))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "__init__.py").write_text("")
    (tmp_path / "more" / "c.py").write_text(ONE.format(name="third"))
    (tmp_path / "notes.txt").write_text("no tool")

    assert load(tmp_path) == ["first", "second", "third"]


def test_package_is_imported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its modules keep their names, so that nothing is loaded twice."""
    package = tmp_path / "shop_tools_x"
    package.mkdir()
    (package / "__init__.py").write_text(ONE.format(name="top"))
    (package / "orders.py").write_text(ONE.format(name="order"))
    monkeypatch.syspath_prepend(tmp_path)

    assert load("shop_tools_x") == ["top", "order"]
    assert "shop_tools_x.orders" in sys.modules
    assert load("shop_tools_x.orders") == ["order"]
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    assert load("shop_tools_x") == ["top", "order"]
    assert not any(name.startswith("loopworker_tools_") for name in set(sys.modules) - known)


def test_own_tools_folder_wins_over_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever starts the worker beside a folder called tools means that folder."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mine.py").write_text(ONE.format(name="mine"))
    monkeypatch.chdir(tmp_path)

    assert load("tools") == ["mine"]


def test_same_file_twice_is_one_tool(tmp_path: Path):
    """A file named alone and with its folder is imported once."""
    (tmp_path / "a.py").write_text(ONE.format(name="echo"))
    (tmp_path / "b.py").write_text("from .a import echo\n")

    assert load(tmp_path / "a.py", tmp_path, tmp_path / "a.py") == ["echo"]


async def test_list_called_tools_is_read(tmp_path: Path):
    """Tools that are made in a loop, from raw schemas and with any name."""
    (tmp_path / "made.py").write_text(
        """
from worker import tool

def make(name):
    @tool(name=name, description="t", parameters={"type": "object", "properties": {}}, attempts=1)
    async def run(**arguments):
        return arguments
    return run

TOOLS = [make(name) for name in ("time.now", "查询")]
"""
    )
    registry = load_registry(str(tmp_path / "made.py"), entry_points=False)
    offered = registry.offered()

    assert [each.name for each in offered] == ["time.now", "查询"]
    assert offered[0].wire_name == "time_now"
    assert await registry.get("time.now").invoke(ToolContext(), {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("x = 1\ny = nowhere\n", 2, "NameError: name 'nowhere' is not defined"),
        ("x = 1\n\nimport not_there_at_all\n", 3, "ModuleNotFoundError: No module named"),
        ("def f(:\n", 1, "SyntaxError: "),
        ("import sys\nsys.exit('bye')\n", 2, "SystemExit: bye"),
        ("def f():\n    raise ValueError('a\\nb')\n\nf()\n", 2, "ValueError: a"),
        ("import json\njson.loads('x')\n", 2, "JSONDecodeError: "),
        ("raise ValueError\n", 1, "ValueError"),
        ("raise GeneratorExit\n", 1, "GeneratorExit"),
        ("import asyncio\nraise asyncio.CancelledError\n", 2, "CancelledError"),
        ("class E(BaseException): pass\nraise E('bye')\n", 2, "E: bye"),
        (
            "class E(Exception):\n    def __str__(self): 1 / 0\nraise E\n",
            3,
            "E: <exception str() failed>",
        ),
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_file_that_cannot_be_imported_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, cause: str, as_folder: bool
):
    """One line for a person: where, and why."""
    file = tmp_path / "broken.py"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(tmp_path if as_folder else file)

    assert str(caught.value).startswith(f"{file}:{line}: cannot be imported: {cause}")
    assert "\n" not in str(caught.value)


def test_import_leaves_stdout_and_the_working_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Prints go to stderr, and relative paths mean afterwards what they meant before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud.py").write_text(
        "import os\nos.chdir('/')\nprint('hello')\n" + ONE.format(name="loud")
    )

    assert load("loud.py") == ["loud"]
    assert os.getcwd() == str(tmp_path)
    assert capsys.readouterr() == ("", "hello\n")


def test_import_that_does_not_end_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A start that hangs in somebody's file says in which."""
    told = threading.Event()
    monkeypatch.setattr(discovery, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr(sys, "slow_import_told", told, raising=False)
    caplog.set_level(logging.WARNING)
    caplog.handler.addFilter(lambda record: told.set() or True)
    (tmp_path / "slow.py").write_text("import sys\nassert sys.slow_import_told.wait(10)\n")

    assert load(tmp_path / "slow.py") == []
    assert f"{tmp_path / 'slow.py'}: still being imported" in caplog.text


def test_objects_that_raise_at_every_look_are_passed_over(tmp_path: Path):
    """A lazy proxy at module level is no tool, and no reason to stop."""
    odd = "class P:\n    @property\n    def __class__(self): 1 / 0\nproxy = P()\n"
    (tmp_path / "odd.py").write_text(odd + ONE.format(name="echo"))

    assert load(tmp_path / "odd.py") == ["echo"]


def test_default_without_json_is_left_out_of_the_schema_quietly(tmp_path: Path):
    """The model cannot be told it; no warning of a library reaches whoever starts the worker."""
    text = ONE.format(name="echo").replace("value: int", "value: int = object()")
    (tmp_path / "a.py").write_text(text)

    assert load(tmp_path / "a.py") == ["echo"]


def test_mended_file_loads_after_a_failure(tmp_path: Path):
    """A failed import leaves nothing half-made behind."""
    file = tmp_path / "broken.py"
    file.write_text("import not_there_at_all\n")
    with pytest.raises(ConfigError):
        load(file)
    file.write_text(ONE.format(name="echo"))
    os.utime(file, (1, 1))

    assert load(file) == ["echo"]


@pytest.mark.parametrize(
    "place", ["nowhere", "no/where.py", "nowhere.at_all", "a b", "1.5", "http://x"]
)
def test_place_that_does_not_exist_is_an_error(place: str):
    """The setting and the place are named."""
    with pytest.raises(
        ConfigError, match=rf"LOOPWORKER_TOOLS: '{place}' is no file, no folder and no pack"
    ):
        load(place)


def test_two_tools_of_one_name_are_an_error(tmp_path: Path):
    """Both files are named."""
    (tmp_path / "a.py").write_text(ONE.format(name="echo"))
    (tmp_path / "b.py").write_text(ONE.format(name="echo"))

    with pytest.raises(ConfigError, match=r"two tools are called 'echo': .*a\.py:\d+ and .*b\.py"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TOOLS = [print]", "TOOLS[0] is no tool"),
        ("TOOLS = {}", "TOOLS must be a list of tools, not dict"),
        (
            "from worker import tool\n@tool\ndef f(a): 1",
            ":2: tool 'f': parameter 'a' has no annotation",
        ),
    ],
)
def test_mistake_in_a_tool_file_is_named(tmp_path: Path, text: str, says: str):
    """A forgotten @tool and a missing annotation stop the start."""
    file = tmp_path / "a.py"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(file)

    assert says in str(caught.value)
    assert str(file) in str(caught.value)


def test_setting_holds_several_places(tmp_path: Path):
    """Commas and the path separator both divide; a path that exists is never divided."""
    odd = tmp_path / "a:b"
    odd.mkdir()

    assert split_places(f"tools, shop{os.pathsep}x.py,,tools") == ["tools", "shop", "x.py"]
    assert split_places(f"{odd},tools") == [str(odd), "tools"]


def test_installed_packages_offer_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An entry point names a module, a tool or a list; a broken one is named."""
    (tmp_path / "shop_entry_x.py").write_text(ONE.format(name="sold") + "LIST = [sold]\n")
    meta = tmp_path / "shop_entry_x-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-entry-x\nVersion: 1.0\n")
    points = meta / "entry_points.txt"
    points.write_text(
        "[loopworker.tools]\na = shop_entry_x\nb = shop_entry_x:LIST\nc = shop_entry_x:sold\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert load_registry([]).names == ("sold",)

    points.write_text("[loopworker.tools]\nbad = shop_entry_x:nothing\n")
    with pytest.raises(ConfigError, match=r"entry point bad = shop_entry_x:nothing:.*nothing"):
        load_registry([])

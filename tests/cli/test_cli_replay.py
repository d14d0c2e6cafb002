"""A recorded run is shown and decided again, from the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3

import pytest

from tests.core.test_loop import answer, calling, returned, started
from worker.core.events import ModelReplied, StateKept
from worker.core.messages import Reply, ReplyKind, ToolCall, Usage
from worker.core.task import Result
from worker.store import open_store

CALL = ToolCall("c1", "price", {"symbol": "ACME"})
ANSWER = "ACME is 12.50"


@pytest.fixture
def ran(tmp_path):
    """Leave a run in the store: `ran(*facts, status="completed")`; None leaves it unfinished."""

    def leave(*events, status="completed", text=ANSWER):
        async def write():
            store = open_store(f"sqlite:///{tmp_path / 'cli.db'}")
            opened = await store.open("t1", owner="w", lease_seconds=30)
            await store.append(opened.run, list(events))
            if status is not None:
                result = Result("t1", status, text, started_at=1000.0, ended_at=1000.0)
                await store.finish(opened.run, [], result)
            await store.close()

        asyncio.run(write())

    return leave


def whole(**more):
    """The facts of a run with one call."""
    return started(**more), calling(CALL), returned("c1", "12.50"), answer(ANSWER)


def test_a_run_that_would_go_the_same_way(cli, ran):
    """Each fact has its line; the last one says that nothing has changed."""
    ran(*whole())
    told = cli("replay", "t1")

    assert told.code == 0
    assert 'calls: price {"symbol": "ACME"}' in told.out
    assert "c1: live 200 12.50" in told.out
    assert told.out.endswith("now: the same to the end: completed\n")


def test_a_smaller_budget_tells_where_it_would_have_ended(cli, ran, monkeypatch):
    """The settings of now decide; what is recorded afterwards is still shown."""
    ran(*whole())
    monkeypatch.setenv("LOOPWORKER_LOOP__TOKENS_MAX", "15")
    told = cli("replay", "t1")

    assert told.code == 3
    assert "now: decided otherwise at 2: end as budget (15 tokens used" in told.out
    assert ANSWER in told.out


def test_another_status_or_answer_is_told(cli, ran):
    """A result that the journal does not lead to any more."""
    ran(*whole(), text="ACME is 13")
    told = cli("replay", "t1")

    assert (told.code, "another answer: ACME is 12.50" in told.out) == (3, True)


def test_a_run_that_is_not_over_says_what_comes_next(cli, ran):
    """As far as it has come."""
    ran(*whole()[:2], status=None)
    told = cli("replay", "t1")

    assert (told.code, told.out.splitlines()[-1]) == (0, "now: the same so far; next: call price")


def test_an_end_from_outside_is_no_difference(cli, ran):
    """Given up by the queue, say: the loop itself had more to do."""
    ran(*whole()[:3], status="error", text="")
    told = cli("replay", "t1")

    assert (told.code, "ended from outside as error" in told.out) == (0, True)


def test_an_end_that_the_loop_decides_itself_is_no_end_from_outside(cli, ran, monkeypatch):
    """A smaller budget ended it; by the settings of now it would go on."""
    ran(*whole()[:2], status="budget", text="")
    now = cli("replay", "t1")
    monkeypatch.setenv("LOOPWORKER_LOOP__TOKENS_MAX", "15")
    then = cli("replay", "t1")

    assert (now.code, "now: go on: call price, recorded is budget" in now.out) == (3, True)
    assert (then.code, "the same to the end: budget" in then.out) == (0, True)


@pytest.mark.parametrize(
    ("column", "written", "said"),
    [
        ("body", '[{"v":1,"kind":"shiny_new","data":{}}]', "a newer version wrote this journal"),
        ("body", "not json", "is damaged"),
        ("body", '[{"v":1,"kind":"started","data":{"at":"x"}}]', "is damaged"),
        ("body", '[{"v":1,"kind":"ended","data":{"at":1,"status":"error"}}]', "is damaged"),
    ],
)
def test_a_journal_that_another_hand_has_changed(cli, ran, tmp_path, column, written, said):
    """One line says so, and no traceback."""
    ran(*whole())
    with contextlib.closing(sqlite3.connect(tmp_path / "cli.db")) as file, file:
        file.execute(f"update event set {column} = ?", (written.encode(),))
    told = cli("replay", "t1")

    assert (told.code, told.out) == (3, "")
    assert said in told.err
    assert "a bug" not in told.err


def test_json_loads_again_and_hides_cookies(cli, ran):
    """The journal as a file, without what was never to be shown."""
    first, asked, *rest = whole()
    ran(first, asked, StateKept(1000.0, "shop", '{"cookies": "sid=hidden"}'), *rest)
    told = cli("replay", "t1", "--json")
    read = json.loads(told.out)

    assert (told.code, read["same"], read["id"]) == (0, True, "t1")
    assert [each["kind"] for each in read["events"]][:3] == [
        "started",
        "model_replied",
        "state_kept",
    ]
    assert "hidden" not in told.out + cli("replay", "t1").out


def test_text_of_a_model_moves_no_cursor(cli, ran):
    """One line for one fact, whatever is in it, and not the whole of a long one."""
    text = "a\x1b[2J\nb" + "x" * 5_000
    reply = Reply(ReplyKind.ANSWER, text, {"role": "assistant", "content": text}, (), Usage())
    ran(started(), ModelReplied(1000.0, reply), text=text)
    told = cli("replay", "t1")

    assert "\x1b" not in told.out
    assert (len(told.out.splitlines()), len(told.out) < 1_000) == (4, True)


def test_a_task_without_a_journal(cli):
    """Unknown, or not begun: said plainly."""
    unknown = cli("replay", "t9")
    cli("submit", "hello", "--id", "t2")
    waiting = cli("replay", "t2")
    cli("cancel", "t2")
    cancelled = cli("replay", "t2")

    assert (unknown.code, "task 't9' is not known" in unknown.err) == (3, True)
    assert (waiting.code, "task 't2' has not begun" in waiting.err) == (3, True)
    assert (cancelled.code, "ended before it began (cancelled)" in cancelled.err) == (3, True)


def test_a_budget_of_money_takes_the_prices_of_now(cli, ran, monkeypatch):
    """The replies had no cost when they came, and have one now."""
    ran(*whole())
    monkeypatch.setenv("LOOPWORKER_PRICES", "*=1/1")
    monkeypatch.setenv("LOOPWORKER_LOOP__COST_MAX", "100")
    rich = cli("replay", "t1")
    monkeypatch.setenv("LOOPWORKER_LOOP__COST_MAX", "0.00001")
    poor = cli("replay", "t1")

    assert (rich.code, "the same to the end" in rich.out) == (0, True)
    assert (poor.code, "end as budget (cost" in poor.out) == (3, True)

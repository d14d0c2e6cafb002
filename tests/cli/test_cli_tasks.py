"""Tasks from the command line, on the queue and the journal themselves."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.web.house import calls, returned, started
from worker.core.messages import Source
from worker.core.task import Degradation, Result, Symptom
from worker.intake import read_task
from worker.queues import open_queue
from worker.store import open_store
from worker.store.port import SessionClaim


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows a task looks for news every moment."""
    monkeypatch.setattr("worker.web.stream.POLL_SECONDS", 0.02)


class Engine:
    """The files the commands work on, opened the way a worker would."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'cli.db'}"

    def claim(self) -> list[tuple[str, bytes]]:
        """Claim and settle everything that waits: ids and bodies."""

        async def claim() -> list[tuple[str, bytes]]:
            queue = open_queue(self.url)
            leases = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=50)
            for lease in leases:
                await queue.ack(lease)
            await queue.close()
            return [(lease.id, lease.body) for lease in leases]

        return asyncio.run(claim())

    def bury(self, reason: str) -> None:
        """Claim everything that waits and give it up."""

        async def bury() -> None:
            queue = open_queue(self.url)
            for lease in await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=50):
                await queue.dead_letter(lease, reason=reason)
            await queue.close()

        asyncio.run(bury())

    def finish(self, result: Result) -> None:
        """Journal a run of two steps that ends with this result."""

        async def finish() -> None:
            store = open_store(self.url)
            run = (await store.open(result.task_id, owner="w", lease_seconds=30)).run
            assert run is not None
            stub = {"source": Source.STUB, "reason": "breaker_open", "stub": "行情暂不可用"}
            await store.append(run, [started("zh"), calls("get_stock_price"), returned(0, **stub)])
            await store.finish(run, [], result)
            await store.close()

        asyncio.run(finish())

    def hold(self, session_id: str, task_id: str) -> None:
        """Let a task have a session."""

        async def hold() -> None:
            store = open_store(self.url)
            claim = SessionClaim(session_id)
            await store.open(task_id, owner="w", lease_seconds=30, session=claim)
            await store.close()

        asyncio.run(hold())


@pytest.fixture
def engine(tmp_path) -> Engine:
    """The engine that LOOPWORKER_QUEUE_URL names."""
    return Engine(tmp_path)


DEGRADED = Result(
    "t",
    "completed",
    "行情暂不可用。",
    degraded=(Degradation("get_stock_price", "stub", "breaker_open"),),
)


def test_submit_prints_the_id(cli, engine):
    """The text lies in the queue as a task, and its id alone is printed."""
    ran = cli("submit", "现在几点?")
    ((task_id, body),) = engine.claim()
    task = read_task(body, default_id="?")

    assert (ran.code, ran.out, ran.err) == (0, f"{task_id}\n", "")
    assert (task.id, task.input) == (task_id, "现在几点?")


def test_submit_twice_queues_once(cli, engine):
    """The same --id again is told on stderr and queued once."""
    cli("submit", "one", "--id", "t")
    again = cli("submit", "two", "--id", "t")

    assert (again.code, again.out) == (0, "t\n")
    assert "known already" in again.err
    assert len(engine.claim()) == 1


def test_submit_as_json(cli, engine):
    """With --json a program reads the receipt that the API gives, also of a task that is known."""
    first = cli("submit", "one", "--id", "t", "--json")
    again = cli("submit", "one", "--id", "t", "--json")

    assert (first.code, json.loads(first.out)) == (0, {"id": "t", "status": "queued"})
    assert json.loads(again.out) == {"id": "t", "status": "queued", "duplicate": True}


def test_submit_reads_stdin(cli, engine, monkeypatch):
    """`-` takes the text, or with --json-task the whole task, from standard input."""
    monkeypatch.setattr("sys.stdin", stdin("第一行\n第二行\n".encode()))
    cli("submit", "-", "--id", "a")
    monkeypatch.setattr("sys.stdin", stdin(b'{"id": "b", "input": "x", "priority": 9}'))
    cli("submit", "-", "--json-task")
    tasks = {task_id: read_task(body, default_id="?") for task_id, body in engine.claim()}

    assert tasks["a"].input == "第一行\n第二行\n"
    assert tasks["b"].priority == 9


@pytest.mark.parametrize(
    ("raw", "words", "said"),
    [
        (b"\xff\xfe", (), "UTF-8"),
        (b"   ", (), "input"),
        (b"x" * 1_048_577, (), "1048576"),
        (b"{}", ("--json-task",), "input"),
        (b"[" * 10_000, ("--json-task",), "nested"),
        (b'{"input": 7}', ("--json-task",), "input"),
        (b'{"input": "x"}', ("--json-task", "--id", "t"), "--id"),
    ],
)
def test_bad_task_is_usage(cli, engine, monkeypatch, raw, words, said):
    """A task that cannot be read is one line that names the field, exit 2, nothing queued."""
    monkeypatch.setattr("sys.stdin", stdin(raw))
    ran = cli("submit", "-", *words)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert engine.claim() == []


def test_status_follows_a_task(cli, engine):
    """queued is exit 3, a finished answer 0 with what was degraded, an unknown id 3."""
    cli("submit", "x", "--id", "t")
    queued = cli("status", "t")
    engine.claim()
    engine.finish(DEGRADED)
    finished, as_json = cli("status", "t"), cli("status", "t", "--json")

    assert (queued.code, queued.out) == (3, "queued (ready)\n")
    assert (finished.code, finished.out) == (0, "行情暂不可用。\n")
    assert "degraded: get_stock_price: stub (breaker_open)" in finished.err
    assert json.loads(as_json.out)["result"]["answer"] == "行情暂不可用。"
    steps = {"taken": 1, "max": 8, "reason": "setting", "changes": []}
    assert json.loads(as_json.out)["steps"] == steps
    assert cli("status", "nobody").code == 3


def test_run_without_an_answer_is_three(cli, engine):
    """A bad ending prints nothing on stdout and its status on stderr."""
    engine.finish(Result("t", "deadline", error="600 s"))
    ran = cli("status", "t")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines() == [
        "loopworker: not answered: deadline: 600 s",
        "loopworker: 1 of at most 8 steps (setting)",
    ]


def test_diagnosis_is_told_beside_the_answer(cli, engine):
    """An answer that a symptom was seen in is printed, and the symptom with its hint on stderr."""
    sign = Symptom("no_call", "get_stock_price fits; its description is soft")
    engine.finish(Result("t", "completed", answer="7", diagnosis=(sign,)))
    ran = cli("status", "t")

    assert (ran.code, ran.out) == (0, "7\n")
    assert "loopworker: no_call: get_stock_price fits; its description is soft" in ran.err


def test_watch_shows_steps_then_the_answer(cli, engine):
    """Steps go to stderr in the language of the question, the answer alone to stdout."""
    engine.finish(DEGRADED)
    ran = cli("watch", "t")

    assert (ran.code, ran.out) == (0, "行情暂不可用。\n")
    assert "正在调用 get_stock_price…" in ran.err
    assert "已降级" in ran.err
    assert cli("watch", "nobody").code == 3


def test_wait_follows_until_another_process_answers(cli, engine):
    """`submit --wait` prints the answer that a worker elsewhere gives."""

    def work() -> None:
        ends = time.monotonic() + 10
        while not engine.claim() and time.monotonic() < ends:
            continue
        engine.finish(DEGRADED)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    ran = cli("submit", "x", "--id", "t", "--wait", "--json")
    worker.join(10)

    assert ran.code == 0
    assert json.loads(ran.out)["answer"] == "行情暂不可用。"


def test_wait_without_a_worker_says_so(cli, engine, monkeypatch, tmp_path):
    """`--wait` tells the id at once and, while nobody takes the task, the queue it lies in."""
    monkeypatch.setattr("worker.cli.tasks.UNCLAIMED_SECONDS", 0.01)
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", "sqlite:///cli.db")

    def work() -> None:
        told.wait(10)
        engine.claim()
        engine.finish(DEGRADED)

    told, said = threading.Event(), []

    def tell(text: str) -> None:
        said.append(text)
        if "not taken" in text:
            told.set()

    monkeypatch.setattr("worker.cli.tasks.tell", tell)
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    ran = cli("submit", "x", "--id", "t", "--wait")
    worker.join(10)

    assert ran.code == 0
    assert said[:2] == [
        "loopworker: task t",
        f"loopworker: not taken yet; is a worker running on sqlite:///{tmp_path / 'cli.db'}?",
    ]


@pytest.mark.parametrize("command", ["submit", "watch"])
def test_who_waits_for_its_session_is_told_so(cli, engine, monkeypatch, command):
    """`--wait` and `watch` say what keeps a task that has not begun; no worker is missing then."""
    monkeypatch.setattr("worker.cli.tasks.UNCLAIMED_SECONDS", 0.01)
    engine.hold("desk", "first")
    words = ("submit", "x", "--id", "t", "--session", "desk")
    if command == "watch":
        cli(*words)
    said, told = [], threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if "session" in text:
            told.set()

    def end() -> None:
        told.wait(10)
        engine.claim()
        engine.finish(DEGRADED)

    monkeypatch.setattr("worker.cli.tasks.tell", tell)
    worker = threading.Thread(target=end, daemon=True)
    worker.start()
    ran = cli("watch", "t") if command == "watch" else cli(*words, "--wait")
    worker.join(10)

    assert ran.code == 0
    assert "loopworker: waits for session 'desk': task first has it" in said
    assert not any("not taken" in text for text in said)


def test_interrupted_wait_names_the_way_back(cli, engine, monkeypatch):
    """Whoever stops waiting is told that the task stays, and how to follow it again."""

    async def interrupt(*_: object, **__: object) -> int:
        raise asyncio.CancelledError

    monkeypatch.setattr("worker.cli.tasks._follow", interrupt)
    said: list[str] = []
    monkeypatch.setattr("worker.cli.tasks.tell", said.append)
    with pytest.raises(asyncio.CancelledError):
        cli("submit", "x", "--id", "t", "--wait")

    assert said[-1] == "loopworker: still queued: loopworker watch t"
    assert len(engine.claim()) == 1


def test_cancelled_task_is_not_called_degraded(cli, engine):
    """What a cancelled run did not get to is no degradation to tell."""
    skipped = (Degradation("get_stock_price", "skipped", "run_ended"),)
    engine.finish(Result("t", "cancelled", degraded=skipped))

    assert "degraded" not in cli("status", "t").err


def test_dead_letters_are_listed_shown_and_redriven(cli, engine):
    """A dead letter tells why; redriven it waits again; what is not there is exit 3."""
    cli("submit", "x", "--id", "t")
    engine.bury("delivered 5 times without an end")
    listed, shown = cli("dead"), json.loads(cli("dead", "show", "t").out)
    redriven, again = cli("dead", "redrive", "t"), cli("dead", "redrive", "t")

    assert "delivered 5 times without an end" in listed.out
    assert json.loads(shown["body"])["input"] == "x"
    assert (redriven.code, redriven.out) == (0, "1 redriven\n")
    assert [task_id for task_id, _ in engine.claim()] == ["t"]
    assert (again.code, again.out) == (3, "")
    assert cli("dead", "show", "t").code == 3
    assert cli("dead", "list", "t").code == 2


def test_all_dead_letters_are_redriven(cli, engine):
    """`dead redrive --all` takes every letter; without names or --all it asks which."""
    for task_id in "abc":
        cli("submit", "x", "--id", task_id)
    engine.bury("down")

    assert cli("dead", "redrive").code == 2
    assert cli("dead", "redrive", "--all").out == "3 redriven\n"


def test_queue_out_of_reach_is_four(cli, monkeypatch):
    """A queue that cannot be opened is one line and not a traceback."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", "sqlite:////proc/no/such/place.db")
    ran = cli("submit", "x")

    assert ran.code in (2, 4)
    assert ran.err.startswith("loopworker: ")
    assert ran.err.count("\n") == 1


def stdin(raw: bytes) -> SimpleNamespace:
    """Build a standard input with these bytes."""
    return SimpleNamespace(buffer=io.BytesIO(raw), isatty=lambda: False)


@pytest.mark.parametrize("words", [("submit", "x"), ("status", "t"), ("dead", "list")])
def test_queue_in_memory_is_no_place_to_meet_a_worker(cli, monkeypatch, words):
    """Whoever submits there would lose the task with the end of the command."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", "memory://")
    ran = cli(*words)

    assert (ran.code, ran.out) == (2, "")
    assert "LOOPWORKER_QUEUE_URL: memory:// is a queue within one worker" in ran.err

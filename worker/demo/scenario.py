"""The demo in four acts: all is well, the quote service hangs, the breaker guards, it recovers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from worker.app import Worker
from worker.core.task import Result
from worker.demo.display import Display
from worker.demo.quote_service import QuoteService
from worker.guardsettings import GuardOverride
from worker.model.offline import OfflineModel
from worker.settings import QueueSettings, Settings, WorkerSettings

STUB = "行情暂不可用"
BREAKER = "quote"
TOOL_SECONDS = 0.6  # so that nobody waits long for three time-outs
OPEN_SECONDS = 2.5
RESULT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Ending:
    """One task of the demo and what became of it."""

    label: str
    text: str
    result: Result


@dataclass(frozen=True, slots=True)
class Check:
    """Something that has to be true of a demo that went well."""

    text: str
    holds: bool


class Stage:
    """A worker, its model and the quote service, all real, all on loopback."""

    def __init__(self, worker: Worker, quotes: QuoteService, display: Display) -> None:
        self.worker = worker
        self.quotes = quotes
        self.display = display
        self.endings: list[Ending] = []
        self._numbers = iter(range(1, 100))

    async def play(self, *texts: str) -> list[Result]:
        """Hand tasks in together and wait for their answers."""
        return list(await asyncio.gather(*(self._one(text) for text in texts)))

    async def _one(self, text: str) -> Result:
        label = f"#{next(self._numbers)}"
        task_id = await self.worker.submit(text)
        self.display.submitted(task_id, label, text)
        result = await self.worker.result(task_id, wait_seconds=RESULT_SECONDS)
        if result is None:
            raise TimeoutError(f"no answer to {label} within {RESULT_SECONDS:g} s")
        self.display.answered(label, str(result.status), result.answer)
        self.endings.append(Ending(label, text, result))
        return result


async def run_demo(
    display: Display, *, stay: Callable[[], asyncio.Event] | None = None
) -> list[Check]:
    """Play the demo and return what was checked; with `stay`, stay up until its event is set."""
    with tempfile.TemporaryDirectory(prefix="loopworker-demo-") as folder:
        async with _stage(Path(folder), display) as stage:
            _introduce(stage, Path(folder))
            await _acts(stage)
            checks = await _checks(stage)
            _summary(stage, checks)
            if stay is not None:
                over = stay()
                _invite(stage)
                await over.wait()
        return checks


async def _acts(stage: Stage) -> None:
    show = stage.display
    show.act("1 · all is well", "three questions at once, in two languages")
    await stage.play(
        "现在北京时间几点?",
        "What is the stock price of AAPL?",
        "查询订单 CN202612010001 的状态,地区 CN",
    )
    stage.quotes.fail_next(3)
    show.act("2 · the quote service hangs", "three time-outs in a row; the worker stays honest")
    await stage.play("600519.SS 的股价是多少?")
    await stage.play("What is the stock price of MSFT?")
    show.act(
        "3 · the breaker is open", "no call is made: the last good price, or the stub, at once"
    )
    await stage.play("AAPL 现在的股价是多少?", "0700.HK 的股价是多少?")
    left = stage.worker.guards.get(BREAKER).open_seconds_left or 0.0
    show.act("4 · recovery", f"in {left:.1f} s one trial call may pass; it closes the breaker")
    await asyncio.sleep(left + 0.05)
    await stage.play("600519.SS 的股价是多少?")
    await stage.play("What is the stock price of TSLA?")


@contextlib.asynccontextmanager
async def _stage(folder: Path, display: Display) -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as stack:
        quotes = await stack.enter_async_context(QuoteService())
        model = await stack.enter_async_context(OfflineModel(port=0))
        stack.enter_context(_environment(quotes.url, folder))
        log = stack.enter_context((folder / "worker.log").open("w", encoding="utf-8"))
        worker = _worker(folder, model.url, display, log)
        await stack.enter_async_context(worker)
        display.tools = {tool.dependency: tool.name for tool in worker.registry}
        yield Stage(worker, quotes, display)


def _worker(folder: Path, model_url: str, display: Display, log: TextIO) -> Worker:
    settings = Settings(
        admin="127.0.0.1:0",
        http="127.0.0.1:0",
        model="offline-stand-in",
        model_url=model_url,
        queue_url=f"sqlite:///{folder / 'demo.db'}",
        queue=QueueSettings(poll_seconds=0.1),
        guards={
            BREAKER: GuardOverride(
                attempts=2, timeout_seconds=TOOL_SECONDS, open_seconds=OPEN_SECONDS
            )
        },
        worker=WorkerSettings(drain_seconds=3),
    )
    return Worker(settings, listeners=[display], log_stream=log)


@contextlib.contextmanager
def _environment(quote_url: str, folder: Path) -> Iterator[None]:
    """Tell the example tools where their upstreams are, and forget it afterwards."""
    wanted = {
        "LOOPWORKER_QUOTE_URL": quote_url,
        "LOOPWORKER_ORDERS_DB": str(folder / "orders.db"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _introduce(stage: Stage, folder: Path) -> None:
    show, worker = stage.display, stage.worker
    assert worker.admin is not None
    show.write(show.paint("loopworker demo", "bold") + ": a real worker, no key, no network.")
    show.write("  model     an offline stand-in that follows rules; it is no language model")
    show.write(f"  queue     SQLite in {folder}")
    show.write(f"  tools     {', '.join(worker.registry.names)}")
    show.write(f"  metrics   {worker.admin.url}/metrics")
    show.write(f"  health    {worker.admin.url}/healthz  {worker.admin.url}/readyz")
    show.write(f"  API       {worker.api.url}/v1/tasks")
    show.write(f"  logs      {folder / 'worker.log'}")


async def _checks(stage: Stage) -> list[Check]:
    endings, show = stage.endings, stage.display
    moves = [(a, b) for name, a, b in show.transitions if name == BREAKER]
    stubbed = [e for e in endings if any(d.source == "stub" for d in e.result.degraded)]
    stale = [e for e in endings if any(d.source == "stale" for d in e.result.degraded)]
    last = endings[-2:]
    pages = await asyncio.to_thread(_pages, stage)
    return [
        Check(
            f"{len(endings)} tasks answered", all(e.result.status == "completed" for e in endings)
        ),
        Check(f"a failed call was tried again ({show.retries}×)", show.retries > 0),
        Check(f"{stage.quotes.timed_out} time-outs opened the breaker", moves[:1] == [_OPENED]),
        Check("after its window one trial was let through, and closed it", moves[1:] == _RECOVERED),
        Check(
            f"{len(stubbed)} answers say {STUB}",
            bool(stubbed) and all(STUB in e.result.answer for e in stubbed),
        ),
        Check(
            f"{len(stale)} answer uses the last good price and says how old it is",
            bool(stale) and all("秒前" in e.result.answer for e in stale),
        ),
        Check("after recovery answers are whole again", not any(e.result.degraded for e in last)),
        Check(
            "/metrics counted the transition",
            f'breaker="{BREAKER}",from_state="closed",to_state="open"' in pages["metrics"],
        ),
        Check("/healthz and /readyz are green", pages["healthz"] == pages["readyz"] == "200"),
        Check("the progress stream ends with the answer", '"is_final":true' in pages["events"]),
    ]


_OPENED = ("closed", "open")
_RECOVERED = [("open", "half_open"), ("half_open", "closed")]


def _pages(stage: Stage) -> dict[str, str]:
    """Ask the worker's own pages, as an operator would."""
    assert stage.worker.admin is not None
    admin, api = stage.worker.admin.url, stage.worker.api.url
    last = stage.endings[-1].result.task_id
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    pages = {}
    for name, url in (
        ("metrics", f"{admin}/metrics"),
        ("healthz", f"{admin}/healthz"),
        ("readyz", f"{admin}/readyz"),
        ("events", f"{api}/v1/tasks/{last}/events"),
    ):
        with opener.open(url, timeout=10) as answer:
            body = answer.read().decode()
            pages[name] = str(answer.status) if name.endswith("z") else body
    return pages


def _summary(stage: Stage, checks: list[Check]) -> None:
    show = stage.display
    show.act("summary", "what became of each task, and what had to be true")
    for ending in sorted(stage.endings, key=lambda ending: ending.label):
        degraded = ", ".join(f"{d.source} ({d.reason})" for d in ending.result.degraded)
        steps = f"{ending.result.steps} steps"
        note = show.paint(f"  degraded: {degraded}", "yellow") if degraded else ""
        show.write(f"  {ending.label:<4}{ending.result.status:<11}{steps}{note}")
    states = [show.transitions[0][1], *(to for _, _, to in show.transitions)]
    show.write(f"  breaker of get_stock_price: {' → '.join(states)}")
    show.write("")
    for check in checks:
        mark = show.paint("✓", "green") if check.holds else show.paint("✗", "red")
        show.write(f"  {mark} {check.text}")


def _invite(stage: Stage) -> None:
    show, worker = stage.display, stage.worker
    assert worker.admin is not None
    last = stage.endings[-1].result.task_id
    show.act("your turn", "the worker stays up until Ctrl-C; try in another terminal")
    text = "-H 'Content-Type: text/plain' -d '600519.SS 的股价是多少?'"
    show.write(f"  curl {worker.api.url}/v1/tasks {text}")
    show.write(f"  curl -N {worker.api.url}/v1/tasks/{last}/events")
    show.write(f"  curl {worker.api.url}/v1/guards")
    show.write(f"  curl -s {worker.admin.url}/metrics | grep breaker_state")

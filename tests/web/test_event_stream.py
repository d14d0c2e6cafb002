"""The event stream, read and resumed by an independent client."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from tests.web.house import NOW, House, calls, returned
from worker.core.events import ModelReplied, Resumed
from worker.core.messages import Reply, ReplyKind, Source
from worker.core.task import Result
from worker.telemetry.progress import Progress
from worker.telemetry.signals import StepUpdated
from worker.web.stream import hinted


async def read_events(client: httpx.AsyncClient, path: str, last: str | None = None) -> list[Any]:
    """Follow a stream to its end with httpx-sse; (id, data) of each event."""
    headers = {"Last-Event-ID": last} if last is not None else {}
    async with aconnect_sse(client, "GET", path, headers=headers) as source:
        return [(int(event.id), event.json()) async for event in source.aiter_sse()]


async def run_to_end(house: House, task_id: str = "t") -> None:
    """Journal a whole run with a degraded call."""
    run = await house.begin(task_id)
    await house.store.append(run, [calls("get_stock_price", "get_current_time")])
    stub = {"source": Source.STUB, "reason": "breaker_open", "stub": "行情暂不可用"}
    await house.store.append(run, [returned(0, **stub), returned(1)])
    answer = Reply(ReplyKind.ANSWER, "行情暂不可用。", {"role": "assistant"})
    await house.store.finish(run, [ModelReplied(NOW, answer)], Result("t", "completed", "完"))


async def test_stream_tells_the_run_and_ends(house, client):
    """Events come in the language of the question, one per step, and end after the final one."""
    await client.post("/v1/tasks", json={"id": "t", "input": "现价?"})
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        watching = group.create_task(read_events(client, "/v1/tasks/t/events"))
        group.create_task(run_to_end(house))

    events = watching.result()
    assert [data["content"] for _, data in events] == [
        "开始处理",
        "正在调用 get_stock_price…\n正在调用 get_current_time…",
        "get_stock_price 已降级:stub, breaker_open — 行情暂不可用",
        "get_current_time 已返回",
        "完",
    ]
    assert [data["is_final"] for _, data in events] == [False] * 4 + [True]
    assert all(data["event"] == "step_update" for _, data in events)
    assert [number for number, _ in events] == [data["step_id"] for _, data in events]


async def test_stream_resumes_after_any_event(house, client):
    """With Last-Event-ID exactly the later events come; after the last one, 204.

    The numbers are those of the journal, where some tell nothing: they may be named as well.
    """
    await run_to_end(house)
    whole = await read_events(client, "/v1/tasks/t/events")
    numbers = range(whole[-1][0])
    resumed = [await read_events(client, "/v1/tasks/t/events", str(number)) for number in numbers]
    last = await client.get("/v1/tasks/t/events", headers={"Last-Event-ID": str(whole[-1][0])})

    assert [number for number, _ in whole] == [0, 1, 2, 3, 5]
    assert resumed == [[event for event in whole if event[0] > number] for number in numbers]
    assert last.status_code == 204


async def test_stream_goes_on_after_a_takeover(house, client):
    """A run that another worker takes up goes on in the same stream."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    run = await house.begin("t")
    await house.store.release(run)
    second = (await house.store.open("t", owner="w2", lease_seconds=60)).run
    await house.store.finish(second, [Resumed(NOW, 2)], Result("t", "completed", "done"))
    events = await read_events(client, "/v1/tasks/t/events")

    assert [data["content"] for _, data in events] == ["开始处理", "重新接手(第 2 次投递)", "done"]


async def test_stream_of_a_task_that_never_ran_has_only_the_end(house, client):
    """A cancelled or rejected task gives one final event that says why there is no answer."""
    await house.store.put_result(Result("t", "rejected", error="input: missing"))
    ((_, data),) = await read_events(client, "/v1/tasks/t/events")

    assert data["is_final"]
    assert data["content"] == "Ended without an answer: rejected (input: missing)"


async def test_stream_of_an_unknown_task_is_not_found(client):
    """An unknown id is 404 and is named, not an empty stream."""
    answer = await client.get("/v1/tasks/nobody/events")

    assert (answer.status_code, "'nobody'" in answer.json()["error"]["message"]) == (404, True)


async def test_stream_outlives_an_outage_of_the_store(house, client):
    """While the store is away the stream waits, then goes on without a gap or a double."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    async with asyncio.timeout(10), aconnect_sse(client, "GET", "/v1/tasks/t/events") as source:
        events = source.aiter_sse()
        run = await house.begin("t")
        first = await anext(events)
        house.base.outage = True
        await asyncio.sleep(0.02)
        house.base.outage = False
        await house.store.finish(run, [], Result("t", "completed", "done"))
        rest = [event.json()["content"] async for event in events]

    assert first.json()["content"] == "开始处理"
    assert rest == ["done"]


async def test_quiet_stream_is_kept_alive_without_extra_events(house, client, monkeypatch):
    """A stream without news sends comments, which no client takes for an event."""
    monkeypatch.setattr("worker.web.sse.KEEP_ALIVE_SECONDS", 0.0)
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    async with asyncio.timeout(10), client.stream("GET", "/v1/tasks/t/events") as answer:
        assert await anext(answer.aiter_raw()) == b": still here\n"
    async with asyncio.timeout(10), aconnect_sse(client, "GET", "/v1/tasks/t/events") as source:
        run = await house.begin("t")
        events = source.aiter_sse()
        first = await anext(events)
        await house.store.finish(run, [], Result("t", "completed", "done"))
        rest = [event async for event in events]

    assert [first.data != "", len(rest), rest[0].json()["content"]] == [True, 1, "done"]


async def test_watcher_that_goes_leaves_nothing(house, client):
    """When a watcher hangs up, its stream ends in the server."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    tasks = len(asyncio.all_tasks())
    async with asyncio.timeout(10):
        async with (
            httpx.AsyncClient(base_url=house.server.url, trust_env=False, verify=False) as other,
            aconnect_sse(other, "GET", "/v1/tasks/t/events") as source,
        ):
            assert source.response.status_code == 200
            assert len(asyncio.all_tasks()) > tasks
        while len(asyncio.all_tasks()) > tasks:
            await client.get("/v1/tasks/t")


async def test_watchers_are_bounded(house, client, monkeypatch):
    """One watcher too many is told to come back; after one has gone there is room."""
    monkeypatch.setattr("worker.web.api.WATCHERS_MAX", 1)
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    async with asyncio.timeout(10):
        async with aconnect_sse(client, "GET", "/v1/tasks/t/events") as source:
            assert source.response.status_code == 200
            assert (await client.get("/v1/tasks/t/events")).status_code == 503
        while True:
            async with client.stream("GET", "/v1/tasks/t/events") as answer:
                if answer.status_code == 200:
                    break


async def test_stop_ends_the_streams(client, house):
    """A server that stops does not wait for watchers to tire."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    async with asyncio.timeout(10), aconnect_sse(client, "GET", "/v1/tasks/t/events") as source:
        stopping = asyncio.create_task(house.server.stop())
        events = [event async for event in source.aiter_sse()]
        await stopping

    assert events == []


async def test_news_between_the_look_and_the_waiting_is_heard():
    """Who listens before it looks does not wait for what has happened since, and leaves no trace."""
    progress = Progress()
    async with hinted(progress.subscribe)("t") as news, asyncio.timeout(10):
        progress.told(StepUpdated("t", 1, "", is_final=True))
        await news(60)

    assert progress.count == 0


async def test_one_watcher_too_many_looks_now_and_then(monkeypatch):
    """It is only slower: it waits for as long as it is told to."""
    monkeypatch.setattr("worker.telemetry.progress.WATCHERS_MAX", 0)
    waited = asyncio.get_running_loop().time()
    async with hinted(Progress().subscribe)("t") as news:
        await news(0.02)

    assert asyncio.get_running_loop().time() - waited >= 0.02

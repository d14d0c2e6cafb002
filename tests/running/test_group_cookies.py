"""`ctx.http` of a sequential group keeps cookies: for its run and group, over redirects, nowhere else."""

from __future__ import annotations

import asyncio
import json

import pytest
from httpx import AsyncClient

from worker import Task, ToolContext, tool
from worker.core.events import StateKept
from worker.http import CookieClient, HttpClient
from worker.model.scripted import answer, calls
from worker.running.groups import Groups
from worker.store import codec
from worker.telemetry.tell import Telemetry


class Site:
    """A site that gives each visitor a number, and says which numbers it saw."""

    def __init__(self):
        self.visitors = 0
        self.seen = []
        self.url = ""

    async def serve(self, reader, writer):
        """Answer requests of one connection."""
        try:
            while line := await reader.readline():
                path, cookies = line.split()[1].decode(), ""
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    cookies = value.strip() if name.lower() == "cookie" else cookies
                self.seen.append((path, cookies))
                head, body = self.reply(path, cookies)
                head = f"HTTP/1.1 {head}\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body.encode())
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def reply(self, path, cookies):
        """The head without its length, and the body."""
        if path == "/login":
            self.visitors += 1
            return f"302 Found\r\nset-cookie: sid=v{self.visitors}; Path=/\r\nlocation: /home", ""
        if path.startswith("/many"):
            many = "".join(f"\r\nset-cookie: c{path[5:]}{n}=1" for n in range(80))
            return f"200 OK{many}", "many"
        if path.startswith("/same"):
            return f"200 OK\r\nset-cookie: ca1=1; Path={path}", "same"
        if path == "/logout":
            return "200 OK\r\nset-cookie: sid=; Max-Age=0; Path=/", "bye"
        return "200 OK", cookies or "a stranger"


@pytest.fixture
async def site():
    """A running site."""
    made = Site()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


def visiting(site, group):
    """A tool of a group that visits a page of the site."""

    @tool(name=f"visit_{group}", sequential=None if group == "none" else group, effect="read")
    async def visit(ctx: ToolContext, page: str, follow: bool = False) -> str:
        """Visit a page.

        Args:
            page: Which.
            follow: Whether to follow redirects.
        """
        reply = await ctx.http.get(site.url + page, follow_redirects=follow)
        return f"{reply.status_code} {reply.text}"

    return visit


def going(group, *pages, follow=False):
    """A reply that visits pages, in order."""
    name = f"visit_{group}"
    return calls(*((name, {"page": page, "follow": follow}) for page in pages))


def results(worker):
    """The tool results that the model has read, in order."""
    return [m.body["content"] for m in worker.model.requests[-1].messages if m.role == "tool"]


@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
async def test_cookie_is_kept_within_the_group_over_steps_and_redirects(
    start, ask, site, transport
):
    """Followed or not, the login counts for the calls after it, until the site takes it back."""
    script = [
        going("shop", "/login", "/home", follow=True),
        going("shop", "/home", "/logout", "/home"),
        answer("ok"),
    ]
    async with start(
        *script, tools=[visiting(site, "shop")], outbound={"transport": transport}
    ) as worker:
        await ask(worker, "q")

    assert results(worker) == [
        *("200 sid=v1", "200 sid=v1"),
        *("200 sid=v1", "200 bye", "200 a stranger"),
    ]


async def test_redirect_that_is_not_followed_leaves_its_cookie_too(start, ask, site):
    """The tool sees the redirect, the next call is logged in."""

    @tool(sequential="shop", effect="read")
    async def login(ctx: ToolContext) -> str:
        """Log in."""
        reply = await ctx.http.get(site.url + "/login")
        return f"{reply.status_code} to {reply.headers['location']}"

    script = [calls(("login", {}), ("visit_shop", {"page": "/home"})), answer("ok")]
    async with start(*script, tools=[login, visiting(site, "shop")]) as worker:
        await ask(worker, "q")

    assert results(worker) == ["302 to /home", "200 sid=v1"]


async def test_cookie_reaches_no_other_group_tool_or_run(start, ask, site):
    """Parallel groups log in apart, a tool without a group stays a stranger, and so does a new run."""
    tools = [visiting(site, group) for group in ("a", "b", "none")]

    def both(page, follow=False):
        names = ("visit_a", "visit_b", "visit_none")
        return calls(*((name, {"page": page, "follow": follow}) for name in names))

    script = [both("/login", True), both("/home"), answer("ok"), both("/home"), answer("ok")]
    async with start(*script, tools=tools) as worker:
        await ask(worker, Task("t1", "q", tenant="x"))
        first = results(worker)[3:]
        await ask(worker, Task("t2", "q", tenant="x"))
        second = results(worker)

    assert len(set(first)) == 3
    assert first[2] == "200 a stranger"
    assert second == ["200 a stranger"] * 3


async def test_side_by_side_each_run_is_its_own_visitor(start, ask, site):
    """Twenty runs at once: each keeps the number that it was given."""

    async def plan(request):
        done = sum(m.role == "tool" for m in request.messages)
        return [going("a", "/login", follow=True), going("a", "/home"), answer("ok")][done]

    async with start(otherwise=plan, tools=[visiting(site, "a")], concurrency=20) as worker:
        await asyncio.gather(*(ask(worker, Task(f"t{n}", "q")) for n in range(20)))
        homes = [cookies for path, cookies in site.seen if path == "/home"]

    assert sorted(homes) == sorted([f"sid=v{n}" for n in range(1, 21)] * 2)


async def test_cookies_are_in_the_journal_and_in_no_result(start, ask, site):
    """They outlive the worker beside the state; what people see does not have them."""
    async with start(going("a", "/login"), answer("ok"), tools=[visiting(site, "a")]) as worker:
        result = await ask(worker, Task("t1", "q"))
        events = codec.decode_all(worker.store.inner.base.records["t1"].events)
        (kept,) = [event for event in events if isinstance(event, StateKept)]

    assert [(c["name"], c["value"]) for c in json.loads(kept.kept)["cookies"]] == [("sid", "v1")]
    assert "sid" not in str(result)


def lent(groups, call_id):
    """The client that a call of the group is lent."""
    context = ToolContext(call_id=call_id)
    groups.lend("a", context)
    return context.http


async def test_cookies_of_the_journal_are_lent_to_who_goes_on(site):
    """Another worker takes the run up logged in."""
    shared = HttpClient()
    first = Groups({}, telemetry=Telemetry(), make_client=shared.keeping_cookies)
    await lent(first, "c1").get(site.url + "/login")
    fact = first.take_back("c1", at=1.0, is_left_behind=False)
    second = Groups({"a": fact.kept}, telemetry=Telemetry(), make_client=shared.keeping_cookies)
    reply = await lent(second, "c2").get(site.url + "/home")
    await shared.aclose()

    assert reply.text == "sid=v1"


async def test_what_a_call_does_that_was_left_behind_harms_no_later_one(site):
    """It still has its client, but the jar of those after it is another."""
    shared = HttpClient()
    groups = Groups({}, telemetry=Telemetry(), make_client=shared.keeping_cookies)
    hanging = lent(groups, "c1")
    await hanging.get(site.url + "/login")
    groups.take_back("c1", at=1.0, is_left_behind=True)
    following = lent(groups, "c2")
    await hanging.get(site.url + "/logout")
    reply = await following.get(site.url + "/home")
    await shared.aclose()

    assert reply.text == "sid=v1"


async def test_tool_that_closes_its_client_closes_nobody_elses(start, ask, site):
    """The next call of the group gets a new one over the same connections, with the cookies."""

    @tool(sequential="a", effect="read")
    async def close(ctx: ToolContext) -> str:
        """Close it."""
        async with ctx.http as http:
            return (await http.get(site.url + "/login", follow_redirects=True)).text

    script = [calls(("close", {}), ("visit_a", {"page": "/home"})), answer("ok")]
    async with start(*script, tools=[close, visiting(site, "a"), visiting(site, "none")]) as worker:
        await ask(worker, "q")

    assert results(worker) == ["sid=v1", "200 sid=v1"]


async def test_jar_is_bounded_and_survives_being_written_down(site):
    """A site that sets cookies without end fills the jar and no more; a copy is as good."""
    shared = HttpClient()
    first = shared.keeping_cookies()
    await first.client.get(site.url + "/login")
    for page in "abcde":
        await first.client.get(f"{site.url}/many{page}")
    await first.client.get(f"{site.url}/same")
    await first.client.get(f"{site.url}/samename")
    second = shared.keeping_cookies(first.kept())
    before = first.client
    first.renew()
    await second.client.get(site.url + "/login")
    odd = shared.keeping_cookies([{"name": "x"}, {"nonsense": 1}])
    await shared.aclose()

    assert len(first.kept()) == 300
    assert first.client is not before
    assert {c["name"]: c["value"] for c in second.kept()}["sid"] == "v2"
    assert {c["name"]: c["value"] for c in first.kept()}["sid"] == "v1"
    assert "300 cookies" in repr(first)
    assert isinstance(odd.kept(), list)


def test_what_has_expired_is_not_written_down():
    """A journal need not carry what no site will ever be shown again."""
    fields = {"version": 0, "value": "1", "domain": "a.example", "path": "/", "discard": False}
    kept = [{"name": name, "expires": at, **fields} for name, at in (("old", 1), ("new", 2**40))]

    assert [cookie["name"] for cookie in CookieClient(AsyncClient, kept).kept()] == ["new"]

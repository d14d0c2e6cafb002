"""What of a list becomes a tool: named, judged, cut, and believed only as far as somebody said."""

from __future__ import annotations

from typing import Any

import pytest

from worker.mcp.faults import ServerAway
from worker.mcp.offer import DESCRIPTION_CHARS_MAX, Judge
from worker.mcp.port import Listed
from worker.mcpsettings import McpServerSettings
from worker.registry import Registry, line_to_add, wire_names
from worker.toolcontext import ToolContext

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}


def judge(**said: Any) -> Judge:
    """A judge of the server `shop` under these settings."""

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return name, arguments

    return Judge("shop", McpServerSettings.model_validate({"command": "x", **said}), call)


def listed(name: str, schema: Any = OBJECT, **more: Any) -> Listed:
    """A tool as a server lists it."""
    return Listed(name, more.pop("description", "Does it."), schema, **more)


async def test_a_tool_is_called_by_the_servers_own_name():
    """The server's name stands before it, for the model and for us."""
    (tool,) = judge().offer([listed("find it")]).tools
    assert tool.name == "shop.find it"
    assert tool.dependency == "mcp_shop"
    assert await tool.call({"text": "a", "self": 1}, ToolContext()) == (
        "find it",
        {"text": "a", "self": 1},
    )
    assert tool.validate({"text": 7}) == ["text: must be string, got 7"]


def test_names_that_no_server_of_a_model_takes_are_mapped_without_a_collision():
    """Each tool has a wire name of its own, whatever its server calls it."""
    names = ["find it", "find_it", "find-it!", "查询", "查 询", "x" * 120, "x" * 120 + "y"]
    offer = judge().offer([listed(name) for name in names])
    wire = wire_names(tool.name for tool in offer.tools)
    assert len(set(wire.values())) == len(names)
    assert all(len(name) <= 64 and name.isascii() for name in wire.values())


@pytest.mark.parametrize(
    ("said", "hints", "effect", "declared"),
    [
        ({}, {}, "write", False),
        ({}, {"read_only": True, "idempotent": True}, "write", False),
        ({"trust_hints": True}, {"read_only": True}, "read", True),
        ({"trust_hints": True}, {"idempotent": True}, "idempotent", True),
        ({"trust_hints": True}, {"read_only": False}, "write", False),
        ({"effects": "pay=write,p*=read"}, {}, "write", True),
        ({"effects": "p*=read"}, {"read_only": False}, "read", True),
        ({"effects": "get_*=read"}, {}, "write", False),
        ({"effects": "*=idempotent", "trust_hints": True}, {"read_only": True}, "idempotent", True),
    ],
)
def test_what_a_tool_does_is_said_by_operations_or_it_writes(said, hints, effect, declared):
    """A server's word about its own harmlessness counts only where it is trusted."""
    (tool,) = judge(**said).offer([listed("pay", **hints)]).tools
    assert (tool.effect, tool.effect_declared) == (effect, declared)


def test_the_line_to_add_for_an_undeclared_tool_is_a_setting():
    """Nobody can mend the server's file, but everybody can say what its tools do."""
    (tool,) = judge().offer([listed("pay")]).tools
    assert line_to_add(tool).startswith(
        "LOOPWORKER_MCP__SHOP__EFFECTS=pay=read if it changes nothing"
    )


def test_allow_and_deny_choose_the_tools():
    """DENY wins; `*` stands for anything."""
    every = [listed(name) for name in ("get_a", "get_b", "set_a")]
    assert names(judge(allow="get_*").offer(every)) == ["shop.get_a", "shop.get_b"]
    assert names(judge(allow="get_*", deny="*_b").offer(every)) == ["shop.get_a"]
    assert names(judge(deny="get_*").offer(every)) == ["shop.set_a"]


def names(offer: Any) -> list[str]:
    """The full names of what is offered."""
    return [tool.name for tool in offer.tools]


def test_what_is_left_out_is_said_with_its_reason():
    """Too dangerous, twice, or too many."""
    bad = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1/"}}}
    every = [listed("a"), listed("a"), listed("bad", bad), listed("b"), listed("c")]
    offer = judge(tools_max=2).offer(every)
    assert names(offer) == ["shop.a", "shop.b"]
    assert [(name, reason.split(",")[0]) for name, reason in offer.left_out] == [
        ("a", "it is listed twice"),
        ("bad", "its schema refers to 'http://127.0.0.1/'"),
        ("c", "there are more than 2 (LOOPWORKER_MCP__SHOP__TOOLS_MAX)"),
    ]


def test_a_schema_that_cannot_be_compiled_is_left_out():
    """What passes for a schema may still be none."""
    offer = judge().offer([listed("a", {"type": "object", "required": [1]})])
    assert offer.tools == ()
    assert offer.left_out[0][1].startswith("its schema is: not a valid JSON schema")


def test_schemas_are_judged_once():
    """A server that lists the same again and again costs a comparison."""
    patient = judge()
    first = patient.offer([listed("a")]).tools[0]
    second = patient.offer([listed("a")]).tools[0]
    assert second.check is first.check


def test_judging_ends_when_its_time_is_over():
    """What a hostile server can make us compute is bounded; the rest is left out."""
    slow = judge()
    now = iter(range(0, 100, 2))
    slow.clock = lambda: float(next(now))
    schemas = [{"type": "object", "properties": {f"p{n}": {}}} for n in range(5)]
    offer = slow.offer([listed(f"t{n}", schema) for n, schema in enumerate(schemas)])
    assert names(offer) == ["shop.t0", "shop.t1"]
    assert offer.left_out[0][1] == "judging the schemas took longer than 5 s"


def test_descriptions_are_cut_and_hide_nothing():
    """Neither terminals nor readers are to be fooled."""
    text = "Says\x1b[31m it\u202e back. " + "x" * 5000
    (tool,) = judge().offer([listed("a", description=text)]).tools
    assert len(tool.description) <= DESCRIPTION_CHARS_MAX
    assert tool.description.startswith("Says [31m it  back.")


def test_settings_of_the_server_reach_its_tools():
    """Times, stand-ins, order and approval, also for single tools."""
    said = {
        "timeout_seconds": "3s",
        "attempts": 2,
        "stub": "closed",
        "stubs": "b=away",
        "stale_seconds": 60,
        "sequential": True,
        "approval": "b",
        "effects": "a=read",
    }
    a, b = judge(**said).offer([listed("a"), listed("b")]).tools
    assert (a.timeout_seconds, a.attempts, a.stub, b.stub) == (3.0, 2, "closed", "away")
    assert (a.stale_seconds, b.stale_seconds) == (60.0, None)  # a write has no stand-in
    assert a.sequential == b.sequential == "mcp_shop"
    assert (a.requires_approval, b.requires_approval) == (False, True)


# --- the registry ---------------------------------------------------------------------------------


def test_tools_of_a_server_are_replaced_as_a_whole():
    """What it no longer lists is gone; tools of others stay."""
    registry = Registry(judge().offer([listed("a")]).tools)
    other = Judge("desk", McpServerSettings(command="x"), judge().call)
    registry.replace("desk.", other.offer([listed("a"), listed("b")]).tools)
    registry.replace("desk.", other.offer([listed("c")]).tools)
    assert registry.names == ("shop.a", "desk.c")
    assert [each.wire_name for each in registry.offered()] == ["shop_a", "desk_c"]


async def test_a_tool_of_a_server_that_is_away_is_no_unknown_tool():
    """A task that names it is taken, and a call of it tells why there is nothing."""

    async def away(name: str, arguments: dict[str, Any]) -> Any:
        raise ServerAway("it is away")

    judging = Judge("shop", McpServerSettings(command="x", stub="closed"), away)
    registry = Registry()
    registry.expect("shop.", judging.stand_in)
    assert "shop.find" in registry
    assert "shop." not in registry
    assert registry.names == ()
    (offered,) = registry.offered(["shop.find"])
    assert (offered.name, offered.wire_name) == ("shop.find", "shop_find")
    assert offered.validate({"any": "thing"}) == []
    tool = registry.get("shop.find")
    assert tool is not None
    assert (tool.dependency, tool.stub, tool.effect) == ("mcp_shop", "closed", "write")
    with pytest.raises(ServerAway):
        await tool.call({}, ToolContext())
    assert registry.pollers(["shop.status"]) == {"shop.status"}


def test_once_a_server_has_listed_its_tools_others_are_unknown():
    """Then a name that is not among them is a mistake, and said to be one."""
    registry = Registry()
    registry.expect("shop.", judge().stand_in)
    registry.replace("shop.", judge().offer([listed("a")]).tools)
    assert "shop.a" in registry
    assert "shop.b" not in registry
    assert registry.get("shop.b") is None

"""What a person is told about tools that a model will call badly."""

from __future__ import annotations

from typing import Any

import pytest

from worker import tool
from worker.discovery import load_registry
from worker.toollint import lint


def rules(**options: Any) -> list[str]:
    """Make a tool with these options and return the rules it breaks."""
    doc = {"symbol": {"type": "string", "description": "Ticker of the stock."}}

    @tool(
        **{
            "name": "get_price",
            "description": "Latest price of a stock.",
            "parameters": {"properties": doc},
            **options,
        }
    )
    def run(**arguments: Any) -> None:
        """Run."""

    return [found.rule for found in lint([run])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"description": " "}, ["no-description"]),
        ({"description": "Price."}, ["short-description"]),
        ({"description": "查股价"}, []),
        ({"description": "Price. " * 200}, ["long-description"]),
        ({"description": "Maybe the latest price."}, ["soft-word"]),
        ({"description": "建议在用户询问股价时使用"}, ["soft-word"]),
        ({"description": "可选的查询工具,也许有用"}, ["soft-word"]),
        ({"description": "Mightiest price of the maybelline stock."}, []),
        ({"parameters": {"properties": {"a": {"type": "string"}}}}, ["no-parameter-description"]),
        (
            {"parameters": {"properties": {"a": {"description": "Optionally the day"}}}},
            ["soft-word"],
        ),
        ({"parameters": {"properties": {"a": {"description": "可选值 CN、US"}}}}, []),
        ({"name": "stock.price"}, ["wire-name"]),
        ({"name": "send_mail"}, ["undeclared-effect", "no-verify"]),
        ({"name": "send_mail", "effect": "write"}, ["no-verify"]),
        ({"name": "send_mail", "effect": "write", "verify": print}, []),
        ({"dependency": "quote"}, ["no-stub"]),
        ({"dependency": "quote", "stub": "n/a"}, []),
    ],
)
def test_finding(options: dict[str, Any], expected: list[str]):
    """Each rule finds its case, and a good tool has none."""
    assert rules(**options) == expected


def test_finding_can_be_opened_in_an_editor():
    """File and line come first, the rule last."""

    @tool
    def price(symbol: str) -> None:
        """Maybe the price."""

    first, second = lint([price])

    assert str(first).startswith(f"{__file__}:{price.source_line}: price: the description says")
    assert str(first).endswith("[soft-word]")
    assert "no description of symbol" in second.message


def test_examples_have_no_findings():
    """The tools that ship with the worker are an example in this, too."""
    registry = load_registry("tools", entry_points=False)

    assert [str(found) for found in lint(registry)] == []
    assert registry.undeclared() == []

"""From a signature to the schema a model sees, and from its arguments to the function's."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field

from worker import ToolContext, tool
from worker.core.errors import ConfigError, ToolError


class Region(enum.Enum):
    """Where an order lies."""

    CN = "CN"
    US = "US"


class Item(pydantic.BaseModel):
    """One line of an order."""

    sku: str
    count: int = 1


class Node(pydantic.BaseModel):
    """Something that contains itself."""

    value: int
    children: list[Node] = []


async def test_signature_becomes_a_schema_without_noise():
    """Types, limits, choices, defaults and docs are in the schema; titles are not."""

    @tool
    async def get_order(
        ctx: ToolContext,
        order_id: Annotated[str, Field(min_length=12, max_length=20)],
        region: Literal["CN", "US"] = "CN",
        pages: list[int] | None = None,
    ) -> str:
        """Look up one order
        by its number.

        More words for people.

        Args:
            order_id: The number
                on the receipt.
            region (str): Where it was placed.

        Returns:
            text: Not a parameter.
        """
        return order_id

    assert get_order.name == "get_order"
    assert get_order.description == "Look up one order by its number."
    assert get_order.wants_context
    assert get_order.is_async
    assert get_order.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["order_id"],
        "properties": {
            "order_id": {
                "type": "string",
                "minLength": 12,
                "maxLength": 20,
                "description": "The number on the receipt.",
            },
            "region": {
                "type": "string",
                "enum": ["CN", "US"],
                "default": "CN",
                "description": "Where it was placed.",
            },
            "pages": {
                "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
                "default": None,
            },
        },
    }


def test_every_violation_is_a_sentence_with_its_field():
    """A model that errs twice is told twice, with the field and what is allowed."""

    @tool
    def find(order_id: Annotated[str, Field(min_length=12)], region: Region, count: int = 1):
        """Find."""

    assert find.validate({"order_id": "A1", "region": "cn", "count": True, "zone": 1}) == [
        "order_id: must have at least 12 characters, got 2",
        'region: must be one of "CN", "US", got "cn"',
        "count: must be integer, got true",
        "zone: unknown, no such parameter",
    ]
    assert find.validate({}) == [
        "order_id: required, but missing",
        "region: required, but missing",
    ]
    assert find.validate(["A1"]) == ["arguments: must be object, got a list"]
    assert find.validate({"order_id": "A12345678901", "region": "US"}) == []


@pytest.mark.parametrize("value", [float("nan"), "\ud83d", {1: 2}, 10**400])
def test_values_outside_json_are_judged_and_do_not_raise(value: Any):
    """NaN, lone surrogates and odd keys are violations, not crashes."""

    @tool
    def measure(value: Annotated[int, Field(le=9)]):
        """Measure."""

    assert measure.validate({"value": value}) != []


def test_nested_violation_names_its_path():
    """The path goes through lists and objects."""

    @tool
    def order(items: list[Item]):
        """Order."""

    assert order.validate({"items": [{"sku": "a"}, {"sku": 5}]}) == [
        "items[1].sku: must be string, got 5"
    ]


def test_choice_of_types_says_each():
    """An anyOf tells what each branch wants."""

    @tool
    def find(page: int | None):
        """Find."""

    assert find.validate({"page": "x"}) == ['page: must be integer, or must be null, got "x"']


async def test_rich_types_reach_the_function_as_values():
    """Enums, dates and models are built from validated JSON; left-out parameters keep defaults."""

    @tool
    def book(region: Region, day: datetime.date, items: list[Item], note: str = "none"):
        """Book."""
        return region, day, items, note

    got = await book.invoke(
        ToolContext(), {"region": "US", "day": "2026-12-02", "items": [{"sku": "a"}]}
    )

    assert got == (Region.US, datetime.date(2026, 12, 2), [Item(sku="a")], "none")


def test_value_that_cannot_be_built_is_a_violation():
    """A text that is no date fits the schema, and is still the model's to correct."""

    @tool
    def look(day: datetime.date):
        """Look."""

    found = look.validate({"day": "yesterday"})

    assert len(found) == 1
    assert found[0].startswith("day: ")


async def test_parameter_may_be_called_what_it_likes():
    """Names that pydantic's models use for themselves are names like any other."""

    @tool
    def show(schema: str, json: Region, model_config: int = 1, copy: int = Field(7, ge=1)):
        """Show."""
        return schema, json, model_config, copy

    assert list(show.parameters["properties"]) == ["schema", "json", "model_config", "copy"]
    assert await show.invoke(ToolContext(), {"schema": "s", "json": "CN"}) == (
        "s",
        Region.CN,
        1,
        7,
    )


def test_definitions_are_put_in_place_unless_they_contain_themselves():
    """Servers that cannot follow a $ref see none, except where nothing else is possible."""

    @tool
    def plain(item: Item):
        """Take an item."""

    @tool
    def deep(node: Node):
        """Take a tree."""

    assert "$ref" not in str(plain.parameters)
    assert deep.parameters["properties"]["node"] == {"$ref": "#/$defs/Node"}
    assert deep.validate({"node": {"value": 1, "children": [{"value": "x"}]}}) == [
        'node.children[0].value: must be integer, got "x"'
    ]


def _no_annotation(a, b: int): ...
def _star(*a: int): ...
def _stars(**a: int): ...
def _unknown(a: Nowhere): ...  # noqa: F821
def _lock(a: pytest.MonkeyPatch): ...
def _bare_late(b: int, ctx): ...
def _late(a: int, ctx: ToolContext): ...
def _positional(a: int, /): ...


def _yields(a: int):
    yield a


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_no_annotation, "parameter 'a' has no annotation"),
        (_star, "parameter *a"),
        (_stars, "**a needs a raw schema"),
        (_unknown, "parameter 'a': annotation 'Nowhere' cannot be resolved"),
        (_lock, "parameter 'a': unsupported annotation"),
        (_bare_late, "put ctx first, as ctx: ToolContext (from worker import ToolContext)"),
        (_late, "ctx must be the first parameter, ctx: ToolContext"),
        (_positional, "parameter 'a' is positional-only"),
        (_yields, "it yields"),
    ],
)
def test_signature_that_cannot_be_offered_is_refused_with_its_place(function: Any, says: str):
    """The error names file, line, tool and parameter."""
    with pytest.raises(ConfigError) as caught:
        tool(function)

    line = function.__code__.co_firstlineno
    assert str(caught.value).startswith(f"{__file__}:{line}: tool {function.__name__!r}")
    assert says in str(caught.value)


async def test_raw_schema_is_sent_as_it_is():
    """With **arguments the author's schema is the law, what it leaves open included."""
    raw = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    @tool(name="time.now", description="Now.", parameters=raw)
    async def run(**arguments: Any) -> Any:
        return arguments

    assert run.parameters == raw
    assert run.parameters is not raw
    assert await run.invoke(ToolContext(), {"a": 1, "more": [2]}) == {"a": 1, "more": [2]}
    assert run.validate({"a": "x"}) == ['a: must be integer, got "x"']


def test_raw_schema_closes_itself_where_the_function_takes_named_parameters():
    """What the function could not take must not pass the schema."""

    @tool(parameters={"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    def run(a):
        """Run."""

    assert run.validate({"a": 1, "b": 2}) == ["b: unknown, no such parameter"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"type": "array"}, "type object"),
        ({"properties": {"b": {}}, "required": ["a"]}, "'b', which the function lacks"),
        ({"properties": {"a": {}}}, "does not require"),
        ({"properties": {"a": {"type": "objekt"}}, "required": ["a"]}, "not a valid JSON schema"),
        ({"properties": {"a": {"pattern": "(("}}, "required": ["a"]}, "not a valid JSON schema"),
        (
            {"properties": {"a": {"$ref": "https://example.com/a"}}, "required": ["a"]},
            "points outside the schema",
        ),
        (
            {"properties": {"a": {"$ref": "file:///etc/passwd"}}, "required": ["a"]},
            "points outside the schema",
        ),
    ],
)
def test_raw_schema_that_cannot_work_is_refused(raw: dict[str, Any], says: str):
    """At registration, not at the first call; and nothing is fetched."""
    with pytest.raises(ConfigError, match="tool 'run'") as caught:

        @tool(parameters=raw)
        def run(a):
            """Run."""

    assert says in str(caught.value)


async def test_hostile_pattern_is_answered_at_once():
    """A catastrophic pattern costs no time: the engine is linear."""

    @tool(parameters={"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    def run(**arguments: Any):
        """Run."""

    found = run.validate({"a": "a" * 5000 + "b"})

    assert len(found) == 1
    assert len(found[0]) < 200


async def test_what_a_tool_does_to_its_arguments_stays_with_it():
    """A retry, and the journal, see the arguments as the model gave them."""

    @tool
    def drain(items: list[int]):
        """Drain."""
        items.clear()

    arguments = {"items": [1, 2]}
    await drain.invoke(ToolContext(), arguments)

    assert arguments == {"items": [1, 2]}


async def test_invoke_refuses_what_does_not_fit():
    """Called by hand, a tool is as strict as it is with a model."""

    @tool
    def double(number: int):
        """Double."""
        return 2 * number

    with pytest.raises(ToolError, match="number: must be integer"):
        await double.invoke(ToolContext(), {"number": "x"})
    assert await double.invoke(ToolContext(), {"number": 4}) == 8


def test_an_args_section_may_be_written_in_chinese():
    """参数 with a colon of either width heads it, and either separates a name from its text."""
    from worker.toolkit.docstring import parameter_docs

    doc = "查询。\n\n参数\uff1a\n    order_id\uff1a订单号\n    region: 地区"

    assert parameter_docs(doc) == {"order_id": "订单号", "region": "地区"}

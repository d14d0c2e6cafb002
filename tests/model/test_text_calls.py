"""Calls that leaked into the text, and texts that only look like it (models.md 2.5)."""

from __future__ import annotations

import pytest

from tests.model.said import body, problem_of, read
from worker.core.messages import ReplyKind

SUM = {"a": 2, "b": 40}
JSON = '{"name": "add", "arguments": {"a": 2, "b": 40}}'
QWEN = (
    "<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>\n40\n</parameter>\n</function>"
)
INVOKE = '<invoke name="add"><parameter name="a">2</parameter><parameter name="b">40</parameter>'
GLM = (
    "<arg_key>a</arg_key>\n<arg_value>2</arg_value>\n<arg_key>b</arg_key><arg_value>40</arg_value>"
)


def dsml(bar):
    """Write DeepSeek's markup with one kind of bar."""
    tag = f"{bar}DSML{bar}"
    return (
        f'<{tag}invoke name="add">\n<{tag}parameter name="a" string="false">2</{tag}parameter>\n'
        f'<{tag}parameter name="b" string="true">40</{tag}parameter>\n</{tag}invoke>'
    )


LEAKED = {
    "hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "hermes, closing tag missing": f"<tool_call>\n{JSON}",
    "hermes, turn token": f"<tool_call>{JSON}</tool_call><|im_end|>",
    "hermes, parameters": '<tool_call>{"name":"add","parameters":{"a":2,"b":40}}</tool_call>',
    "hermes, arguments as text": '<tool_call>{"name":"add","arguments":"{\\"a\\":2,\\"b\\":40}"}'
    "</tool_call>",
    "hermes, wrapped": f"<tool_calls>\n<tool_call>{JSON}</tool_call>\n</tool_calls>",
    "qwen": f"<tool_call>\n{QWEN}\n</tool_call>",
    "qwen, bare": QWEN,
    "qwen, closing parameter missing": QWEN.replace("</parameter>", ""),
    "function with json": '<function=add>{"a": 2, "b": 40}</function>',
    "dsml": f"<｜DSML｜tool_calls>\n{dsml('｜')}\n</｜DSML｜tool_calls>",
    "dsml, doubled bars": f"<｜｜DSML｜｜tool_calls>{dsml('｜｜')}</｜｜DSML｜｜tool_calls>",
    "dsml, ascii bars": dsml("|"),
    "dsml, function_calls": f"<｜DSML｜function_calls>{dsml('｜')}</｜DSML｜function_calls>",
    "mistral": '[TOOL_CALLS]add[ARGS]{"a": 2, "b": 40}',
    "mistral, list": f"[TOOL_CALLS] [{JSON}]",  # F06
    "mistral, call id": '[TOOL_CALLS]add[CALL_ID]D681PevKs[ARGS]{"a": 2, "b": 40}</s>',
    "mistral, no marker": '[TOOL_CALLS]add{"a": 2, "b": 40}',
    "llama": '{"name": "add", "parameters": {"a": "2", "b": 40}}',
    "llama, python tag": '<|python_tag|>{"name": "add", "parameters": {"a": 2, "b": 40}}<|eom_id|>',
    "llama, typed": '{"type":"function","name":"add","parameters":{"a":2,"b":40}}',
    "list": f"[{JSON}]",
    "fence": f"```json\n{JSON}\n```",  # F08
    "minimax": f"<minimax:tool_call>\n{INVOKE}</invoke>\n</minimax:tool_call>",  # F09
    "invoke": f"<function_calls>\n{INVOKE}\n</invoke>\n</function_calls>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
    '<|tool_call_argument_begin|>{"a":2,"b":40}<|tool_call_end|><|tool_calls_section_end|>',
    "kimi, no section": "<|tool_call_begin|>functions.add:0"
    '<|tool_call_argument_begin|>{"a":2,"b":40}<|tool_call_end|>',
    "glm": f"<tool_call>add\n{GLM}\n</tool_call>",  # F11
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n"
    '{"a": 2, "b": 40}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek, later": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>"
    '{"a": 2, "b": 40}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    "after thinking": f"<think>add them</think>\n<tool_call>{JSON}</tool_call>",
}


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED.keys())
def test_leaked_call_is_recovered(text):
    """R9: a reply that is markup as a whole, of a registered tool, with valid arguments, runs."""
    reply = read(body(text))

    assert reply.kind is ReplyKind.CALLS
    assert [(made.name, made.arguments) for made in reply.calls] == [("add", SUM)]
    assert reply.recovered
    assert reply.text == ""
    assert reply.message["content"] in (None, "<think>add them</think>\n")
    assert reply.message["tool_calls"][0]["function"]["arguments"].startswith('{"a"')


def test_closing_tag_inside_a_value_does_not_end_the_call():
    """A text argument may quote the markup that it stands in."""
    text = '<tool_call>{"name":"get_stock_price","arguments":{"symbol":"</tool_call>"}}</tool_call>'

    assert read(body(text)).calls[0].arguments == {"symbol": "</tool_call>"}


def test_ids_in_the_markup_are_kept():
    """F10 and kin: where the markup carries an id, it is the id of the call."""
    assert read(body(LEAKED["kimi"])).calls[0].id == "functions.add:0"
    assert read(body(LEAKED["mistral, call id"])).calls[0].id == "D681PevKs"


def test_several_leaked_calls_keep_their_order():
    """Two blocks, two calls; prose before them is shown and stays."""
    clock = '<tool_call>{"name":"get_current_time","arguments":{}}</tool_call>'
    reply = read(body(f"I will do both.\n{LEAKED['hermes']}\n{clock}"))

    assert [made.name for made in reply.calls] == ["add", "get_current_time"]
    assert reply.text == reply.message["content"] == "I will do both."
    mistral = '[TOOL_CALLS]add[ARGS]{"a":2,"b":40}[TOOL_CALLS]get_current_time[ARGS]{}'
    assert [made.name for made in read(body(mistral)).calls] == ["add", "get_current_time"]


QUOTED = {
    "a package": '```json\n{"name": "my-app", "version": "1.0.0"}\n```',
    "a registered name in data": '{"name": "add", "version": 1}',
    "more keys": '{"name": "add", "arguments": {"a": 1, "b": 2}, "why": "because"}',
    "bare, not registered": '{"name": "remove", "arguments": {}}',
    "bare, not valid": '{"name": "add", "arguments": {"a": 1}}',
    "fence with prose": f"Like this:\n```json\n{JSON}\n```",
    "markup in a fence": f"```\n<tool_call>{JSON}</tool_call>\n```",
    "markup in a fence after prose": f"So:\n```xml\n<tool_call>{JSON}</tool_call>\n```\nThat is all.",
    "prose after": f"<tool_call>{JSON}</tool_call>\nThis is how to call it.",
    "markup in an open fence": f"Like this:\n```\n<tool_call>{JSON}</tool_call>",
    "markup after a back-tick": f"Like this: `<tool_call>{JSON}</tool_call>",
    "inline code": f"Write `<tool_call>{JSON}</tool_call>`",
    "prose, not registered": 'Try <tool_call>{"name": "remove", "arguments": {}}</tool_call>',
    "prose, not valid": 'Try <tool_call>{"name": "add", "arguments": {}}</tool_call>',
    "mistral with prose after": '[TOOL_CALLS]add[ARGS]{"a": 2, "b": 40} is the form.',
    "kimi with prose after": LEAKED["kimi"] + " is the form.",
    "a tag in passing": "The tag <function=add> opens a call.",
    "a list of numbers": "[1, 2, 3]",
    "an answer in json": '{"price": 12.5}',
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED.keys())
def test_quotation_stays_text(text):
    """F12, F13 and kin: what may be an example or an answer is never run."""
    reply = read(body(text))

    assert (reply.kind, reply.text, reply.calls) == (ReplyKind.ANSWER, text, ())
    assert reply.message["content"] == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<tool_call>{"name":"delete_everything","arguments":{}}</tool_call>', "unknown_tool"),
        ('<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>', "invalid_arguments"),
        ('<tool_call>{"name":"add","arguments":{"a":1,}</tool_call>', "invalid_arguments"),
        ("<function=add>\n<parameter=a>\n2\n</parameter>", "invalid_arguments"),
        ('[TOOL_CALLS]add[ARGS]{"a": 2, "b"', "invalid_arguments"),
        ('<invoke name="add"><parameter name="a">2', "invalid_arguments"),
        (INVOKE.removesuffix("0</parameter>"), "invalid_arguments"),
        (LEAKED["kimi"].partition("<|tool_call_end|>")[0], "invalid_arguments"),
    ],
)
def test_faulty_markup_alone_is_told_to_the_model(text, kind):
    """F14: a reply of nothing but markup is no answer; the model gets the error and may mend it."""
    assert problem_of(read(body(text)))["type"] == kind


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED.keys())
@pytest.mark.parametrize("missing", [1, 12])
def test_markup_cut_by_the_token_limit_never_runs(text, missing):
    """R2 holds for markup too: cut anywhere inside the call, nothing of it runs."""
    markup = text.rstrip().removesuffix("<|im_end|>").removesuffix("<|eom_id|>")
    place = markup.rfind("40") + (2 if missing == 1 else -missing)
    reply = read(body(text[:place], finish="length"))

    assert reply.kind is ReplyKind.LENGTH
    assert reply.calls == ()


def test_recovery_can_be_switched_off():
    """Where it is not wanted, markup stays text."""
    reply = read(body(LEAKED["hermes"]), recover_text_calls=False)

    assert reply.kind is ReplyKind.ANSWER
    assert read(body(LEAKED["hermes"]), tools=()).kind is ReplyKind.ANSWER


def test_only_the_content_is_searched():
    """What the model thought or refused, and real calls beside it, are not searched."""
    thought = read(body("Hello", reasoning_content=LEAKED["hermes"]))
    hidden = read(body(f"<think>{LEAKED['hermes']}</think>Hello"))

    assert thought.kind is hidden.kind is ReplyKind.ANSWER


def test_parts_are_searched_and_thinking_parts_stay():
    """A content list keeps what is not text when its text turns out to be a call."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reply = read(body([thinking, {"type": "text", "text": LEAKED["hermes"]}]))

    assert reply.calls[0].arguments == SUM
    assert reply.message["content"] == [thinking]


@pytest.mark.parametrize("seed", ["<tool_call>", "<function=", "[TOOL_CALLS]", "```", "{", " \n"])
def test_long_garbage_is_read_in_linear_time(seed):
    """Nothing in the search for calls is worse than linear in the length of a reply."""
    read(body(seed * (200_000 // len(seed))))
    read(body("<tool_call>" + seed * (200_000 // len(seed))))

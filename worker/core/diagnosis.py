"""The symptoms of a sick loop, and for each a hint that names its likely cause.

`no_call`: it answered at once though a tool fits. `repeated_call`: the same call again and again.
`no_answer`: all its steps and no answer. Hints are for the operator who reads the result. They name
tools and settings; of questions, arguments and results they repeat nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from worker.core.effects import Finish
from worker.core.fitting import Fit, ToolWords, fitting
from worker.core.limits import Status
from worker.core.messages import Observation, ReplyKind, Source, ToolCall
from worker.core.task import Symptom
from worker.core.texts import RESULT_CUT, SYSTEM_PROMPT, SYSTEM_PROMPT_WITHOUT_TOOLS

if TYPE_CHECKING:
    from worker.core.loop import Loop

NO_CALL, REPEATED_CALL, NO_ANSWER = "no_call", "repeated_call", "no_answer"
_SAME_CALLS = 3  # rounds with the same call and the same result
_NAME_CHARS_MAX = 64
_CUT_MARKS = tuple(text.strip().partition("{")[0] for text in RESULT_CUT.values())
_LEAKED = re.compile(
    r"<(?:tool_call|function[=>_]|invoke|tool_use)|<\|(?:tool|python)|\[TOOL_CALLS\]"
    r'|"(?:arguments|parameters)"\s*:\s*\{',
    re.IGNORECASE,
)
_ASKS_BACK = re.compile(
    r"请(?:先)?(?:提供|告诉|告知|给出|输入|补充|确认)|(?:哪|什么)[一只个家座天]?.{0,16}[?\uff1f]"
    r"|\b(?:please|could you|can you) (?:provide|tell|give|share|specify|confirm|let)\b"
    r"|\b(?:which|what) [^?.]{1,60}\?|\blet me know\b|\bi need (?:the|your|to know)\b",
    re.IGNORECASE,
)
_BUILT_IN = frozenset([*SYSTEM_PROMPT.values(), *SYSTEM_PROMPT_WITHOUT_TOOLS.values()])


def diagnose(loop: Loop, finish: Finish, tools: Sequence[ToolWords]) -> tuple[Symptom, ...]:
    """The symptoms of a run that ends so. `tools` are those that it was offered."""
    return tuple(_symptoms(loop, finish, tools))


def _symptoms(loop: Loop, finish: Finish, tools: Sequence[ToolWords]) -> Iterator[Symptom]:
    uncalled = _uncalled(loop, finish, tools)
    if uncalled is not None:
        yield Symptom(NO_CALL, _why_no_call(loop, uncalled.tool, finish.answer))
    same = _same_calls(loop)
    if len(same) >= _SAME_CALLS or finish.status == Status.LOOP_DETECTED:
        yield Symptom(REPEATED_CALL, _why_repeated(same))
    if finish.status == Status.MAX_STEPS:
        yield Symptom(NO_ANSWER, _why_no_answer(loop, len(same)))


# --- it answered at once though a tool fits ------------------------------------------------------


def _uncalled(loop: Loop, finish: Finish, tools: Sequence[ToolWords]) -> Fit | None:
    if finish.status != Status.COMPLETED or loop.observed or loop.calling or loop.started is None:
        return None
    if any(message.get("role") == "tool" for message in loop.started.history):
        return None  # what was found out before may be enough
    missed = loop.offering.missed
    there = [tool for tool in tools if tool.name not in missed]
    fits = fitting(str(loop.started.task["input"]), there)
    if not fits or (fits[0].tool.required and _ASKS_BACK.search(finish.answer)):
        return None
    return fits[0]


def _why_no_call(loop: Loop, tool: ToolWords, answer: str) -> str:
    assert loop.started is not None
    said = f"{tool.name} fits the question and was not called"
    if loop.max_steps == 1:
        return f"{said}: with max_steps 1 the only step is the closing turn, which calls no tool"
    if _LEAKED.search(answer) or f"{tool.name}(" in answer:
        return (
            f"{said}: the answer holds what looks like a call written as text, so the server's tool"
            " parser does not fit the model; see loopworker doctor"
        )
    if tool.flaw:
        return f"{said}: {tool.flaw}; say plainly when to call it (loopworker tools lint)"
    if loop.started.system_prompt not in _BUILT_IN:
        return (
            f"{said}: LOOPWORKER_SYSTEM_PROMPT replaces the built-in prompt, which demands tools for"
            " outside facts"
        )
    return (
        f"{said}: the endpoint may drop tools or tool_choice (loopworker doctor asks it for a real"
        " call), or the model is too weak for tools"
    )


# --- the same call again and again ---------------------------------------------------------------


def _same_calls(loop: Loop) -> list[tuple[ToolCall, Observation]]:
    """The call that came in the most rounds with the same result; one entry for each round."""
    if loop.started is None or len(loop.observed) < min(_SAME_CALLS, loop.limits.max_repeats):
        return []
    pollers = loop.started.pollers
    rounds: dict[object, dict[int, tuple[ToolCall, Observation]]] = defaultdict(dict)
    for step, call, observation in loop.observed:
        if call.name not in pollers or call.problem is not None:
            key = (call.name, call.digest, observation.content)
            rounds[key].setdefault(step, (call, observation))
    most = max(rounds.values(), key=len, default={})
    return list(most.values())


def _why_repeated(same: list[tuple[ToolCall, Observation]]) -> str:
    if not same:
        return "the same calls came again and again"
    (call, seen), times = same[-1], len(same)
    tool = call.name[:_NAME_CHARS_MAX]
    if call.problem is not None:
        return (
            f"{tool} was called {times} times with the same mistake ({call.problem_kind}); does its"
            " schema say what it takes? (loopworker tools lint)"
        )
    if seen.source in (Source.STUB, Source.SKIPPED) or seen.dependency_failed:
        why = seen.reason or seen.error_type or "unavailable"
        return f"{tool} was called {times} times though it was not available ({why})"
    if seen.source is Source.ERROR:
        return (
            f"{tool} was called {times} times and gave the same error; let the error say what to do"
            " differently"
        )
    if seen.empty:
        return f"{tool} found nothing, {times} times; let its result say that there is no more"
    if any(mark in seen.content for mark in _CUT_MARKS):
        return (
            f"the result of {tool} is cut, and it was called {times} times for the rest; raise"
            " LOOPWORKER_MAX_RESULT_CHARS, or give the tool a page or a filter"
        )
    return (
        f"{tool} was called {times} times with the same arguments and gave the same result; does the"
        " endpoint show results to the model? (loopworker doctor); a tool that is meant to be asked"
        " again says poller=True"
    )


# --- all its steps and no answer -----------------------------------------------------------------


def _why_no_answer(loop: Loop, same: int) -> str:
    steps, replies = loop.max_steps, max(1, loop.replies)
    ending = _closing_turn(loop)
    if steps == 1:
        return "max_steps 1 leaves no step for a call: the only one is the closing turn" + ending
    failed = loop.failed_steps
    if 2 * failed >= replies - 1 and failed:
        return f"{failed} of {replies} steps failed ({_failures(loop)}){ending}"
    if same >= _SAME_CALLS:
        return f"steps went into the same call, see {REPEATED_CALL}{ending}"
    if loop.last is not None and loop.last.kind is ReplyKind.EMPTY:
        return f"the closing turn gave an empty reply; does the model answer without tools?{ending}"
    return (
        f"{steps} steps ({loop.max_steps_reason}) were too few: each brought something new; raise"
        f" LOOPWORKER_MAX_STEPS, or max_steps or metadata.task_type of the task{ending}"
    )


def _closing_turn(loop: Loop) -> str:
    calls = loop.last.calls if loop.last is not None else ()
    if not calls:
        return ""
    names = ", ".join(dict.fromkeys(call.name[:_NAME_CHARS_MAX] for call in calls[:3]))
    return f"; in its closing turn the model still called {names}, against tool_choice none"


def _failures(loop: Loop) -> str:
    found = [
        f"{call.name[:_NAME_CHARS_MAX]}: {o.error_type or o.reason or 'error'}"
        for _, call, o in loop.observed
        if o.source is Source.ERROR or o.dependency_failed
    ]
    return ", ".join(list(dict.fromkeys(found))[:3])

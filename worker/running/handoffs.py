"""Hand-off rules at work: what an answer or a result says is held against them.

Texts and patterns cost linear time and are looked for here and now. Functions of tool files are
other people's code: each runs in a thread, is not waited for beyond its time, and when it raises
it is told and passed over. What a rule found is journaled, so no rule is ever asked twice about
the same thing, and a deploy that changes the rules changes no run that one has ended.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from worker.core.errors import ConfigError
from worker.core.events import HandedOff
from worker.core.messages import Observation, Source, ToolCall
from worker.core.task import Symptom
from worker.guard.attempt import Runner
from worker.guard.policy import AttemptInfo
from worker.handoffsettings import RULES_MAX, HandoffRule
from worker.registry import Registry
from worker.telemetry.signals import RuleBroken
from worker.telemetry.tell import Telemetry
from worker.toolkit.patterns import compile_pattern
from worker.toolkit.rules import RULE_NAME, FunctionRule

RULE_SECONDS = 1.0  # for one function and one text
RULE_THREADS = 4
REASON_CHARS_MAX = 300
_SAYS_NOTHING = frozenset({Source.SKIPPED, Source.UNKNOWN})  # those words are ours


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: it looks for `text` (as `flat` has it) or by `pattern`, or asks a `function`.

    `reason` None: the function gives it. `tools` empty: the results of all tools. `shown` tells
    people what it looks for.
    """

    name: str
    on: str
    tools: frozenset[str]
    shown: str
    reason: str | None = None
    text: str | None = None
    pattern: Callable[[str], bool] | None = None
    function: FunctionRule | None = None

    def concerns(self, tool: str | None) -> bool:
        """Whether it looks at the results of this tool; None is the answer."""
        if tool is None:
            return self.on != "results"
        return self.on != "answer" and (not self.tools or tool in self.tools)


class HandoffRules:
    """The rules of a worker, in the order in which they are asked; the first that holds counts."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        telemetry: Telemetry,
        redact: Callable[[str], str] = str,
    ) -> None:
        # Functions last: they cost more, and what is found without them need not be asked.
        self.rules = sorted(rules, key=lambda rule: rule.function is not None)
        self._telemetry = telemetry
        self._redact = redact
        self._runner = Runner("handoff-rules", None, grace=0.0, limit=RULE_THREADS)

    def __repr__(self) -> str:
        return f"HandoffRules({', '.join(rule.name for rule in self.rules)})"

    async def of_answer(self, text: str, *, at: float, broken: set[str]) -> HandedOff | None:
        """Hold an answer against the rules; `broken` takes the names of those that failed.

        Cancelled: what a function goes on doing is dropped.
        """
        if not self.rules:
            return None
        found = await self._judge(text, None, broken)
        return found and HandedOff(at, *found)

    async def of_result(
        self, call: ToolCall, observation: Observation, *, at: float, broken: set[str]
    ) -> HandedOff | None:
        """Hold the result of a call against the rules: what the model would read, or the stub.

        A call that was not made has no result. Cancelled: as `of_answer`.
        """
        if not self.rules or call.problem is not None or observation.source in _SAYS_NOTHING:
            return None
        text = observation.content if observation.stub is None else observation.stub
        found = await self._judge(text, call.name, broken)
        return found and HandedOff(at, *found, source="result", call_id=call.id)

    def close(self) -> None:
        """Let idle threads go."""
        self._runner.close()

    async def _judge(self, text: str, tool: str | None, broken: set[str]) -> tuple[str, str] | None:
        """The name of the first rule that holds, and its reason."""
        plain: str | None = None
        for rule in self.rules:
            if not rule.concerns(tool):
                continue
            reason = rule.reason
            if rule.text is not None:
                plain = flat(text) if plain is None else plain
                if rule.text not in plain:
                    continue
            elif rule.pattern is not None:
                if not rule.pattern(text):
                    continue
            elif rule.function is not None:
                said = await self._ask(rule.function, text, tool, broken)
                if said is None:
                    continue
                reason = reason or said
            return rule.name, self._redact(reason or rule.name)[:REASON_CHARS_MAX]
        return None

    async def _ask(
        self, rule: FunctionRule, text: str, tool: str | None, broken: set[str]
    ) -> str | None:
        source = "answer" if tool is None else f"tool:{tool}"

        def asked(_: AttemptInfo) -> str | None:
            return rule.judge(text, source)

        try:
            said: str | None = await self._runner.run(
                asked, AttemptInfo(1, timeout_seconds=RULE_SECONDS)
            )
        except Exception as error:
            broken.add(rule.name)
            self._telemetry.tell(RuleBroken(rule.name, source, type(error).__name__, _words(error)))
            return None
        return said


def rules_of(said: Mapping[str, HandoffRule], registry: Registry) -> list[Rule]:
    """The rules in force: those of the settings, and the functions of tool files beside them.

    Raises ConfigError naming the setting for a rule that looks for nothing, for two things, or by
    a pattern that cannot be taken, and for a tool that is not there.
    """
    functions = {rule.name: rule for rule in registry.rules}
    # A variable has no lower case: LEGAL may mean a function called legal, or Legal.
    known = {name.lower(): name for name in functions}
    found: dict[str, Rule] = {}
    for name, rule in said.items():
        function = functions.get(name) or functions.get(known.get(name.lower(), ""))
        where = f"LOOPWORKER_HANDOFF__{name.upper()}"
        made = _made(name, rule, function, where)
        _check_tools(made, registry, f"{where}__TOOLS")
        if rule.enabled:
            found[made.name] = made
        elif function is not None:
            del functions[function.name]
    for function in functions.values():
        if function.name not in found:
            found[function.name] = _of_function(function, HandoffRule())
        where = f"{function.place}: hand-off rule {function.name!r}"
        _check_tools(found[function.name], registry, where)
    if len(found) > RULES_MAX:
        raise ConfigError(f"LOOPWORKER_HANDOFF: {len(found)} rules, at most {RULES_MAX} are taken")
    return list(found.values())


def broken_rule(name: str) -> Symptom:
    """What the result of a run says of a rule that could not be asked."""
    hint = f"the hand-off rule {name} could not be asked; the log says why (handoff.rule_broken)"
    return Symptom("broken_rule", hint)


def flat(text: str) -> str:
    """A text as rules compare it: no case, and full-width letters like others."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _made(name: str, rule: HandoffRule, function: FunctionRule | None, where: str) -> Rule:
    if RULE_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: a rule's name is made of at most 64 letters, digits, - and _")
    if function is not None:
        if rule.text is not None or rule.pattern is not None:
            raise ConfigError(
                f"{where}: {function.place} has a rule of that name; give this one another"
            )
        return _of_function(function, rule)
    if (rule.text is None) == (rule.pattern is None):
        what = "neither TEXT nor PATTERN" if rule.text is None else "both TEXT and PATTERN"
        raise ConfigError(f"{where}: names {what}; a rule has one of them")
    looked_for = rule.text or rule.pattern or ""
    if not looked_for.strip():
        raise ConfigError(f"{where}: {looked_for!r} is blank, and would be found nearly everywhere")
    pattern = rule.pattern and compile_pattern(rule.pattern, where=f"{where}__PATTERN")
    return Rule(
        name,
        rule.on or "both",
        frozenset(rule.tools),
        f"{'text' if rule.text else 'pattern'} {looked_for!r}",
        reason=rule.reason or rule.text or name,  # a pattern is for operators, not for askers
        text=None if rule.text is None else flat(rule.text),
        pattern=pattern or None,
    )


def _check_tools(rule: Rule, registry: Registry, where: str) -> None:
    for tool in sorted(each for each in rule.tools if each not in registry):
        known = ", ".join(registry.names) or "none"
        raise ConfigError(f"{where}: there is no tool {tool!r}; there are: {known}")


def _of_function(function: FunctionRule, rule: HandoffRule) -> Rule:
    return Rule(
        function.name,
        rule.on or function.on,
        frozenset(rule.tools or function.tools),
        function.place,
        reason=rule.reason,
        function=function,
    )


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # a foreign __str__ may do anything
        return ""

"""Every sentence that a user or a model reads, Chinese and English side by side."""

from __future__ import annotations

import re

_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_READ_CHARS = 20_000
# What a sentence of each language can hardly do without.
_FRAME = re.compile(
    r"\b(?:the|a|an|is|are|was|what|what's|who|how|when|where|which|why|of|in|to|for|and|please|does"
    r"|do|did|can|could|would|with|from|my|me|about|tell|give|find)\b",
    re.IGNORECASE,
)
_CHINESE_FRAME = re.compile(
    r"[的了吗呢吧是我你您他她请查帮给把和在有不多几怎什哪谁么这那就也都还要能会]"
)

SYSTEM_PROMPT = {
    "zh": (
        "你是一个可靠的助手。凡是涉及外部事实(时间、价格、订单、网页等),必须先调用提供的工具,"
        "不得凭记忆回答,更不得编造。工具返回错误时,按提示修正参数或换一种方式;没有结果就说没有找到;"
        "工具暂不可用时如实说明,不要猜测数值。已经得到的结果不要再次查询。"
        "信息足够后,立即用中文直接给出答案。"
    ),
    "en": (
        "You are a reliable assistant. For anything about the outside world (time, prices, orders, "
        "web pages …) call the tools you are given first; never answer from memory, and never make "
        "facts up. When a tool returns an error, correct the arguments or try another way; when it "
        "finds nothing, say so; when it is unavailable, say so and do not guess values. Do not ask "
        "again for what you have been told. Once you know enough, answer directly and at once, in "
        "the language of the question."
    ),
}
SYSTEM_PROMPT_WITHOUT_TOOLS = {
    "zh": (
        "你是一个可靠的助手。你没有任何工具:需要查询外部事实(时间、价格、订单、网页等)的部分,"
        "如实说明无法得知,不得编造。用中文直接给出答案。"
    ),
    "en": (
        "You are a reliable assistant. You have no tools: where a fact about the outside world would "
        "have to be looked up (time, prices, orders, web pages …), say that you cannot know it; "
        "never make facts up. Answer directly, in the language of the question."
    ),
}
LAST_STEP = {
    "zh": "[这是最后一步:不能再调用工具。请用已有的信息直接回答;缺少的部分请如实说明。]",
    "en": (
        "[This is the last step: no more tool calls. Answer now with what you have, and say what "
        "is missing.]"
    ),
}
STEPS_LEFT = {
    "zh": "[还剩 {left} 步。]",
    "en": "[{left} steps left.]",
}
BUDGET_LEFT = {
    "zh": "[预算约剩 {percent}%:请尽快给出答案。]",
    "en": "[About {percent}% of the budget is left: answer soon.]",
}
TIME_LEFT = {
    "zh": "[约剩 {seconds} 秒:请尽快给出答案。]",
    "en": "[About {seconds} s are left: answer soon.]",
}
REPEATED_CALL = {
    "zh": "[同样的调用已经得到同样的结果 {count} 次。不要再重复;请换一种方式或直接回答。]",
    "en": (
        "[The same call has returned the same result {count} times. Do not repeat it; try "
        "something else or answer.]"
    ),
}
NUDGE = {
    "zh": "上一次回复是空的。请直接回答问题,或调用合适的工具。",
    "en": "Your last reply was empty. Answer the question, or call a fitting tool.",
}
SKIPPED = {
    "zh": "未执行:已到最后一步,请直接用已有的信息回答。",
    "en": "Not run: this was the last step; answer with what you have.",
}
TOO_MANY_CALLS = {
    "zh": "未执行:一次回复中的调用太多(上限 {limit})。",
    "en": "Not run: too many calls in one reply (limit {limit}).",
}
NO_OUTPUT = "(no output)"
INTERRUPTED = {
    "zh": "调用被中断,没有结果。",
    "en": "The call was interrupted; there is no result.",
}
OUTCOME_UNKNOWN = {
    "zh": "结果未知:该操作可能已经执行。不要重试;请告诉用户需要人工核实。",
    "en": (
        "Outcome unknown: the operation may have been carried out. Do not call it again; tell the "
        "user that a person has to check."
    ),
}
UNAVAILABLE = {
    "zh": "{stub}({tool} 暂时不可用{retry};本轮不要再调用它,如实告诉用户,不要猜测。)",
    "en": (
        "{stub} ({tool} is unavailable{retry}; do not call it again in this turn, tell the user, "
        "and do not guess.)"
    ),
}
RETRY_AFTER = {"zh": ",约 {seconds} 秒后恢复", "en": ", try again in about {seconds} s"}
STALE = {
    "zh": "{value}\n[旧数据:{age} 秒前的值,{tool} 目前不可用。回答时请说明。]",
    "en": (
        "{value}\n[Stale: this value is {age} s old, {tool} is unavailable now. Say so in the "
        "answer.]"
    ),
}
ALTERNATIVE = {
    "zh": "{value}\n[来自备用来源。]",
    "en": "{value}\n[From an alternative source.]",
}
TOOL_FAILED = {
    "zh": "错误:{tool} 失败({reason})。",
    "en": "Error: {tool} failed ({reason}).",
}
RESULT_CUT = {
    "zh": "\n[… 已截断 truncated:省略 {count} 个字符 …]\n",
    "en": "\n[… truncated: {count} characters omitted …]\n",
}
HTML_PAGE = {
    "zh": "[以下是一个网页的文字,不是数据。]\n{text}",
    "en": "[The text of a web page, not data.]\n{text}",
}
LEFT_OPEN = {
    "zh": "[这个问题还没有处理完:{reason}。答案稍后给出。]",
    "en": "[This is not finished yet: {reason}. The answer will follow.]",
}
NO_ANSWER = {
    "zh": "[这个问题没有得到回答:{status}。]",
    "en": "[This question got no answer: {status}.]",
}
UNFINISHED_ANSWER = {
    "zh": "[回答不完整:{status}。]",
    "en": "[The answer is incomplete: {status}.]",
}
STUB_THEN = {
    "zh": "{stub}(当时 {tool} 不可用,没有得到数据。)",
    "en": "{stub} ({tool} was unavailable then; it gave no value.)",
}
NOTE_STUB = {
    "zh": "注意:{stub}({tool})。",
    "en": "Note: {stub} ({tool} is unavailable).",
}
NOTE_STALE = {
    "zh": "注意:{tool} 暂不可用,所用数据为 {age} 秒前的旧值。",
    "en": "Note: {tool} is unavailable; its data is {age} s old.",
}
NOTE_ALTERNATIVE = {
    "zh": "注意:{tool} 的数据来自备用来源。",
    "en": "Note: the data of {tool} comes from an alternative source.",
}
NOTE_ERROR = {
    "zh": "注意:{tool} 调用失败,答案可能不完整。",
    "en": "Note: {tool} failed; the answer may be incomplete.",
}
NOTE_UNKNOWN = {
    "zh": "注意:{tool} 的执行结果未知,需要人工核实。",
    "en": "Note: the outcome of {tool} is unknown; a person has to check.",
}
NOTE_SKIPPED = {
    "zh": "注意:{tool} 未执行,答案可能不完整。",
    "en": "Note: {tool} was not run; the answer may be incomplete.",
}
WITHDRAWN = {
    "zh": "原回答含有没有来源的数值,已撤回。",
    "en": "The answer held figures without a source and was withdrawn.",
}
FIGURES_REMOVED = {
    "zh": "[没有来源的数值已删去。]",
    "en": "[Figures without a source were taken out.]",
}
HANDED_OFF = {
    "zh": "这个问题需要人工处理,已转交人工。",
    "en": "This needs a person; it has been handed over to one.",
}
NO_INFORMATION = {"zh": "未找到相关信息", "en": "No relevant information was found."}

APPROVAL_DENIED = {
    "zh": "未执行:{tool} 没有得到批准。不要再次调用;请如实告诉用户。",
    "en": "Not run: {tool} was denied by a person. Do not call it again; tell the user.",
}
APPROVAL_EXPIRED = {
    "zh": "未执行:{tool} 需要人工批准,但在期限内没有得到。不要再次调用;请如实告诉用户。",
    "en": (
        "Not run: {tool} needs the approval of a person, and did not get it in time. Do not call "
        "it again; tell the user."
    ),
}
JOB_LATE = {
    "zh": (
        "{tool} 启动的任务在 {minutes} 分钟内没有返回结果,可能仍在进行。不要再次启动,不要猜测结果;"
        "请如实告诉用户。"
    ),
    "en": (
        "The job that {tool} began did not report within {minutes} minutes; it may still be going "
        "on. Do not begin it again and do not guess its result; tell the user."
    ),
}

DEFAULT_STUB = {"zh": "{tool} 暂不可用", "en": "{tool} is unavailable"}
TOOL_BACK = {
    "zh": "[{tool} 已恢复,可以调用。]",
    "en": "[{tool} is available again and may be called.]",
}

PROGRESS_STARTED = {"zh": "开始处理", "en": "Started"}
PROGRESS_TOOL = {"zh": "正在调用 {tool}…", "en": "Calling {tool} …"}
PROGRESS_DEGRADED = {"zh": "{tool} 已降级:{reason}", "en": "{tool} degraded: {reason}"}
PROGRESS_ERROR = {"zh": "{tool} 返回错误:{reason}", "en": "{tool} returned an error: {reason}"}
PROGRESS_AWAY = {
    "zh": "暂不提供:{tools}",
    "en": "Not offered for now: {tools}",
}
PROGRESS_BACK = {"zh": "所有工具都已恢复", "en": "All tools are back"}
PROGRESS_RESUMED = {
    "zh": "重新接手(第 {delivery} 次投递)",
    "en": "Taken up again (delivery {delivery})",
}
PROGRESS_DONE = {"zh": "{tool} 已返回", "en": "{tool} returned"}
PROGRESS_MODEL_FAILED = {"zh": "模型调用失败:{status}", "en": "The model call failed: {status}"}
PROGRESS_STEPS = {"zh": "步数上限改为 {steps}", "en": "The run may take {steps} steps now"}
PROGRESS_SHORTENED = {
    "zh": "对话太长,只保留最近 {turns} 轮",
    "en": "The conversation is too long for the model; it is told the last {turns} turns",
}
PROGRESS_HANDED_OFF = {"zh": "转交人工:{reason}", "en": "Handed over to a person: {reason}"}
PROGRESS_PARKED = {"zh": "等待中:{reason}", "en": "Waiting: {reason}"}
PARKED_FOR = {
    "zh": {"approval": "需要有人批准", "job": "作业的结果"},
    "en": {"approval": "a person has to approve", "job": "the result of a job"},
}
PROGRESS_ASKED = {"zh": "{tool} 需要有人批准", "en": "{tool} needs an approval"}
PROGRESS_APPROVED = {"zh": "{tool} 已由 {by} 批准", "en": "{tool} was approved by {by}"}
PROGRESS_DENIED = {"zh": "{tool} 被 {by} 拒绝", "en": "{tool} was denied by {by}"}
PROGRESS_JOB = {"zh": "{tool} 已开始作业", "en": "{tool} began a job"}
PROGRESS_ENDED = {"zh": "结束,没有答案:{status}", "en": "Ended without an answer: {status}"}


def language_of(text: str) -> str:
    """Tell the language of a question: `zh` when it holds a Chinese character, else `en`.

    An English sentence that names something in Chinese ("the weather in 北京") stays English.
    """
    if not _CJK.search(text):
        return "en"
    text = text[:_READ_CHARS]
    frame = _FRAME.findall(text)
    names = len(_CJK.findall(text))
    is_english = text.lstrip()[:1].isascii() and len(frame) >= 2 and names <= 2 * len(frame)
    return "en" if is_english and not _CHINESE_FRAME.search(text) else "zh"


def shortened(text: str, *, max_chars: int, language: str = "en") -> str:
    """Keep the head (three quarters) and the tail, and say between them how much is missing."""
    if len(text) <= max_chars:
        return text
    pattern = RESULT_CUT.get(language, RESULT_CUT["en"])
    room = max_chars - len(pattern.format(count=len(text)))
    if room < 8:  # no room for a marker; a limit this small is only met in tests
        return text[: max(1, max_chars)]
    head = room * 3 // 4
    tail = room - head
    return text[:head] + pattern.format(count=len(text) - room) + text[-tail:]

"""Which tools a run is not offered, and what is told of them."""

from __future__ import annotations

import pytest

from tests.core.fitting_cases import TOOLS
from worker.core import gate
from worker.core.effects import CallModel, CallTools
from worker.core.errors import IllegalEvent
from worker.core.events import Away, ModelReplied, Started, ToolReturned, ToolsChanged, ToolStarted
from worker.core.fitting import words_of
from worker.core.gate import Evidence, check, with_suspects
from worker.core.limits import Limits
from worker.core.loop import Loop
from worker.core.messages import Observation, Source, ToolCall
from worker.core.offering import Offering, concerning
from worker.core.transcript import Transcript
from worker.model.scripted import answer, calls

NOW = 1_790_000_000.0
QUOTE = Away("get_stock_price", "breaker_open", "行情暂不可用", 12.0)
STUB = Observation("…", Source.STUB, reason="breaker_open", stub="行情暂不可用")
LIVE = Observation("AAPL 227.52", Source.LIVE)
WORDS = words_of(TOOLS.values())


def changed(*away, at=NOW):
    """The fact that these tools are away."""
    return ToolsChanged(at, away)


def call(name="get_stock_price", call_id="c1"):
    """A call of a tool."""
    return ToolCall(call_id, name, {"symbol": "AAPL"})


# --- what is offered and told --------------------------------------------------------------------


def test_a_withdrawn_tool_is_told_once_with_its_stub_and_the_time_left():
    """Only a change is told: a request that begins like the one before is cheaper."""
    offering = Offering()

    (told,) = offering.apply(changed(QUOTE), "zh")

    assert "行情暂不可用" in told and "12 秒" in told and "get_stock_price" in told
    assert offering.withheld == {"get_stock_price"}
    later = Away("get_stock_price", "breaker_open", "行情暂不可用", 3.0)
    assert offering.change([later], NOW) is None
    assert offering.apply(changed(later), "zh") == []


def test_a_tool_without_a_stub_text_is_told_by_its_name():
    """The author need not have declared anything."""
    (told,) = Offering().apply(changed(Away("orders", "forced_open")), "en")

    assert told.startswith("orders is unavailable (orders is unavailable;")


def test_a_tool_comes_back_and_that_is_told():
    """A breaker that lets calls through again is a change."""
    offering = Offering()
    offering.apply(changed(QUOTE), "en")

    change = offering.change([], NOW)

    assert change == changed()
    assert offering.apply(change, "en") == [
        "[get_stock_price is available again and may be called.]"
    ]
    assert offering.withheld == frozenset()


def test_a_tool_that_may_still_give_something_better_stays():
    """An old value or another source is worth a call; nothing is told."""
    offering = Offering()

    assert offering.apply(changed(Away("quote", "breaker_open", offered=True)), "en") == []
    assert offering.withheld == frozenset()


def test_after_two_stubs_a_tool_is_out_of_the_run_for_good():
    """A breaker that closes does not bring it back, and nobody says so."""
    offering = Offering()
    offering.observe(call(), STUB)
    assert offering.withheld == frozenset()
    offering.observe(call(), STUB)

    assert offering.withheld == {"get_stock_price"}
    offering.apply(changed(QUOTE), "en")
    assert offering.apply(changed(), "en") == []
    assert offering.withheld == {"get_stock_price"}


def test_live_results_take_nothing_back():
    """Two stubs count, whatever came in between; the results of others do not."""
    offering = Offering()
    for observation in (STUB, LIVE, STUB):
        offering.observe(call(), observation)
        offering.observe(call("clock"), LIVE)

    assert offering.withheld == {"get_stock_price"}


# --- a call all the same -------------------------------------------------------------------------


def test_a_call_of_a_withdrawn_tool_reads_a_structured_refusal():
    """The stub, the reason, the time left; a call of another tool is none of our business."""
    offering = Offering()
    offering.apply(changed(QUOTE), "zh")

    told = offering.answer(call(), "zh")

    assert (told.source, told.reason, told.status_code) == (Source.STUB, "breaker_open", 503)
    assert (told.stub, told.retry_after_seconds) == ("行情暂不可用", 12.0)
    assert "不要再调用" in told.content
    assert offering.answer(call("clock"), "zh") is None


def test_a_call_after_two_stubs_reads_the_last_one_again():
    """Its breaker may have closed, but in this run the tool is spent."""
    offering = Offering()
    offering.observe(call(), STUB)
    newer = Observation("newer", Source.STUB, stub="行情暂不可用", attempts=3, duration_seconds=2.0)
    offering.observe(call(), newer)

    told = offering.answer(call(), "zh")

    assert (told.content, told.attempts, told.duration_seconds) == ("newer", 0, 0.0)


# --- what the answer must say --------------------------------------------------------------------


def asked(question, *away, history=(), called=()):
    """The tools that are away, with what the question has to do with them."""
    return concerning(
        away, question=question, history=history, words=WORDS, called=frozenset(called)
    )


@pytest.mark.parametrize(
    ("question", "called", "concerns"),
    [
        ("苹果现在的股价是多少?", (), True),
        ("现在几点了?", (), False),
        ("现在几点了?", ("get_stock_price",), True),
        ("hello", (), False),
    ],
)
def test_a_question_concerns_a_tool_by_its_words_or_by_the_calls_so_far(question, called, concerns):
    """A run that asked the tool already is about it, whatever its words are."""
    (each,) = asked(question, QUOTE, called=called)

    assert each.concerns is concerns


def test_a_short_follow_up_is_about_what_the_turn_before_was_about():
    """Asked "and Microsoft?", the model would have called the same tool again."""
    message = calls(("get_stock_price", {"symbol": "AAPL"})).message
    history = [{"role": "user", "content": "股价?"}, message]

    assert asked("微软呢?", QUOTE, history=history)[0].concerns
    older = [*history, {"role": "user", "content": "谢谢"}]
    assert not asked("微软呢?", QUOTE, history=older)[0].concerns


def test_every_missed_tool_degrades_and_the_concerned_one_has_to_be_said():
    """`skipped` with its reason in the manifest; the note only where the question is about it."""
    offering = Offering()
    other = Away("track_parcel", "forced_open")
    offering.apply(changed(*asked("苹果的股价?", QUOTE, other)), "zh")

    rows = dict(offering.skipped("zh"))

    assert {name: (o.source, o.reason) for name, o in rows.items()} == {
        "get_stock_price": (Source.SKIPPED, "breaker_open"),
        "track_parcel": (Source.SKIPPED, "forced_open"),
    }
    assert [name for name, _ in offering.unsaid("zh")] == ["get_stock_price"]


def test_a_tool_that_came_back_and_answered_is_not_missed():
    """The run lacks nothing then."""
    offering = Offering()
    offering.apply(changed(*asked("苹果的股价?", QUOTE)), "zh")
    offering.apply(changed(), "zh")
    assert offering.skipped("zh") != []

    offering.observe(call(), LIVE)

    assert offering.skipped("zh") == []


def test_a_tool_that_is_about_the_same_speaks_for_the_one_that_is_away():
    """What was asked for has been found out elsewhere: no sentence about it, but the manifest."""
    offering = Offering()
    each = Away("get_stock_price", "breaker_open", "-", concerns=True, instead=("quote_b",))
    offering.apply(changed(each), "en")
    assert len(offering.unsaid("en")) == 1

    offering.observe(call("quote_b"), LIVE)

    assert offering.unsaid("en") == []
    assert len(offering.skipped("en")) == 1


def test_a_stub_that_was_given_is_not_told_twice():
    """Its own row speaks for the tool."""
    offering = Offering()
    offering.apply(changed(*asked("苹果的股价?", QUOTE)), "zh")
    offering.observe(call(), STUB)

    assert offering.skipped("zh") == []


def test_a_tool_that_stays_on_offer_counts_as_missed_only_where_it_was_needed_and_not_called():
    """It could have given an old value; a question about something else lacks nothing."""
    offering = Offering()
    stays = Away("get_stock_price", "breaker_open", offered=True)
    offering.apply(changed(*asked("现在几点?", stays)), "zh")
    assert offering.skipped("zh") == []

    offering.apply(changed(*asked("苹果的股价?", stays)), "zh")

    assert len(offering.skipped("zh")) == 1


@pytest.mark.parametrize(
    ("question", "said", "is_suspect"),
    [
        ("你觉得呢?", "AAPL 的股价是 123.45 元。", True),
        ("你觉得呢?", "大约 ¥123.45。", True),
        ("你觉得呢?", "我觉得不错。", False),
        ("你觉得呢?", "一共有 8848 座山。", False),
        ("你觉得呢?", "股价我没有查。一共有 8848 座山。", False),
        ("你觉得呢?", "一共有 8848 座山。AAPL 的股价是 123.45 元。", True),
        ("翻译成英文:股价是 123.45", "The price is 99.", False),
    ],
)
def test_a_figure_about_a_missed_tool_is_gated_even_where_the_question_gave_no_hint(
    question, said, is_suspect
):
    """A sentence that is about what the tool tells, with a figure from nowhere, is an invention."""
    offering = Offering()
    offering.apply(changed(QUOTE), "zh")
    evidence = Evidence(question, [], language="zh")

    found = with_suspects(evidence, said, offering.skipped("zh"), WORDS)

    assert [name for name, _ in found.observed] == (["get_stock_price"] if is_suspect else [])


def test_what_was_told_is_read_once_however_long_the_answer(monkeypatch):
    """Reading it takes time on the event loop, so no sentence of the answer begins it anew."""
    read = []

    def counting(answer, **told):
        read.append(answer)
        return check(answer, **told)

    monkeypatch.setattr(gate, "check", counting)
    offering = Offering()
    offering.apply(changed(QUOTE), "zh")
    answer = "AAPL 的股价是 123.45 元。" * 50

    with_suspects(Evidence("你觉得呢?", [], language="zh"), answer, offering.skipped("zh"), WORDS)

    assert read == [answer]


# --- in the loop ---------------------------------------------------------------------------------


def begun(*events):
    """A run about a share price that these events follow."""
    task = {"id": "t", "input": "苹果的股价?"}
    tools = ("get_stock_price", "clock")
    started = Started(NOW, task, 8, "fixed", "You are …", tools, "zh")
    return Loop.replay(Limits(), [started, *events])


def test_a_request_names_what_is_withheld_and_a_replay_decides_the_same():
    """The facts are in the journal: nobody has to ask the breakers again."""
    events = [
        changed(QUOTE),
        ModelReplied(NOW, calls(("get_stock_price", {}))),
        ToolReturned(NOW, "c1", STUB),
        changed(),
        ModelReplied(NOW, calls(ToolCall("c2", "get_stock_price", {}))),
        ToolReturned(NOW, "c2", STUB),
    ]
    seen = [begun(*events[:n]).next(NOW) for n in range(len(events) + 1)]
    withheld = [effect.withheld for effect in seen if isinstance(effect, CallModel)]

    assert withheld == [set(), {"get_stock_price"}, {"get_stock_price"}, set(), {"get_stock_price"}]


def test_calls_of_withdrawn_tools_are_answered_and_the_others_made():
    """In one reply: nothing of the withdrawn one runs."""
    asked_both = calls(("get_stock_price", {}), ("clock", {}))

    effect = begun(changed(QUOTE), ModelReplied(NOW, asked_both)).next(NOW)

    assert isinstance(effect, CallTools)
    assert [c.name for c in effect.calls] == ["clock"]
    assert [(c.name, o.source) for c, o in effect.answered] == [("get_stock_price", Source.STUB)]


def test_a_call_whose_effect_may_have_happened_is_left_to_its_end():
    """It began before; that it was withdrawn since must not hide what became of it."""
    events = [
        changed(QUOTE),
        ModelReplied(NOW, calls(("get_stock_price", {}))),
        ToolStarted(NOW, "c1", "key"),
    ]

    effect = begun(*events).next(NOW)

    assert [c.id for c in effect.calls] == ["c1"]
    assert effect.answered == ()


def test_tools_do_not_change_while_calls_wait():
    """The model is told with a request; between a reply and its results there is none."""
    loop = begun(ModelReplied(NOW, calls(("clock", {}))))

    with pytest.raises(IllegalEvent, match="ToolsChanged"):
        loop.apply(changed(QUOTE))


def test_what_is_told_of_a_tool_stays_told():
    """In the system message before the first result, then on the last one: no request takes it
    back."""
    transcript = Transcript("You are …", [], "question")
    transcript.note("first away", lasting=True)
    reply = calls(("clock", {}))
    first = transcript.messages()
    transcript.turn(reply.message)
    transcript.result(reply.calls[0], LIVE)
    transcript.note("second away", lasting=True)
    second = transcript.messages()
    transcript.turn(answer("-").message)
    third = transcript.messages()

    assert [m.body for m in second[:2]] == [m.body for m in first]
    assert [m.body for m in third[:4]] == [m.body for m in second]
    assert first[0].body["content"].endswith("first away")
    assert second[3].body["content"].endswith("second away")

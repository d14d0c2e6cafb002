"""Calls that wait for a person or for a job: what runs, what waits, what ends the waiting."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_loop import NOW, answer, bodies, call, calling, replay, returned, started
from worker.core.digest import arguments_hash
from worker.core.effects import CallModel, CallTools, Finish, Park
from worker.core.ending import result_of
from worker.core.errors import IllegalEvent
from worker.core.events import (
    ApprovalAsked,
    Decided,
    JobPolled,
    JobStarted,
    Parked,
    Resumed,
    ToolReturned,
    ToolStarted,
)
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Source

HASH = arguments_hash({})


def asked(call_id="c1", until=NOW + 100, digest=HASH):
    """A call that waits for a person."""
    return ApprovalAsked(NOW, call_id, digest, until)


def decided(call_id="c1", approved=True, digest=HASH, **more):
    """What the person said."""
    return Decided(NOW, call_id, approved, digest, by="ann", **more)


def job(call_id="c1", until=NOW + 100, **more):
    """A job under way."""
    return JobStarted(NOW, call_id, f"job of {call_id}", until, **more)


def told(effect, number=0):
    """The observation that an effect answers a call with, and the error in it."""
    assert isinstance(effect, CallTools)
    observation = effect.answered[number][1]
    return observation, json.loads(observation.content)["error"]


def test_parks_until_a_person_decides():
    """A call that was asked about is not run; the run lets go until the asking is over."""
    loop = replay(started(), calling(call()), asked())

    assert loop.next(NOW) == Park("approval", NOW + 100, "c1")


def test_an_approved_call_runs():
    """Allowed, it is called as any other, and marked as allowed."""
    loop = replay(started(), calling(call()), asked(), decided())

    effect = loop.next(NOW)
    assert (effect.calls, effect.approved, effect.answered) == ((call(),), {"c1"}, ())


def test_a_denied_call_is_never_run():
    """The model reads that it was denied, and why; the result says that it was not run."""
    loop = replay(
        started(), calling(call()), asked(), decided(approved=False, why="not our customer")
    )

    observation, error = told(loop.next(NOW))
    assert (observation.source, observation.reason) == (Source.SKIPPED, "approval_denied")
    assert observation.status_code == 403
    assert error["reason"] == "not our customer"
    loop.apply(ToolReturned(NOW, "c1", observation))
    assert isinstance(loop.next(NOW), CallModel)
    result = result_of(loop, Finish(Status.COMPLETED, "ok"), ended_at=NOW)
    assert [(d.tool, d.source, d.reason) for d in result.degraded] == [
        ("price", "skipped", "approval_denied")
    ]


@pytest.mark.parametrize(("question", "words"), [("退款", "没有得到批准"), ("refund", "denied")])
def test_the_words_follow_the_question(question, words):
    """A denial is told in the language of the question."""
    language = "zh" if question == "退款" else "en"
    loop = replay(
        started(question, language=language), calling(call()), asked(), decided(approved=False)
    )

    assert words in told(loop.next(NOW))[1]["message"]


def test_the_reason_of_a_denial_is_bounded():
    """A person may paste a whole mail; the model needs its beginning."""
    loop = replay(started(), calling(call()), asked(), decided(approved=False, why="w" * 10_000))

    assert told(loop.next(NOW))[1]["reason"] == "w" * 500


def test_nobody_decides():
    """When the asking is over the call counts as not run, with that reason."""
    loop = replay(started(), calling(call()), asked())

    assert told(loop.next(NOW + 100))[0].reason == "approval_expired"


def test_an_approval_is_used_in_time_or_not_at_all():
    """An approval that lay too long does not run what was allowed then."""
    loop = replay(started(), calling(call()), asked(), decided(expires_at=NOW + 50))

    assert loop.next(NOW + 49).calls == (call(),)
    assert told(loop.next(NOW + 50))[0].reason == "approval_expired"


def test_a_decision_about_other_arguments_counts_for_nothing():
    """A decision is bound to the digest of what was asked about."""
    loop = replay(started(), calling(call()), asked(), decided(digest=arguments_hash({"n": 2})))

    assert isinstance(loop.next(NOW), Park)


def test_a_call_in_doubt_has_used_its_approval():
    """Begun before a crash, it is in doubt as any write, however old the approval is by now."""
    loop = replay(
        started(),
        calling(call()),
        asked(),
        decided(expires_at=NOW + 50),
        ToolStarted(NOW, "c1", "key"),
    )

    effect = loop.next(NOW + 1000)
    assert (effect.calls, effect.in_doubt) == ((call(),), {"c1"})


def test_parks_until_a_job_reports():
    """A job that nobody can ask for is waited for until its time is over."""
    loop = replay(started(), calling(call()), ToolStarted(NOW, "c1", "key"), job())

    assert loop.next(NOW) == Park("job", NOW + 100, "c1")
    loop.apply(returned("c1", "the report"))
    assert bodies(loop.next(NOW))[-1]["content"] == "the report"


@pytest.mark.parametrize(
    ("effect", "source"), [("write", Source.UNKNOWN), ("idempotent", Source.ERROR)]
)
def test_a_job_that_never_reports(effect, source):
    """The model is told that it did not report; of a write nobody knows what it has changed."""
    loop = replay(started(), calling(call()), job(effect=effect))

    observation, error = told(loop.next(NOW + 100))
    assert (observation.source, observation.error_type) == (source, "timeout")
    assert observation.dependency_failed
    assert error["type"] == "job_expired"
    assert "2 minutes" in error["message"]


def test_a_job_is_asked_for():
    """A tool that can be asked is asked at the time it named, again and once more at the end."""
    loop = replay(started(), calling(call()), job(poll_at=NOW + 30))

    assert loop.next(NOW) == Park("job", NOW + 30, "c1")
    assert loop.next(NOW + 30).polls == ((call(), job(poll_at=NOW + 30)),)
    loop.apply(JobPolled(NOW + 30, "c1", NOW + 100))
    assert loop.next(NOW + 99) == Park("job", NOW + 100, "c1")
    assert [c.id for c, _ in loop.next(NOW + 200).polls] == ["c1"]
    loop.apply(JobPolled(NOW + 200, "c1", None))
    assert told(loop.next(NOW + 200))[0].reason == "job_expired"


def test_what_can_run_runs_before_the_run_parks():
    """Of one reply the ready calls are made; then it parks until the first of the others is due."""
    calls = [call(f"c{n}") for n in range(4)]
    loop = replay(
        started(),
        calling(*calls),
        asked("c0"),
        job("c1", until=NOW + 60),
        job("c2", until=NOW + 300, poll_at=NOW + 80),
    )

    assert [c.id for c in loop.next(NOW).calls] == ["c3"]
    loop.apply(returned("c3"))
    assert loop.next(NOW) == Park("approval", NOW + 60)
    loop.apply(returned("c1"))
    assert loop.next(NOW) == Park("approval", NOW + 80)
    loop.apply(decided("c0"))
    assert [c.id for c in loop.next(NOW).calls] == ["c0"]
    loop.apply(returned("c0"))
    assert loop.next(NOW) == Park("job", NOW + 80, "c2")
    loop.apply(returned("c2", "last"))
    assert [m["content"] for m in bodies(loop.next(NOW))[-4:]] == [
        *["12.50"] * 2,
        *["last", "12.50"],
    ]


def test_the_same_id_in_a_later_reply_is_asked_about_anew():
    """Models repeat their ids: a decision counts for the call that it was made about, once."""
    loop = replay(started(), calling(call()), asked(), decided(), returned())
    loop.apply(calling(call()))

    assert loop.next(NOW).approved == frozenset()
    loop.apply(asked())
    assert isinstance(loop.next(NOW), Park)


@pytest.mark.parametrize(
    "events",
    [
        [asked(), asked()],
        [asked(), decided(), decided(approved=False)],
        [job(), job()],
        [JobPolled(NOW, "c1", None)],
        [asked("unknown")],
        [decided("unknown")],
        [returned("c1"), asked("c1")],
        [returned("c1"), job("c1")],
    ],
)
def test_contradictions_are_refused(events):
    """A call is asked about once, decided once, begins one job; and leaves the state alone."""
    loop = replay(started(), calling(call(), call("c2")), *events[:-1])
    before = loop.next(NOW)

    with pytest.raises(IllegalEvent):
        loop.apply(events[-1])
    assert loop.next(NOW) == before


def test_the_deadline_of_the_task_ends_the_waiting():
    """A task that names its end does not wait beyond it; the calls count as skipped."""
    task = {"id": "t1", "input": "hello", "deadline": "2026-12-02T10:00:00Z"}
    loop = replay(started(task=task, deadline=NOW + 40), calling(call()), asked())

    assert loop.next(NOW) == Park("approval", NOW + 40, "c1")
    effect = loop.next(NOW + 40)
    assert effect.status == Status.DEADLINE
    assert [c.source for c in result_of(loop, effect, ended_at=NOW).tool_calls] == ["skipped"]


def test_time_in_the_park_uses_up_no_deadline_of_the_settings():
    """What bounds the work moves on by the time that nothing was done."""
    loop = replay(started(deadline=NOW + 60), calling(call()), asked(until=NOW + 9000))
    assert loop.next(NOW) == Park("approval", NOW + 9000, "c1")
    loop.apply(Parked(NOW + 10, "approval", NOW + 9000, "c1"))
    loop.apply(Resumed(NOW + 5010, 1))
    loop.apply(decided())

    assert loop.deadline == NOW + 5060
    assert loop.next(NOW + 5020).calls == (call(),)
    assert loop.next(NOW + 5060).status == Status.DEADLINE


def test_too_many_calls_are_refused_beside_a_waiting_one():
    """The bound on the calls of a reply holds as well while one of them waits."""
    loop = replay(started(), calling(call("a"), call("b")), asked("a"), max_calls_per_step=1)

    effect = loop.next(NOW)
    assert [c.id for c, _ in effect.answered] == ["b"]
    loop.apply(ToolReturned(NOW, "b", effect.answered[0][1]))
    assert isinstance(loop.next(NOW), Park)


# --- any order of news ----------------------------------------------------------------------------


@st.composite
def waits(draw):
    """A reply of some calls, and facts about them in any legal order, with the time moving on."""
    ids = [f"c{n}" for n in range(draw(st.integers(1, 4)))]
    loop, now = replay(started(deadline=NOW + 600), calling(*map(call, ids))), NOW
    events, times = [started(deadline=NOW + 600), calling(*map(call, ids))], [NOW, NOW]
    while isinstance(effect := loop.next(now), CallTools | Park):
        for event in draw(facts(loop, effect, now)):
            loop.apply(event)
            events.append(event)
            times.append(now)
        now += draw(st.sampled_from([0, 20, 120]))
    return events, times, now


@st.composite
def facts(draw, loop, effect, now):
    """What may follow an effect, when a person, a job or nobody at all says something."""
    if isinstance(effect, Park):
        if loop.parked is not None:
            return [Resumed(now, 1)]
        open_calls = [c for c in loop.unanswered if loop.waiting.undecided(c.id)]
        if not open_calls or draw(st.booleans()):
            return [Parked(now, effect.reason, effect.until, effect.call_id)]
        one = draw(st.sampled_from(open_calls))
        if one.id in loop.waiting.jobs:
            return [returned(one.id)]
        return [decided(one.id, approved=draw(st.booleans()), expires_at=now + 50)]
    found = [ToolReturned(now, c.id, o) for c, o in effect.answered]
    found += [JobPolled(now, c.id, None) for c, _ in effect.polls]
    for each in effect.calls:
        kinds = ["returns", "job"] if each.id in effect.approved else ["returns", "job", "asks"]
        kind = draw(st.sampled_from(kinds))
        poll_at = draw(st.none() | st.just(now + 20))
        made = {
            "returns": returned(each.id),
            "asks": asked(each.id, now + 100),
            "job": job(each.id, now + 100, poll_at=poll_at),
        }
        found.append(made[kind])
    return found


@settings(max_examples=200, deadline=None)
@given(waits())
def test_invariant_every_waiting_call_gets_one_observation(made):
    """Whatever comes, or does not: each call is answered once, in order, and a replay agrees."""
    events, times, now = made
    for number in range(2, len(events) + 1):
        moment = times[number - 1]
        live = Loop.replay(Limits(), events[:number])
        assert live.next(moment) == live.next(moment)
        assert live.next(moment) == Loop.replay(Limits(), events[:number]).next(moment)
    loop = Loop.replay(Limits(), events)
    effect = loop.next(now)
    if isinstance(effect, Finish):
        assert effect.status == Status.DEADLINE
        return
    ids = [c["id"] for c in events[1].reply.message["tool_calls"]]
    assert [m["tool_call_id"] for m in bodies(effect) if m["role"] == "tool"] == ids
    assert not loop.waiting
    loop.apply(answer())
    result = result_of(loop, loop.next(now), ended_at=now)
    assert [c.id for c in result.tool_calls] == ids

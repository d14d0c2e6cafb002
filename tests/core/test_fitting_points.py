"""What each sign is worth that a question is about a tool, and what is not counted twice."""

from __future__ import annotations

import pytest

from tests.core.fitting_cases import TOOLS, offered
from worker.core.fitting import fitting, things, words_of


def fits(question, *tools):
    """What fits, the best first."""
    return fitting(question, words_of(tools))


@pytest.mark.parametrize(
    ("tool", "question", "without"),
    [
        (offered("get_all", ""), "please call get_all", "please call it all"),
        (offered("kiln", "", "kiln_id"), "kiln K-204 please", "kiln please"),
        (offered("kiln", "", "kiln_id"), "\uff4b\uff49\uff4c\uff4e \uff2b\uff0d204", "kiln"),
        (offered("kiln", "", hall={"enum": ["north"]}), "kiln, north", "kiln, south"),
        (offered("kiln", "The kiln.", "hall"), "is the kiln hot?", "kiln please"),
        (offered("reader", "", "url"), "https://a.example/x ok?", "a.example/x ok?"),
        (offered("batteries", ""), "Which battery is empty?", "Which lamp is empty?"),
        (offered("get_balance", ""), "我的余额是多少?", "我的年龄是多少?"),
        (offered("helper", "Does its best. 查询快递。"), "我的快递到哪了?", "我的猫到哪了?"),
    ],
    ids=[
        "name",
        "code",
        "full-width",
        "choice",
        "fact",
        "url",
        "plural",
        "named",
        "later-sentence",
    ],
)
def test_a_sign_makes_the_difference(tool, question, without):
    """With it the tool fits, without it the rest is not enough."""
    assert [fit.tool.name for fit in fits(question, tool)] == [tool.name]
    assert fits(without, tool) == ()


def test_the_first_sentence_says_what_a_tool_is_for():
    """What the rest mentions, it is not for."""
    tool = offered("get_order", "Item and amount of one order. 含物流。", "order_id")

    assert fits("我的快递到哪了?", tool) == ()
    assert len(fits("我的订单到哪了?", tool)) == 1


def test_a_topic_that_is_put_aside_is_none():
    """The news aside is not asked for."""
    assert fits("The news aside, carry on.", TOOLS["search_news"]) == ()
    assert len(fits("The news today, please.", TOOLS["search_news"])) == 1


def test_tools_that_share_a_subject_are_for_one_thing():
    """Two weather tools make no second question; a second subject does."""
    weather = (TOOLS["weather"], TOOLS["query_tianqi"])

    one = fits("上海天气怎么样?", *weather)
    two = fits("上海天气怎么样, AAPL 股价多少?", *weather, TOOLS["get_stock_price"])

    assert (len(one), things(one)) == (2, 1)
    assert (len(two), things(two)) == (3, 2)
    assert things(()) == 0

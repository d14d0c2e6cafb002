"""The language of a question decides that of every word of ours."""

from __future__ import annotations

import pytest

from worker.core.texts import language_of


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What time is it?", "en"),
        ("", "en"),
        ("现在几点?", "zh"),
        ("What is the weather in 北京?", "en"),
        ("Tell me the price of 贵州茅台 today", "en"),
        ("AAPL 现在多少钱?", "zh"),
        ("AAPL price 是多少", "zh"),
        ("帮我查 the status of my order", "zh"),
        ("翻译: what is the price of the book", "zh"),
        ("iPhone 15 Pro Max 价格", "zh"),
        ("What does 你好吗 mean", "zh"),
        ("Summarize this for me: " + "苹果发布新款手机。" * 20, "zh"),
    ],
)
def test_language_is_that_of_the_sentence_and_not_of_its_names(question, language):
    """A Chinese name in an English sentence changes nothing; a Chinese sentence is never English."""
    assert language_of(question) == language

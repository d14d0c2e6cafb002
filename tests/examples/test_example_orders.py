"""`get_order_detail` and `submit_refund`: a database, and a write that happens once."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import orders
from tools.orders import get_order_detail, submit_refund
from worker import ToolContext, ToolError

ORDER = "CN202612010001"  # 399.00 CNY


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An order database of our own, filled with the examples on first use."""
    path = tmp_path / "orders.db"
    monkeypatch.setenv("LOOPWORKER_ORDERS_DB", str(path))
    return path


def refunds(shop: Path) -> list[tuple[str, int]]:
    """Return what was really refunded."""
    database = sqlite3.connect(shop)
    try:
        return database.execute("SELECT order_id, amount_cents FROM refunds").fetchall()
    finally:
        database.close()


def test_order_is_found_in_its_region():
    """Amounts are texts with two decimals, so that no float ever rounds money."""
    assert get_order_detail(ORDER, "CN") == {
        "order_id": ORDER,
        "region": "CN",
        "status": "已发货",
        "item": "机械键盘",
        "amount": "399.00",
        "currency": "CNY",
        "ordered_at": "2026-12-01",
    }


@pytest.mark.parametrize(("order_id", "region"), [(ORDER, "US"), ("CN000000000000", "CN")])
def test_order_that_is_not_there_is_an_error_for_the_model(order_id: str, region: str):
    """A wrong region and a wrong number look alike: nothing leaks across regions."""
    with pytest.raises(ToolError, match=f"there is no order {order_id} in region {region}"):
        get_order_detail(order_id, region)


def test_arguments_are_bounded_by_the_schema():
    """Twelve to twenty characters, one of three regions, and every violation at once."""
    assert get_order_detail.validate({"order_id": "A1", "region": "cn"}) == [
        "order_id: must have at least 12 characters, got 2",
        'region: must be one of "CN", "US", "EU", got "cn"',
    ]
    assert get_order_detail.validate({"order_id": "A" * 21, "region": "EU"}) == [
        "order_id: must have at most 20 characters, got 21"
    ]


def test_refund_is_made_once_for_one_key(shop: Path):
    """The same call, repeated with its key, returns the first refund and moves no money."""
    ctx = ToolContext(idempotency_key="task/1/call_1")

    first = submit_refund(ctx, ORDER, 99.5)
    again = submit_refund(ctx, ORDER, 99.5)

    assert first == again
    assert (first["refunded"], first["currency"]) == ("99.50", "CNY")
    assert refunds(shop) == [(ORDER, 9950)]


def test_interrupted_refund_can_be_asked_about(shop: Path):
    """`verify` tells done from not done, which is all that is asked after a crash."""
    ctx = ToolContext(idempotency_key="k1")
    arguments = {"order_id": ORDER, "amount": 10}

    assert (submit_refund.effect, submit_refund.requires_approval) == ("write", True)
    assert submit_refund.call_verify(arguments, ctx) is None
    made = submit_refund.call(arguments, ctx)
    assert submit_refund.call_verify(arguments, ctx) == made
    assert submit_refund.call_verify(arguments, ToolContext(idempotency_key="k2")) is None


def test_no_more_than_the_order_is_refunded(shop: Path):
    """The limit holds over several refunds, and a refused one leaves nothing behind."""
    submit_refund(ToolContext(idempotency_key="k1"), ORDER, 300)

    with pytest.raises(ToolError, match=r"at most 99\.00 of 399\.00 CNY can still be"):
        submit_refund(ToolContext(idempotency_key="k2"), ORDER, 99.01)
    with pytest.raises(ToolError, match="more than two decimals"):
        submit_refund(ToolContext(idempotency_key="k3"), ORDER, 1.005)
    with pytest.raises(ToolError, match="there is no order"):
        submit_refund(ToolContext(idempotency_key="k4"), "CN000000000000", 1)
    assert refunds(shop) == [(ORDER, 30000)]


@pytest.mark.parametrize("amount", [0, -5, 1_000_001, "5", True])
def test_amount_is_a_positive_number(amount: object):
    """What is no amount never reaches the database."""
    assert submit_refund.validate({"order_id": ORDER, "amount": amount}) != []


def test_many_workers_share_one_shop(shop: Path):
    """First use by several at once fills it once, and the limit holds between them."""

    def refund(number: int) -> bool:
        try:
            submit_refund(ToolContext(idempotency_key=f"k{number}"), ORDER, 100)
        except ToolError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(refund, range(8)))

    assert sum(made) == 3
    assert refunds(shop) == [(ORDER, 10000)] * 3


def test_every_checkout_has_a_shop_of_its_own(tmp_path, monkeypatch):
    """Where no file is named, what was refunded in one clone is not missing in the next."""
    monkeypatch.delenv("LOOPWORKER_ORDERS_DB")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    places = {orders._path()}
    monkeypatch.setattr(orders, "__file__", str(tmp_path / "other" / "tools" / "orders.py"))
    places.add(orders._path())

    assert len(places) == 2
    assert all(tmp_path in each.parents and each.parent.is_dir() for each in places)

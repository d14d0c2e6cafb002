"""A tool on a database, and a write that a person allows and that happens once, come what may.

`LOOPWORKER_ORDERS_DB` is a SQLite file; one with a few example orders is made where there is none.
Unset, it lies in the folder for temporary files, and every checkout has its own.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from worker import ToolContext, ToolError, tool

OrderId = Annotated[str, Field(min_length=12, max_length=20)]
Region = Literal["CN", "US", "EU"]
Amount = Annotated[float, Field(gt=0, le=1_000_000)]

# Amounts are whole cents: money is counted, not measured.
ORDERS = """CREATE TABLE IF NOT EXISTS orders (
    order_id TEXT PRIMARY KEY, region TEXT NOT NULL, status TEXT NOT NULL, item TEXT NOT NULL,
    amount_cents INTEGER NOT NULL, currency TEXT NOT NULL, ordered_at TEXT NOT NULL
)"""
REFUNDS = """CREATE TABLE IF NOT EXISTS refunds (
    idempotency_key TEXT PRIMARY KEY, refund_id TEXT NOT NULL UNIQUE,
    order_id TEXT NOT NULL REFERENCES orders, amount_cents INTEGER NOT NULL
)"""
EXAMPLES = [
    ("CN202612010001", "CN", "已发货", "机械键盘", 39900, "CNY", "2026-12-01"),
    ("CN202611280042", "CN", "已签收", "显示器", 129900, "CNY", "2026-11-28"),
    ("US202611300007", "US", "shipped", "Desk lamp", 4599, "USD", "2026-11-30"),
    ("EU202611290013", "EU", "processing", "Office chair", 18950, "EUR", "2026-11-29"),
]


@tool(effect="read", dependency="orders", timeout_seconds=5, stub="订单系统暂不可用")
def get_order_detail(order_id: OrderId, region: Region) -> dict[str, Any]:
    """查询一个订单的状态、商品和金额。Status, item and amount of one order.

    Args:
        order_id: 订单号,12 到 20 个字符。Order number, 12 to 20 characters.
        region: 下单地区。Region of the order: CN, US or EU.
    """
    with _database() as database:
        order = _order(database, order_id)
    if order is None or order["region"] != region:
        raise ToolError(f"there is no order {order_id} in region {region}; check both")
    return {
        "order_id": order_id,
        "region": region,
        "status": order["status"],
        "item": order["item"],
        "amount": _money(order["amount_cents"]),
        "currency": order["currency"],
        "ordered_at": order["ordered_at"],
    }


def find_refund(ctx: ToolContext, order_id: OrderId, amount: Amount) -> dict[str, Any] | None:
    """Tell whether this very refund was made before the worker was interrupted."""
    with _database() as database:
        return _refund(database, ctx.idempotency_key)


@tool(
    effect="write",
    dependency="orders",
    timeout_seconds=5,
    attempts=1,
    verify=find_refund,
    requires_approval=True,  # money: `loopworker approve` lets it out
)
def submit_refund(ctx: ToolContext, order_id: OrderId, amount: Amount) -> dict[str, Any]:
    """为一个订单退款。Refund an order, in full or in part.

    Args:
        order_id: 订单号,12 到 20 个字符。Order number, 12 to 20 characters.
        amount: 退款金额,以订单的货币计。Amount to refund, in the order's currency.
    """
    cents = _cents(amount)
    key = ctx.idempotency_key or uuid.uuid4().hex
    with _database() as database:
        database.execute("BEGIN IMMEDIATE")
        made = _refund(database, key)
        if made is not None:
            return made
        order = _order(database, order_id)
        if order is None:
            raise ToolError(f"there is no order {order_id}")
        left = order["amount_cents"] - _refunded(database, order_id)
        if cents > left:
            whole, currency = _money(order["amount_cents"]), order["currency"]
            raise ToolError(f"at most {_money(left)} of {whole} {currency} can still be refunded")
        row = (key, f"R{uuid.uuid4().hex[:12].upper()}", order_id, cents)
        database.execute("INSERT INTO refunds VALUES (?, ?, ?, ?)", row)
        made = _refund(database, key)
        assert made is not None, "the refund was just written"
        return made


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """Open the database for one transaction: kept when all went well, undone otherwise."""
    database = sqlite3.connect(_path(), timeout=2)
    database.row_factory = sqlite3.Row
    try:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'refunds'").fetchone():
            _fill(database)
        with database:
            yield database
    finally:
        database.close()


def _fill(database: sqlite3.Connection) -> None:
    with database:  # all at once: another process sees no half-filled shop
        database.execute("BEGIN IMMEDIATE")
        database.execute(ORDERS)
        database.execute(REFUNDS)
        database.executemany("INSERT OR IGNORE INTO orders VALUES (?,?,?,?,?,?,?)", EXAMPLES)


def _path() -> Path:
    named = os.environ.get("LOOPWORKER_ORDERS_DB")
    if named:
        return Path(named)
    folder = Path(tempfile.gettempdir()) / f"loopworker-examples-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # What was refunded in one checkout is no surprise in the next.
    checkout = hashlib.sha256(os.fsencode(Path(__file__).resolve().parent)).hexdigest()
    return folder / f"orders-{checkout[:12]}.db"


def _order(database: sqlite3.Connection, order_id: str) -> sqlite3.Row | None:
    found = database.execute("SELECT * FROM orders WHERE order_id = ?", (order_id,))
    row: sqlite3.Row | None = found.fetchone()
    return row


def _refund(database: sqlite3.Connection, key: str) -> dict[str, Any] | None:
    row = database.execute(
        "SELECT refund_id, order_id, refunds.amount_cents, currency"
        " FROM refunds JOIN orders USING (order_id) WHERE idempotency_key = ?",
        (key,),
    ).fetchone()
    if row is None:
        return None
    return {
        "refund_id": row["refund_id"],
        "order_id": row["order_id"],
        "refunded": _money(row["amount_cents"]),
        "currency": row["currency"],
    }


def _refunded(database: sqlite3.Connection, order_id: str) -> int:
    row = database.execute(
        "SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE order_id = ?", (order_id,)
    ).fetchone()
    return int(row[0])


def _cents(amount: float) -> int:
    exact = Decimal(str(amount)) * 100
    cents = exact.quantize(Decimal(1), ROUND_HALF_UP)
    if cents != exact:
        raise ToolError(f"amount {amount} has more than two decimals")
    return int(cents)


def _money(cents: int) -> str:
    return f"{Decimal(cents) / 100:.2f}"

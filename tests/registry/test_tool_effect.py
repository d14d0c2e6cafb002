"""Which undeclared tools run as writes (invariant 3)."""

from __future__ import annotations

import pytest

from worker import tool
from worker.registry import Registry
from worker.toolkit.effect import smells_of_writing

READS = """
get_current_time get_stock_price get_order_detail fetch_page get_payment_status sender_info
list_orders_created order_status orderDetail weather time.now search_emails list_refunds
get_refund_policy refund_status getUserInfo sum stock_price lookup_sender payment_status
查询订单 查询退款状态 获取支付记录 get_close_price translate convert_currency"""
WRITES = """send_mail sendMail create_order pay refund submit_refund delete_user get_or_create_user
fetch_and_delete get_and_update order_pizza update_status set_status email_report 发送邮件 退款
查询订单并退款 transfer_money book_flight post_message place_order make_payment charge_card
cancelOrder write_file run_sql 下单 DELETE_ALL"""


@pytest.mark.parametrize("name", READS.split())
def test_reading_name_reads(name: str):
    """Words that only contain a verb, or name a thing, are no smell."""
    assert not smells_of_writing(name)


@pytest.mark.parametrize("name", WRITES.split())
def test_writing_name_writes(name: str):
    """A verb that changes something is a smell, also after a reading one."""
    assert smells_of_writing(name)


@pytest.mark.parametrize(
    ("name", "description", "writes"),
    [
        ("mailer", "Use this to send email", True),
        ("mailer", "Sends an email to a customer.", True),
        ("template", "Get the template used to send mails.", True),  # in doubt, write
        ("get_template", "Get the template used to send mails.", False),
        ("lookup", "Look up a customer and delete it", True),
        ("lookup", "Look up a customer, and who created it", False),
        ("orders", "List orders, newest first. Results are sorted by date of payment.", False),
        ("stock", "Latest price of a ticker", False),
        ("add", "Add two integers", False),
        ("add", "Add a user", True),
        ("sms", "给用户发送短信", True),
        ("lookup", "查询订单的创建时间", False),
        ("lookup", "查询退款状态", False),
        ("lookup", "查询订单并退款", True),
        ("lookup", "", False),
    ],
)
def test_description_is_read_as_well(name: str, description: str, writes: bool):
    """Verbs in command position count; what is only mentioned does not."""
    assert smells_of_writing(name, description) is writes


def test_undeclared_writer_runs_as_write_and_is_told_the_line():
    """The warning at start names the place and the option; a declaration ends it."""

    @tool
    def send_mail(to: str) -> None:
        """Send a mail."""

    @tool(effect="read")
    def send_nothing(to: str) -> None:
        """Send nothing."""

    @tool
    def get_mail(number: int) -> None:
        """Get a mail."""

    found = Registry([send_mail, send_nothing, get_mail]).undeclared()

    assert [each.name for each, _ in found] == ["send_mail"]
    assert send_mail.effect == "write"
    assert send_nothing.effect == get_mail.effect == "read"
    assert f"{__file__}:{send_mail.source_line}" in found[0][1]
    assert '@tool(effect="write")' in found[0][1]

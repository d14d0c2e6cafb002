"""Messages on RabbitMQ that another program has given the headers of ours, or damaged ones."""

from __future__ import annotations

import asyncio
import json
import socket
import struct

import aio_pika
import pytest

from tests.servers.rabbitserver import own_url, rabbit_server
from worker.queues import open_queue
from worker.queues.memory_shelf import Row
from worker.queues.port import Ticket
from worker.queues.rabbit_address import address_of
from worker.queues.row_text import header_of

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]  # its server takes its time to start


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server."""
    with rabbit_server(tmp_path_factory.mktemp("rabbit")) as server:
        yield server


async def test_headers_that_look_like_ours_hurt_nobody(broker):
    """Whoever may send tasks may send any headers: each is a task, and the one behind it is taken."""
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    queue = await asyncio.to_thread(open_queue, url)
    row = json.loads(header_of(Row("mine", b"", 0, 1, 1.0, 1.0)))
    forged = [
        json.dumps(row | {"deliveries": "x"}),
        json.dumps(row | {"id": 5}),
        "[" * 3_000,
    ]
    forged += [{"a": 1}, 7]
    every = [{"loopworker": header} for header in forged]
    every += [{"x-delivery-count": "many"}, {"x-delivery-count": {"a": 1}}, {"id": ""}]
    every += [{"priority": {"a": 1}, "not_before": [1]}, {"x-death": "often"}]
    async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as connection:
        channel = await connection.channel()
        for number, headers in enumerate(every):
            message = aio_pika.Message(b"odd", message_id=f"odd-{number}", headers=headers)
            await channel.default_exchange.publish(message, name)
    await queue.put(Ticket(id="good", body=b"1"))
    taken = set()
    while len(taken) < len(every) + 1:
        leases = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
        assert leases, taken
        for lease in leases:
            taken.add(lease.id)
            await queue.ack(lease)
    await queue.close()

    assert taken == {
        "good",
        *(f"odd-{number}" for number in range(len(every))),
    }


@pytest.mark.parametrize(
    "damaged",
    [
        {"message_id": "käse".encode("latin-1")},
        {"content_type": b"\xff"},
        {"headers": {b"\xff": b"x"}},
        {"headers": {b"x": b"\xff"}},
        {"timestamp": 1_796_299_120_984_000},
    ],
    ids=lambda damaged: next(iter(damaged)),
)
async def test_properties_that_cannot_be_read_hold_nobody_up(broker, damaged):
    """The message is a task as far as it can be read, and the one behind it is taken."""
    url = own_url(broker.port)
    queue = await asyncio.to_thread(open_queue, url)
    await asyncio.to_thread(send, broker.port, address_of(url).prefix + "tasks", damaged)
    await queue.put(Ticket(id="good", body=b"1"))
    bodies = set()
    async with asyncio.timeout(30):
        while len(bodies) < 2:
            for lease in await queue.claim(owner="w", lease_seconds=30, wait_seconds=1, limit=9):
                bodies.add(lease.body)
                await queue.ack(lease)
    await queue.close()

    assert bodies == {b"1", b"odd"}


def send(port, name, properties):
    """Publish a message whose properties hold any bytes, as no proper client would."""
    short = {"content_type": 1 << 15, "message_id": 1 << 7}
    flags, said = 0, b""
    for key in ("content_type", "headers", "message_id", "timestamp"):
        if key not in properties:
            continue
        value = properties[key]
        if key == "headers":
            flags |= 1 << 13
            table = b"".join(
                bytes([len(name)]) + name + b"S" + struct.pack(">I", len(text)) + text
                for name, text in value.items()
            )
            said += struct.pack(">I", len(table)) + table
        elif key == "timestamp":
            flags |= 1 << 6
            said += struct.pack(">Q", value)
        else:
            flags |= short[key]
            said += bytes([len(value)]) + value
    with socket.create_connection(("127.0.0.1", port), timeout=10) as server:
        stream = server.makefile("rwb")
        stream.write(b"AMQP\x00\x00\x09\x01")
        stream.flush()
        heard(stream, (10, 10))
        login = b"\x00guest\x00guest"
        start = b"\x00\x00\x00\x00\x05PLAIN" + struct.pack(">I", len(login)) + login
        method(stream, 0, 10, 11, start + b"\x05en_US")
        heard(stream, (10, 30))
        method(stream, 0, 10, 31, struct.pack(">HIH", 10, 131_072, 0))
        method(stream, 0, 10, 40, b"\x01/\x00\x00")
        heard(stream, (10, 41))
        method(stream, 1, 20, 10, b"\x00")
        heard(stream, (20, 11))
        key = name.encode()
        method(stream, 1, 60, 40, b"\x00\x00\x00" + bytes([len(key)]) + key + b"\x00")
        frame(stream, 2, 1, struct.pack(">HHQH", 60, 0, 3, flags) + said)
        frame(stream, 3, 1, b"odd")
        method(stream, 1, 20, 40, struct.pack(">H", 200) + b"\x00" + struct.pack(">HH", 0, 0))
        heard(stream, (20, 41))


def frame(stream, kind, channel, payload):
    """Send one frame."""
    stream.write(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")
    stream.flush()


def method(stream, channel, group, number, arguments):
    """Send one method."""
    frame(stream, 1, channel, struct.pack(">HH", group, number) + arguments)


def heard(stream, wanted):
    """Read frames until that method has come."""
    while True:
        kind, _, size = struct.unpack(">BHI", stream.read(7))
        payload = stream.read(size + 1)
        if kind == 1 and struct.unpack(">HH", payload[:4]) == wanted:
            return

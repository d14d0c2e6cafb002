"""What is asked of JetStream: messages written by compare and swap, and told as they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import nats.errors
from nats.js import api

from worker.core.errors import QueueUnavailable, WorkerError
from worker.queues.nats_link import Connection, NatsLink

_EXPECT = "Nats-Expected-Last-Subject-Sequence"
_NOT_FOUND = 404
TAKERS = "workers"  # who shares what comes into a stream: the name of its consumer
_WATCHED_MAX = 10_000_000  # rows that may wait to be noted; the driver drops what is beyond

Seen = Callable[[str, int, dict[str, str]], None]
Took = Callable[[Any], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, eq=False)
class Listening:
    """A subscription, as long as its connection lives."""

    connection: Connection
    subscription: Any = field(repr=False)

    @property
    def lives(self) -> bool:
        """Whether anything can still come."""
        return self.connection.lives


class NatsStreams:
    """The streams of one server. Every call belongs into the thread of the link."""

    def __init__(self, link: NatsLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"NatsStreams({self._link!r})"

    async def read(self, stream: str, subject: str) -> tuple[int, dict[str, str], bytes] | None:
        """The last message of a subject: its number, its headers and its bytes."""
        try:
            message = await self._do(lambda js: js.get_msg(stream, subject=subject))
        except LookupError:
            return None
        return message.seq, message.headers or {}, message.data or b""

    async def write(
        self,
        subject: str,
        headers: dict[str, str],
        body: bytes,
        *,
        after: int,
        full: type[WorkerError] = QueueUnavailable,
    ) -> int:
        """Write a message if the subject's last number is `after`; returns the new one.

        Raises Conflict, and `full` where there is no room.
        """
        headers = {**headers, _EXPECT: str(after)}
        ack = await self._do(lambda js: js.publish(subject, body, headers=headers), full=full)
        return int(ack.seq)

    async def forget(self, stream: str, number: int) -> bool:
        """Delete one message; False when it is gone already."""
        try:
            return bool(await self._do(lambda js: js.delete_msg(stream, number)))
        except LookupError:
            return False

    async def info(self, stream: str) -> tuple[dict[str, Any], float] | None:
        """What the server says of a stream, and the server's clock; None when there is none."""
        subject, within = f"$JS.API.STREAM.INFO.{stream}", self._link.answer_seconds
        answer = await self._link.call(lambda client: client.request(subject, b"", timeout=within))
        told: dict[str, Any] = json.loads(answer.data)
        if "error" not in told:
            return told, datetime.fromisoformat(told["ts"]).timestamp()
        if told["error"].get("code") == _NOT_FOUND:
            return None
        raise QueueUnavailable(f"NATS at {self._link.where}: {told['error'].get('description')}")

    async def create(self, stream: str, subject: str, *, keeps_last: bool) -> None:
        """Make a stream on the disk that refuses rather than forgets.

        `keeps_last`: one message for each subject; else each until it is acknowledged.
        """
        config = api.StreamConfig(
            name=stream,
            subjects=[subject],
            discard=api.DiscardPolicy.NEW,
            storage=api.StorageType.FILE,
        )
        if keeps_last:
            config.max_msgs_per_subject = 1
        else:
            config.retention = api.RetentionPolicy.WORK_QUEUE
        await self._do(lambda js: js.add_stream(config))

    async def watch(
        self,
        stream: str,
        subject: str,
        seen: Seen,
        *,
        after: int,
    ) -> Listening:
        """Tell `seen` of each message after a number: subject, number, headers."""

        async def told(message: Any) -> None:
            seen(message.subject, message.metadata.sequence.stream, message.headers or {})

        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            ack_policy=api.AckPolicy.NONE,
            headers_only=True,
            inactive_threshold=60.0,
        )
        return await self._listen(subject, stream=stream, cb=told, config=config)

    async def share(self, stream: str, subject: str, deliver: str, took: Took) -> Listening:
        """Have `took` called with messages of a stream, each given to one of those who share it.

        One that it does not acknowledge comes again.
        """
        config = api.ConsumerConfig(
            deliver_subject=deliver,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=2 * self._link.answer_seconds,
            max_ack_pending=1000,
        )
        return await self._listen(
            subject, queue=TAKERS, durable=TAKERS, stream=stream, cb=took, config=config
        )

    async def unlisten(self, listening: Listening) -> None:
        """End a subscription; one that is gone already is no matter."""
        try:
            await listening.subscription.unsubscribe()
        except (nats.errors.Error, OSError):
            return

    async def _listen(self, subject: str, **options: Any) -> Listening:
        connection = await self._link.connected()
        js = connection.client.jetstream(timeout=self._link.answer_seconds)
        limits: Any = {"pending_msgs_limit": _WATCHED_MAX, "pending_bytes_limit": 1 << 30}
        subscribing = js.subscribe(subject, manual_ack=True, **limits, **options)
        return Listening(connection, await self._link.told(connection, subscribing))

    async def _do(
        self,
        call: Callable[[Any], Coroutine[Any, Any, Any]],
        *,
        full: type[WorkerError] = QueueUnavailable,
    ) -> Any:
        within = self._link.answer_seconds
        return await self._link.call(
            lambda client: call(client.jetstream(timeout=within)), full=full
        )

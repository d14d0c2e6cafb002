"""What runs wait for, seen from outside: approve or deny a call, hand the result of a job in.

The HTTP routes and the command line are two ways to this desk. Whatever is said is in the mailbox
before anybody is woken for it, so a worker need not be running, nor the run be parked yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from worker.core.errors import TaskInvalid
from worker.core.wireformat import rfc3339
from worker.intake import decode_text, parse_json, too_large
from worker.queues.port import Queue
from worker.store.mailbox import Expectation, Receipt, body_digest, job_address
from worker.store.port import Store
from worker.telemetry.redact import Redactor
from worker.waking import wake

MAX_REPORT_BYTES = 1_048_576
ARGUMENT_CHARS_MAX = 65_536  # shown whole: somebody has to judge them
WHO_CHARS_MAX, WHY_CHARS_MAX = 200, 500
ERROR_CHARS_MAX = 4_000


class NotAccepted(Exception):
    """What was said counts for nothing; `code` is the HTTP status: 404, 409 or 410."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person says about one call. Without `call_id` it is the only one that waits.

    `digest` is that of the arguments that the person has seen; without one nothing is compared.
    """

    approved: bool
    by: str
    why: str = ""
    call_id: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """What became of a report. `is_new`: False when the same had come before."""

    handle: str
    is_new: bool
    is_expected: bool


class WaitingDesk:
    """Takes decisions and reports in, and shows what is waited for."""

    def __init__(
        self,
        queue: Queue,
        store: Store,
        *,
        now: Callable[[], float],
        redactor: Redactor | None = None,
    ) -> None:
        self._queue = queue
        self._store = store
        self._mail = store.mail
        self._now = now
        self._redactor = redactor or Redactor()

    async def of_task(self, task_id: str) -> list[dict[str, Any]]:
        """What a task waits for now, as JSON objects."""
        known = await self._mail.expected(task_id)
        return [self.to_wire(each) for each in known if not each.answered]

    async def approvals(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Every call that waits for a person, the one that has waited longest first."""
        known = await self._mail.pending(kind="approval", limit=limit)
        return [{"task": each.run_id, **self.to_wire(each)} for each in known]

    async def decide(self, task_id: str, decision: Decision) -> dict[str, Any]:
        """Approve or deny a call; saying the same again is harmless.

        Raises NotAccepted: nothing waits, other arguments, too late, or decided otherwise.
        """
        call = await self._find(task_id, decision)
        if decision.digest is not None and decision.digest != call.digest:
            raise NotAccepted(
                409,
                f"the arguments of call {call.call_id} have the digest {call.digest}, not"
                f" {decision.digest[:100]}: look at them again",
            )
        if not await self._mail.read([call.address]):
            await self._must_wait(call)
        receipt = await self._mail.post(call.address, _said(call, decision))
        said = json.loads(receipt.posted.body)
        if said["approved"] is not decision.approved:
            word = "approved" if said["approved"] else "denied"
            raise NotAccepted(409, f"call {call.call_id} was {word} by {said['by']} already")
        await self._wake(receipt)
        return {
            "task": task_id,
            "call": call.call_id,
            "tool": call.tool,
            "digest": call.digest,
            "approved": said["approved"],
            "by": said["by"],
            "at": rfc3339(receipt.posted.posted_at),
        }

    async def report(self, handle: str, body: bytes, *, content_type: str) -> Reported:
        """Hand the result of a job in; handing the same in again is harmless.

        Raises TaskInvalid for a body that cannot be read, NotAccepted for a second result or for
        a job that is waited for no longer, MailboxFull.
        """
        said = _read_report(body, content_type)
        address = job_address(handle)
        known = await self._mail.at(address)
        posted = await self._mail.read([address])
        if known and not posted and all(each.answered for each in known):
            raise NotAccepted(410, "the run waits for this job no longer")
        receipt = await self._mail.post(address, said)
        if receipt.posted.digest != body_digest(said):
            raise NotAccepted(409, "this job has reported another result already")
        await self._wake(receipt)
        return Reported(handle, is_new=receipt.is_first, is_expected=bool(known))

    async def leave(self, task_id: str) -> None:
        """The task has ended: what it expected is expected no more."""
        known = [e.address for e in await self._mail.expected(task_id) if not e.answered]
        if known:
            await self._mail.answered(task_id, known)

    def to_wire(self, expectation: Expectation) -> dict[str, Any]:
        """Write what is waited for as a JSON object; secrets among the arguments are masked."""
        arguments = json.loads(expectation.arguments)
        shown: dict[str, Any] = {
            "kind": expectation.kind,
            "call": expectation.call_id,
            "tool": expectation.tool,
            "arguments": self._redactor.value(arguments, limit=ARGUMENT_CHARS_MAX),
            "digest": expectation.digest,
            "asked_at": rfc3339(expectation.asked_at),
            "expires_at": rfc3339(expectation.expires_at),
        }
        if expectation.kind == "job":
            shown["handle"] = expectation.address.partition(":")[2]
        return shown

    async def _find(self, task_id: str, decision: Decision) -> Expectation:
        known = [e for e in await self._mail.expected(task_id) if e.kind == "approval"]
        if decision.call_id is not None:
            known = [each for each in known if each.call_id == decision.call_id]
        waiting = [each for each in known if not each.answered]
        if len(waiting) > 1:
            raise NotAccepted(409, f"several calls wait, name one: {_named(waiting)}")
        if not waiting and not known:
            which = "no call" if decision.call_id is None else f"no call {decision.call_id[:100]!r}"
            raise NotAccepted(404, f"{which} of that task waits for an approval")
        if not waiting and decision.call_id is None and len(known) > 1:
            raise NotAccepted(409, f"no call waits any more; name one: {_named(known)}")
        # The same said again after it was heard: the newest, for models repeat their ids.
        return waiting[0] if waiting else known[-1]

    async def _must_wait(self, call: Expectation) -> None:
        """Raise NotAccepted where a first decision comes too late to count."""
        if self._now() >= call.expires_at:
            until = rfc3339(call.expires_at)
            raise NotAccepted(410, f"call {call.call_id} waited until {until} and no longer")
        # Who ends a run writes its result first, and may die before it tells the mailbox.
        if call.answered or await self._store.result(call.run_id) is not None:
            raise NotAccepted(
                410, f"call {call.call_id} waits no longer: its task went on or ended"
            )

    async def _wake(self, receipt: Receipt) -> None:
        for run_id in receipt.waiting:
            await wake(run_id, self._queue, self._store)


def _said(call: Expectation, decision: Decision) -> bytes:
    said = {
        "approved": decision.approved,
        "digest": call.digest,
        "by": decision.by[:WHO_CHARS_MAX],
        "why": decision.why[:WHY_CHARS_MAX],
    }
    return json.dumps(said).encode()


def _named(calls: Sequence[Expectation]) -> str:
    return ", ".join(f"{each.call_id} ({each.tool})" for each in calls[:20])


def _read_report(body: bytes, content_type: str) -> bytes:
    """Read a report into the one form that the mailbox keeps. Raises TaskInvalid."""
    if len(body) > MAX_REPORT_BYTES:
        raise too_large(len(body), MAX_REPORT_BYTES)
    text = decode_text(body)
    if "json" not in content_type:
        return _written({"result": text})
    said = parse_json(text)
    if not isinstance(said, dict) or set(said) not in ({"result"}, {"error"}):
        raise TaskInvalid(
            'body: must be {"result": …} or {"error": "…"}; plain text (text/plain) is a result',
            field="body",
        )
    if "result" in said:
        return _written({"result": said["result"]})
    if not isinstance(said["error"], str) or not said["error"].strip():
        raise TaskInvalid("error: must be a text that says what went wrong", field="error")
    return _written({"error": said["error"].strip()[:ERROR_CHARS_MAX]})


def _written(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()

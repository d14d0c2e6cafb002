"""Every error we raise, drawn as a tree.

    WorkerError
    ├─ ConfigError                     wrong settings; raised at start, names field, value, rule
    │   └─ FileTooNew                  a newer loopworker has changed the file's tables
    ├─ TaskInvalid                     a task that cannot be read; names the field
    ├─ ToolError                       raised by tools on purpose; the model should read it
    ├─ Rejected                        the call was not made: reason, retry_after_seconds
    │   ├─ BreakerOpen                 (in guard/breaker.py: it is also a CircuitBreakerError)
    │   ├─ BulkheadFull
    │   ├─ Throttled
    │   ├─ NoTimeLeft
    │   └─ NotConfigured               raised by tools: only operations can mend it
    ├─ AttemptFailed                   it was made and failed: kind, status_code, retry_after_seconds
    │   └─ AttemptTimeout
    ├─ ModelError                      the model gave no usable reply: status, transient
    ├─ LeaseLost                       somebody else owns the run; stop quietly
    ├─ RunBusy                         another live worker owns the run; come back later
    ├─ SessionBusy                     another run has the session; come back later
    ├─ SessionConflict                 the session has been saved meanwhile; nothing was written
    ├─ QueueFull                       a submit was refused; nothing was written
    │   └─ MailboxFull                 a post that nobody expects was refused
    └─ QueueUnavailable · StoreUnavailable     driver error in __cause__
    IllegalEvent (AssertionError)      a bug or a corrupt journal; dead-letter with the event
    └─ UnknownEvent                    written by a newer worker; hand the run back to one

The docstring of a class is its default message.
"""

from __future__ import annotations


class WorkerError(Exception):
    """Something went wrong in the worker."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).strip().splitlines()[0])


class ConfigError(WorkerError):
    """A setting is wrong; the message names it, what was wrong and what is allowed."""


class FileTooNew(ConfigError):
    """A file has tables of a newer loopworker; nothing was changed in it."""


class TaskInvalid(WorkerError):
    """The task cannot be read; `field` names the part that is wrong."""

    def __init__(self, message: str, *, field: str, kind: str = "schema") -> None:
        super().__init__(message)
        self.field = field
        self.kind = kind  # invalid_json, schema, too_large: the label of the poison counter


class ToolError(WorkerError):
    """The tool could not do what was asked; the text is shown to the model.

    A business error: it says nothing about the health of the dependency, is not retried and is
    never replaced by a stub.
    """


class Rejected(WorkerError):
    """The call was not made."""

    reason = "rejected"

    def __init__(
        self,
        message: str | None = None,
        *,
        dependency: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.dependency = dependency
        self.retry_after_seconds = retry_after_seconds


class BulkheadFull(Rejected):
    """Too many calls to this dependency are in flight already."""

    reason = "bulkhead_full"


class Throttled(Rejected):
    """The dependency asked us to wait, and the wait is not over."""

    reason = "throttled"


class NoTimeLeft(Rejected):
    """The deadline leaves no time to make the call."""

    reason = "deadline"


class NotConfigured(Rejected):
    """The tool lacks a setting that only operations can give.

    Raised by tools before they ask anybody. It says nothing about the health of the dependency, is
    not retried, and the stand-in (alternative, last good value, stub) is used.
    """

    reason = "not_configured"


class AttemptFailed(WorkerError):
    """The call was made and failed.

    `kind` is a word of the closed error_type vocabulary (telemetry): timeout, connection,
    rate_limited, http_4xx, http_5xx, … ; `sent` tells whether the request may have had an effect.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        kind: str = "internal",
        status_code: int | None = None,
        retry_after_seconds: float | None = None,
        retryable: bool = True,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status_code = status_code
        self.retry_after_seconds = retry_after_seconds
        self.retryable = retryable
        self.sent = sent


class AttemptTimeout(AttemptFailed):
    """The call took longer than its time limit."""

    def __init__(self, message: str | None = None, *, sent: bool = True) -> None:
        super().__init__(message, kind="timeout", status_code=504, sent=sent)


class ModelError(WorkerError):
    """The model gave no usable reply.

    `status` is the ending (see `limits.Status`) this leads to when nothing else helps; `transient`
    tells that the same request may succeed later; `text` is what the model did say, if anything.
    `attempted` is False when no request was made at all: the breaker was open, or no slot was free.
    """

    def __init__(
        self,
        message: str,
        *,
        status: str,
        transient: bool = False,
        text: str = "",
        retry_after_seconds: float | None = None,
        attempted: bool = True,
    ) -> None:
        super().__init__(message)
        self.attempted = attempted
        self.status = status
        self.transient = transient
        self.text = text
        self.retry_after_seconds = retry_after_seconds


class LeaseLost(WorkerError):
    """Somebody else owns this run now; nothing was written."""


class RunBusy(WorkerError):
    """Another live worker owns this run."""

    def __init__(self, message: str | None = None, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SessionBusy(WorkerError):
    """Another run has the session, or is to have it first.

    `ahead` tells how many wait for it before this one, besides the run that has it.
    """

    def __init__(self, message: str | None = None, *, ahead: int) -> None:
        super().__init__(message)
        self.ahead = ahead


class SessionConflict(WorkerError):
    """The session is not as it was when the run took it; nothing was written.

    `version` is the present one: what is saved with that is put behind what is there.
    """

    def __init__(self, message: str | None = None, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class QueueFull(WorkerError):
    """The queue holds as many tasks as it may; nothing was written."""


class MailboxFull(QueueFull):
    """Too many posts wait that nobody expects; nothing was written."""


class QueueUnavailable(WorkerError):
    """The queue cannot be reached right now."""


class StoreUnavailable(WorkerError):
    """The store cannot be reached right now."""


class IllegalEvent(AssertionError):
    """An event that cannot follow what has happened: a bug, or a corrupt journal."""


class UnknownEvent(IllegalEvent):
    """The journal holds an event that this version of the worker cannot read.

    `kind` and `version` name it. Usually a newer worker wrote it: hand the run back to one.
    """

    def __init__(self, kind: object, version: object, known: int | None = None) -> None:
        problem = "this worker knows no such event"
        if known:
            problem = f"this worker reads it up to version {known}"
        super().__init__(f"journal event {kind!r} version {version!r}: {problem}")
        self.kind = kind
        self.version = version

"""The connection to a Redis or Valkey server, as queue and store share it.

Every change of state is one script, which the server does wholly or not at all. The driver's own
retries are off: it cannot know whether a command whose answer got lost has had its effect.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from worker.core.errors import ConfigError, WorkerError
from worker.redisbatch import Batches
from worker.redisfit import CHECK, forbidden, frail, misused, unfit
from worker.redistalk import Call, Script, exchange

CONNECTIONS_MAX = 32  # at once for commands; more of them wait for their turn
ANSWER_SECONDS = 5.0  # without a byte from the server: the connection is given up
LOOK_SECONDS = 30.0  # a server that is at work is asked so often whether it still keeps everything
LARGE_BYTES = 64 * 1024  # a call with a longer word goes alone, so that none waits behind it
BLOCK_SECONDS = 2.0  # of one blocking read; well below ANSWER_SECONDS
_OPTIONS = {"prefix"}
_TLS_OPTIONS = {
    *("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"),
}
_CERT_REQS = ("none", "optional", "required")
_FORM = (
    "redis://[user:password@]host[:port][/database], or rediss:// for TLS (in a password %23 for #,"
    " %2F for /, %40 for @)"
)
_DATABASE = re.compile(r"/?\d*")
_REFUSED = (redis.exceptions.AuthenticationError, redis.exceptions.AuthorizationError)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Where the server is. `prefix` begins the name of every key.

    `shift` is added to the server's clock, in seconds: only tests give it.
    """

    options: Mapping[str, Any]
    prefix: str = ""
    answer_seconds: float = ANSWER_SECONDS
    look_seconds: float = LOOK_SECONDS
    shift: Callable[[], float] = field(default=lambda: 0.0)


def settings_of(url: str) -> LinkSettings:
    """Read `redis://…` or `rediss://…`. Raises ConfigError, also for what the driver would ignore."""
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        options = dict(redis.asyncio.connection.parse_url(url))
        is_whole = parts.hostname and parts.port != 0 and not parts.fragment
    except ValueError:
        is_whole = False  # what the parser says of it may be a part of the password
    if not (is_whole and _DATABASE.fullmatch(parts.path)):
        raise ConfigError(f"no address of a Redis server; write {_FORM}")
    known = _OPTIONS | (_TLS_OPTIONS if parts.scheme == "rediss" else set())
    for name in sorted(set(given) - known):
        raise ConfigError(
            f"{name!r} is no option of a {parts.scheme}:// address; there are"
            f" {', '.join(sorted(known))}"
        )
    if given.get("ssl_cert_reqs", "none") not in _CERT_REQS:
        raise ConfigError(f"ssl_cert_reqs of a rediss:// address: one of {', '.join(_CERT_REQS)}")
    prefix = str(options.pop("prefix", ""))
    if "{" in prefix or "}" in prefix:
        raise ConfigError("the prefix of a redis:// address must not hold { or }")
    return LinkSettings(options, prefix=prefix)


_CHECK = Script.of(CHECK, frees=True)


class RedisLink:
    """Connections to one server for the event loop that used it first.

    Any other loop has connections of its own, until it shuts its asynchronous generators down, as
    `asyncio.run` does. `unavailable` is what is raised when the server cannot be reached, or refuses.
    """

    def __init__(self, settings: LinkSettings, *, unavailable: type[WorkerError]) -> None:
        self.settings = settings
        self._unavailable = unavailable
        self._uses = 1
        self._looked_at: float | None = None  # monotonic; when the server was last found fit
        self._home: asyncio.AbstractEventLoop | None = None
        self._batches: Batches[Call] | None = None
        self._others: dict[asyncio.AbstractEventLoop, tuple[Any, redis.asyncio.Redis]] = {}
        self._client: redis.asyncio.Redis | None = None
        self._waiting: redis.asyncio.Redis | None = None

    def __repr__(self) -> str:
        state = "not connected" if self._client is None else "open"
        return f"RedisLink({self.where}, {state})"

    @property
    def where(self) -> str:
        """The server's address, for people."""
        options = self.settings.options
        tcp = f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        return str(options.get("path", tcp))

    def again(self) -> RedisLink:
        """Note one use more; each use closes once."""
        self._uses += 1
        return self

    def check(self, name: str, *, stream: str | None = None) -> None:
        """Ask the server for its settings, and whether we may work on keys of `name`; blocks meanwhile.

        Raises ConfigError for a server that would lose what is in it, lets nobody in, allows too
        little, or has something else where `stream` has to be. One that cannot be reached is left for
        the first call, which asks again.
        """
        client = redis.Redis.from_pool(
            redis.ConnectionPool(
                connection_class=_plain(self.settings.options), **_quiet(self.settings)
            )
        )
        try:
            wrong = unfit(client.info()) or self._obstacle(client, name, stream)
        except _REFUSED as error:
            raise ConfigError(f"{self.where} lets nobody in: {error}; write {_FORM}") from error
        except redis.exceptions.BusyLoadingError:
            return
        except redis.exceptions.ResponseError as error:
            raise ConfigError(f"{self.where} refuses: {error}") from error
        except redis.RedisError:
            return
        finally:
            client.close()
        if wrong:
            raise ConfigError(f"{self.where}: {wrong}")
        self._looked_at = time.monotonic()

    def _obstacle(self, client: Any, name: str, stream: str | None) -> str:
        words = (*((1, stream) if stream else (0,)), "0", name)
        try:
            denied, kind = client.execute_command("EVAL", _CHECK.text, *words)
        except redis.exceptions.NoPermissionError:
            denied, kind = [b"EVAL"], b""
        return forbidden([_text(each) for each in denied], name, stream) or (
            misused(stream, _text(kind)) if stream else ""
        )

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        *values: Any,
        full: type[WorkerError] | None = None,
    ) -> Any:
        """Let the server run a script, and return its answer.

        `full` is raised when the server has no memory left for it. Cancelled: it was run or not.
        """
        return await self.begin(script, keys, *values, full=full)

    def begin(
        self,
        script: Script,
        keys: Sequence[str],
        *values: Any,
        full: type[WorkerError] | None = None,
    ) -> asyncio.Future[Any]:
        """As `run`, for who has more to do with the answer than to wait for it."""
        call = Call(script, keys, (repr(self.settings.shift()), *values), full)
        if self._is_home() and self._batches is not None and not _is_large(values):
            return self._batches.begin(call)
        return asyncio.create_task(self._alone(call))

    async def _alone(self, call: Call) -> Any:
        (answer,) = await self._make((call,))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _make(self, calls: Sequence[Call]) -> Sequence[Any]:
        """Make some calls; where one failed, what is to be raised stands for its answer."""
        silent = self.settings.answer_seconds
        async with self._reached() as client:
            await self._look(client)
            pool, names = client.connection_pool, [call.by_name() for call in calls]
            answers, failed = await exchange(pool, names, silent_seconds=silent)
            unknown = [n for n in failed if isinstance(answers[n], redis.exceptions.NoScriptError)]
            if unknown:
                texts = [calls[n].in_full() for n in unknown]
                told, again = await exchange(pool, texts, silent_seconds=silent)
                for n, answer in zip(unknown, told, strict=True):
                    answers[n] = answer
                failed = [n for n in failed if n not in unknown] + [unknown[n] for n in again]
            for n in failed:
                answers[n] = await self._refusal(calls[n], answers[n], pool)
            return answers

    async def _refusal(self, call: Call, error: Exception, pool: Any) -> WorkerError:
        """What is raised for a call that the server has refused."""
        self._looked_at = None  # it may have got other settings
        if isinstance(error, redis.exceptions.OutOfMemoryError):
            text = f"{self.where} has no memory left (maxmemory); nothing written"
            refusal = (call.full or self._unavailable)(text)
        else:
            wrong = ""
            if str(error).startswith("WRONGTYPE"):
                asked, silent = [("TYPE", call.keys[0])], self.settings.answer_seconds
                (kind,), failed = await exchange(pool, asked, silent_seconds=silent)
                wrong = "" if failed else misused(call.keys[0], _text(kind))
            said = f"{self.where}: {wrong}" if wrong else self._cannot(error)
            refusal = self._unavailable(said)
        refusal.__cause__ = error
        return refusal

    async def listen(self, heard: Mapping[str, str], *, seconds: float) -> None:
        """Wait until one of these streams holds something after the entry named, or so long.

        It takes nothing, so it may be cancelled at any moment.
        """
        milliseconds = max(1, int(min(seconds, BLOCK_SECONDS) * 1000))
        words = ("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", *heard, *heard.values())
        async with self._reached(waits=True) as client:
            silent = milliseconds / 1000 + self.settings.answer_seconds
            answers, failed = await exchange(client.connection_pool, [words], silent_seconds=silent)
            if failed:
                raise answers[0]

    async def frailty(self) -> str:
        """Say what a crash of the server would cost; empty when that is little."""
        async with self._reached() as client:
            said = await client.info("persistence")
            try:
                config = await client.config_get("save", "appendfsync")
            except redis.exceptions.ResponseError:  # not for everybody, nor on every host
                config = {}
        return frail(said, {_text(name): _text(value) for name, value in config.items()})

    async def close(self) -> None:
        """Let go of the connections with the last use. Idempotent beyond that."""
        self._uses -= 1
        if self._uses > 0:
            return
        if self._batches is not None and self._home is asyncio.get_running_loop():
            await self._batches.close()
        for client in (self._client, self._waiting):
            if client is not None and self._home is asyncio.get_running_loop():
                await client.connection_pool.disconnect(inuse_connections=True)
        self._client = self._waiting = self._batches = self._home = None

    # --- connections -----------------------------------------------------------------------------

    def _is_home(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._home is None or self._home.is_closed():
            self._home, self._client, self._waiting = loop, self._open(), self._open(waits=True)
            self._batches = Batches(self._make)
        return self._home is loop

    async def _connected(self, *, waits: bool = False) -> Any:
        if self._is_home():
            return self._waiting if waits else self._client
        return await self._beside()

    async def _beside(self) -> redis.asyncio.Redis:
        """The connections of a loop that is not the home, and goes on using them: a heartbeat's."""
        loop = asyncio.get_running_loop()
        if loop not in self._others:
            for other in list(self._others):
                if other.is_closed():
                    self._others.pop(other, None)
            keeping = self._keep()
            self._others[loop] = keeping, await anext(keeping)
        return self._others[loop][1]

    async def _keep(self) -> AsyncGenerator[redis.asyncio.Redis]:
        # The loop closes what is left of its generators as the last thing that it does.
        client = self._open()
        try:
            yield client
        finally:
            await client.connection_pool.disconnect(inuse_connections=True)

    def _open(self, *, waits: bool = False) -> redis.asyncio.Redis:
        kind = _evented(self.settings.options)
        # Silence is timed where the calls are made. The driver would do it with a timer for each
        # answer, and with `asyncio.wait_for` for what it sends, which loses cancels (awaiting.py).
        options = {**_quiet(self.settings), "retry": Retry(NoBackoff(), 0), "socket_timeout": None}
        if waits:  # as many as wait, so that no command stands behind them
            pool = redis.asyncio.ConnectionPool(
                connection_class=kind, max_connections=2**16, **options
            )
        else:
            pool = redis.asyncio.BlockingConnectionPool(
                connection_class=kind,
                max_connections=CONNECTIONS_MAX,
                timeout=self.settings.answer_seconds,
                **options,
            )
        return redis.asyncio.Redis(connection_pool=pool)

    async def _drop_idle(self) -> None:
        """Let go of connections that nobody uses: where one is dead, the others mostly are as well.

        Else each of them would cost a call, and the time until it is given up.
        """
        _, client = self._others.get(asyncio.get_running_loop(), (None, None))
        client = self._client if self._is_home() else client
        if client is not None:
            with suppress(redis.RedisError, OSError, TimeoutError):
                await client.connection_pool.disconnect(inuse_connections=False)

    async def _look(self, client: redis.asyncio.Redis) -> None:
        """Have a server that came back looked at before it gets anything, and any from time to time."""
        looked_at, now = self._looked_at, time.monotonic()
        if looked_at is None:
            wrong = unfit(await client.info())
        elif now - looked_at >= self.settings.look_seconds:
            self._looked_at = now  # one asks, and the others need not wait for it
            wrong = unfit(await client.info("memory"))
        else:
            return
        self._looked_at = None if wrong else now
        if wrong:
            raise self._unavailable(f"{self.where}: {wrong}")

    @asynccontextmanager
    async def _reached(self, *, waits: bool = False) -> AsyncIterator[Any]:
        # Connecting, asking for the settings, sending the script: each within its time, all too.
        try:
            async with asyncio.timeout(3 * self.settings.answer_seconds):
                yield await self._connected(waits=waits)
        except (redis.RedisError, OSError, TimeoutError) as error:
            self._looked_at = None  # it may come back with other settings
            if not isinstance(error, redis.exceptions.ResponseError):
                await self._drop_idle()
            raise self._unavailable(self._cannot(error)) from error

    def _cannot(self, error: Exception) -> str:
        said = str(error) or type(error).__name__
        if "timeout" in said.lower() and _is_tls(self.settings.options):
            said += " (does this port speak TLS?)"
        return f"Redis at {self.where} cannot be used: {said}"


def _is_large(values: Sequence[Any]) -> bool:
    for value in values:  # noqa: SIM110  (at every call, and a generator costs as much as the call)
        if value.__class__ is bytes and len(value) > LARGE_BYTES:
            return True
    return False


def _quiet(settings: LinkSettings) -> dict[str, Any]:
    options = {key: each for key, each in settings.options.items() if key != "connection_class"}
    return {
        "protocol": 2,
        "socket_timeout": settings.answer_seconds,
        "socket_connect_timeout": settings.answer_seconds,
        "socket_keepalive": True,
        **options,
    }


def _evented(options: Mapping[str, Any]) -> Any:
    return options.get("connection_class", redis.asyncio.Connection)


def _plain(options: Mapping[str, Any]) -> Any:
    return redis.SSLConnection if _is_tls(options) else redis.Connection


def _is_tls(options: Mapping[str, Any]) -> bool:
    return _evented(options) is redis.asyncio.SSLConnection


def _text(word: str | bytes) -> str:
    return word if isinstance(word, str) else word.decode()

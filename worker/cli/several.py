"""`loopworker run --processes N`: the supervisor's side, and what a process of several gets from it."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from worker.cli.exits import CommandFailed
from worker.cli.output import tell

if TYPE_CHECKING:
    from worker.configuration import Loaded
    from worker.settings import Settings
    from worker.supervising.lines import LinePump
    from worker.supervising.supervisor import Supervisor
    from worker.telemetry.logs import Logs

PROCESSES_MAX = 256
LOGS_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """Which of several processes this one is, and the descriptors that it has inherited."""

    number: int
    leash: int
    api: int | None

    def __str__(self) -> str:
        return f"{self.number}:{self.leash}:{'' if self.api is None else self.api}"

    @classmethod
    def read(cls, text: str) -> Place:
        """Read what `__str__` wrote. Raises ValueError."""
        number, leash, api = text.split(":")
        return cls(int(number), int(leash), int(api) if api else None)

    def listener(self) -> socket.socket | None:
        """The socket that all processes accept from."""
        return None if self.api is None else socket.socket(fileno=self.api)

    def watch(self, gone: Callable[[], object]) -> None:
        """Call `gone` once, in the running loop, when the supervisor has ended."""
        loop = asyncio.get_running_loop()

        def closed() -> None:
            loop.remove_reader(self.leash)
            gone()

        loop.add_reader(self.leash, closed)


def own_admin(loaded: Loaded, place: Place) -> str:
    """The admin address of a process: the port of the settings plus its number."""
    from worker.checks import listening_address

    address = listening_address(loaded.settings.admin, setting="LOOPWORKER_ADMIN")
    return "off" if address is None else written(address[0], address[1] + place.number)


def written(host: str, port: int) -> str:
    """An address as settings have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_processes(settings: Settings, count: int) -> None:
    """Refuse what several processes cannot share. Raises CommandFailed, ConfigError."""
    if not 1 <= count <= PROCESSES_MAX:
        raise CommandFailed(f"--processes: must be from 1 to {PROCESSES_MAX}", code=2)
    if count == 1:
        return
    from worker.checks import listening_address
    from worker.supervising.supervisor import addresses

    for name, url in (("QUEUE", settings.queue_url), ("STORE", settings.store_url)):
        if (url or "").partition(":")[0].lower() == "memory":
            raise CommandFailed(
                f"LOOPWORKER_{name}_URL: memory:// lives within one process and --processes has "
                f"{count}; name what all of them can reach: sqlite:///file.db",
                code=2,
            )
    addresses(listening_address(settings.admin, setting="LOOPWORKER_ADMIN"), count)


async def supervise(settings: Settings, count: int, arguments: Sequence[str]) -> int:
    """Run so many processes until a signal; returns the exit code. `arguments` go to each."""
    from worker.cli.forever import ending_signals

    with ExitStack() as stack:
        supervisor, logs = _build(settings, count, arguments, stack)
        loop = asyncio.get_running_loop()
        for number in ending_signals():
            loop.add_signal_handler(number, supervisor.stop)
        try:
            return await supervisor.run()
        finally:
            await asyncio.to_thread(logs.close, LOGS_CLOSE_SECONDS)


def _build(
    settings: Settings, count: int, arguments: Sequence[str], stack: ExitStack
) -> tuple[Supervisor, Logs]:
    from worker.checks import listening_address
    from worker.supervising.child import Child, Inherited
    from worker.supervising.lines import LinePump
    from worker.supervising.supervisor import Supervisor, addresses
    from worker.telemetry.tell import Telemetry

    admin = listening_address(settings.admin, setting="LOOPWORKER_ADMIN")
    api = _api_socket(settings, stack)
    leash, held = os.pipe()
    for descriptor in (leash, held):
        stack.callback(os.close, descriptor)
    inherited = Inherited(leash, api.fileno() if api else None)
    pump = LinePump(sys.stdout.fileno())
    stack.callback(pump.close, LOGS_CLOSE_SECONDS)
    logs = _logs(settings, pump)
    children = [
        Child(number, [*_ourselves(), "run", "--as-process", str(place), *arguments], address)
        for number, address in enumerate(addresses(admin, count), start=1)
        for place in [Place(number, leash, inherited.api)]
    ]
    supervisor = Supervisor(
        children,
        inherited=inherited,
        pump=pump,
        telemetry=Telemetry([logs]),
        clock=time.monotonic,
        drain_seconds=settings.worker.drain_seconds,
    )
    if admin is not None:
        _listen_admin(admin, supervisor, stack)
    if sys.stderr.isatty():
        shown = "off" if admin is None else f"http://{written(*admin)}"
        tell(f"loopworker: {count} processes · admin {shown}, of each on the next ports")
    return supervisor, logs


def _api_socket(settings: Settings, stack: ExitStack) -> socket.socket | None:
    from worker.checks import listening_address
    from worker.web.gate import check_exposure
    from worker.web.listening import listen

    address = listening_address(settings.http, setting="LOOPWORKER_HTTP")
    if address is None:
        return None
    token = settings.http_token
    check_exposure(address[0], token.get_secret_value() if token else None)
    return stack.enter_context(listen(*address))


def _logs(settings: Settings, pump: LinePump) -> Logs:
    from worker.assembly import worker_name
    from worker.observability import own_version, redactor_of
    from worker.telemetry.logs import LogOptions, Logs

    options = LogOptions(
        level=settings.log_level,
        form=settings.log_format,
        version=own_version(),
        worker_id=worker_name(),
    )
    return Logs(redactor_of(settings), options=options, stream=cast(TextIO, _Lines(pump)))


def _listen_admin(address: tuple[str, int], supervisor: Supervisor, stack: ExitStack) -> None:
    from worker.web.admin import AdminServer

    theirs = [
        f"# http://{written(*child.admin)}/metrics" for child in supervisor.children if child.admin
    ]
    page = "\n".join(["# Each process has metrics of its own; scrape all of these:", *theirs, ""])
    server = AdminServer(
        *address,
        render=lambda accept: (page.encode(), "text/plain; version=0.0.4; charset=utf-8"),
        health=supervisor.health,
        ready=supervisor.ready,
    )
    server.start()
    stack.callback(server.stop)


def _ourselves() -> list[str]:
    """The command that this process was started with, without its arguments."""
    command = Path(sys.argv[0])
    if command.name == "__main__.py" or not command.is_file():
        return [sys.executable, "-m", "worker"]
    return [sys.executable, str(command)]


class _Lines(io.TextIOBase):
    """As much of a text stream as the log needs, led through the pump."""

    def __init__(self, pump: LinePump) -> None:
        self._pump = pump

    def write(self, text: str) -> int:
        self._pump.write(text.encode())
        return len(text)

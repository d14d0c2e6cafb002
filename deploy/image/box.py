"""Enter a root folder as a container engine would: own mounts, processes and, if asked, network.

`Box` starts a command there, or a second one beside it. Run as a script, inside the fresh
namespaces, this file lays the mounts and becomes the command. Standard library and util-linux only.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@dataclass(kw_only=True)
class Box:
    """How to run a command in a root folder."""

    root: str
    command: list[str]
    environment: dict[str, str]
    folder: str = "/"
    user: int = 0
    group: int = 0
    read_only: bool = False
    own_network: bool = False
    mounts: dict[str, str] = field(default_factory=dict)  # place in the box -> path outside

    def start(self, **streams: object) -> subprocess.Popen[bytes]:
        """Start the command as process 1 of its own world."""
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
        if self.own_network:
            namespaces.append("--net")
        return subprocess.Popen(
            ["unshare", *namespaces, sys.executable, __file__, json.dumps(asdict(self))], **streams
        )

    def run(self) -> int:
        """Run the command to its end, with our output; return its exit code."""
        return self.start().wait()

    def beside(self, leader: subprocess.Popen[bytes], command: list[str]) -> list[str]:
        """Return the command line that runs a second command in the world of a started one."""
        return [
            *("nsenter", "--target", str(inner_process(leader)), "--all", "--root"),
            *("--setuid", str(self.user), "--setgid", str(self.group)),
            *("/usr/bin/env", "-C", self.folder, "-i"),
            *(f"{name}={value}" for name, value in self.environment.items()),
            *command,
        ]


def inner_process(leader: subprocess.Popen[bytes], wait_seconds: float = 5) -> int:
    """Return the process id, seen from outside, of the command that unshare forked."""
    children = Path(f"/proc/{leader.pid}/task/{leader.pid}/children")
    until = time.monotonic() + wait_seconds
    while time.monotonic() < until:
        found = children.read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise RuntimeError("the box did not start")


def terminate(leader: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Send a signal to the command itself, as an engine does."""
    os.kill(inner_process(leader), number)


def become(box: Box) -> None:
    """Lay the mounts, step into the root, drop all rights, and turn into the command."""
    mount("--make-rprivate", "/")
    mount("--bind", box.root, box.root)
    mount("-t", "proc", "proc", f"{box.root}/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{box.root}/dev")
    for name in DEVICES:
        Path(f"{box.root}/dev/{name}").touch()
        mount("--bind", f"/dev/{name}", f"{box.root}/dev/{name}")
    # Every engine gives shared memory, which semaphores between processes need.
    Path(f"{box.root}/dev/shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", f"{box.root}/dev/shm")
    for place, outside in box.mounts.items():
        lay(Path(box.root + place), Path(outside))
    if box.own_network:
        raise_loopback()
    if box.read_only:
        mount("-o", "remount,bind,ro", box.root)
    os.chroot(box.root)
    os.chdir(box.folder)
    os.setgroups([])
    os.setgid(box.group)
    os.setuid(box.user)
    os.environ.clear()
    os.environ.update(box.environment)
    os.execvpe(box.command[0], box.command, box.environment)


def lay(place: Path, outside: Path) -> None:
    """Mount a file or folder; make the place for it if the root has none."""
    if outside.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    elif not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount("--bind", str(outside), str(place))


def mount(*arguments: str) -> None:
    """Call mount, and stop if it fails."""
    subprocess.run(["mount", *arguments], check=True)


def raise_loopback() -> None:
    """Bring up `lo`, which is down in a new network namespace."""
    set_flags, up_and_running = 0x8914, 0x41
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", up_and_running)
        fcntl.ioctl(any_socket, set_flags, request)


if __name__ == "__main__":
    become(Box(**json.loads(sys.argv[1])))

"""A built image at work: read-only, as its own user, on one volume, with no network but its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from deploy.image.box import Box, terminate
from deploy.image.builder import Image


class Container:
    """One running worker, and commands beside it."""

    def __init__(self, image: Image, workshop: Path, environment: dict[str, str]) -> None:
        self.image = image
        self.log = workshop / "worker.log"
        user, _, group = image.user.partition(":")
        self.box = Box(
            root=str(image.root),
            command=[*image.entrypoint, *image.cmd],
            environment=image.environment | {"HOSTNAME": "image-check"} | environment,
            folder=image.folder,
            user=int(user),
            group=int(group or user),
            read_only=True,
            own_network=True,
            mounts={name: self.volume(name, workshop) for name in image.volumes},
        )
        with self.log.open("wb") as log:
            self.leader = self.box.start(stdout=log, stderr=log)

    def volume(self, name: str, workshop: Path) -> str:
        """Make a volume as an engine does: empty, with the owner and mode of the image's folder."""
        folder = workshop / ("volume" + name.replace("/", "-"))
        if not folder.exists():
            found = (self.image.root / name.lstrip("/")).stat()
            folder.mkdir(mode=found.st_mode & 0o7777)
            shutil.chown(folder, found.st_uid, found.st_gid)
        return str(folder)

    def execute(self, *words: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a command beside the worker, as the image's user; like `docker exec`."""
        return subprocess.run(
            self.box.beside(self.leader, list(words)),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def spawn(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a second program beside the worker; it ends with the worker's world."""
        with self.log.with_name("beside.log").open("wb") as log:
            command = self.box.beside(self.leader, list(words))
            return subprocess.Popen(command, stdout=log, stderr=log)

    def is_up(self) -> bool:
        """Say whether the worker still runs."""
        return self.leader.poll() is None

    def until(self, *words: str, seconds: float, shows: str = "") -> str:
        """Repeat a command until it succeeds and shows a text; return its last output."""
        end, output = time.monotonic() + seconds, ""
        while time.monotonic() < end and self.is_up():
            done = self.execute(*words)
            output = done.stdout + done.stderr
            if done.returncode == 0 and shows in output:
                return output
            time.sleep(0.2)
        raise AssertionError(f"{' '.join(words)}: not within {seconds} s; last: {output[-800:]}")

    def stop(self, seconds: float) -> int:
        """Send the image's stop signal to process 1 and return its exit code."""
        terminate(self.leader, signal.Signals[self.image.stop_signal])
        return self.leader.wait(timeout=seconds)

    def kill(self) -> None:
        """End what is left; `--kill-child` takes the worker along."""
        if self.is_up():
            self.leader.kill()
            self.leader.wait()

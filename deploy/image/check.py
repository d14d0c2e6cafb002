"""Prove the Dockerfile's own steps without a container engine, then prove the result.

    make image-check            or: python -m deploy.image.check [--fresh] [--keep FOLDER]

The base image is replaced by a root made from the same distribution's packages. Every other
instruction of the Dockerfile is carried out as written. The result is started as the image's user
on a read-only tree with one volume and no network, answers a task, passes its HEALTHCHECK and
drains on its stop signal. What only an engine can show is listed at the end as not run.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

from deploy.image.base import NoBase, base_root
from deploy.image.builder import Builder, Image, StepFailed
from deploy.image.container import Container
from deploy.image.dockerfile import Unsupported, read

ROOT = Path(__file__).resolve().parents[2]
MODEL_PORT = "18080"
OFFLINE_MODEL = ("python", "-m", "worker.model.offline", "--port", MODEL_PORT)
QUESTION = "现在几点? What time is it in Asia/Shanghai?"
BUILD_TOOLS = ("cc", "gcc", "g++", "make", "ld", "cargo", "git", "pip", "pip3")
NOT_RUN = (
    "the base image itself (a root made from the distribution's packages stood in for it)",
    "layers and their cache, and the export of an image to a registry",
    "the engine's own schedule of HEALTHCHECK (its command was run, its interval was not)",
    "other architectures than {machine}",
)


def main() -> int:
    """Build, inspect, run; 0 when everything that can be shown here was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="make the base root anew")
    parser.add_argument("--keep", type=Path, help="leave the roots and logs in this folder")
    parser.add_argument("--build-only", action="store_true", help="do not start the worker")
    options = parser.parse_args()
    problem = why_not_here()
    if problem:
        print(f"image-check cannot run here: {problem}", file=sys.stderr)
        return 1
    workshop = options.keep or Path(tempfile.mkdtemp(prefix="loopworker-image-"))
    workshop.mkdir(parents=True, exist_ok=True)
    try:
        image = build(workshop, fresh=options.fresh)
        inspect(image)
        if not options.build_only:
            use(image, workshop)
    except (NoBase, StepFailed, Unsupported, AssertionError) as error:
        print(f"FAILED  {error}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(workshop, ignore_errors=True)
    for line in NOT_RUN:
        print(f"not run {line.format(machine=platform.machine())}")
    return 0


def why_not_here() -> str:
    """Say what this machine lacks for carrying out the steps."""
    if os.geteuid() != 0:
        return "it makes namespaces and mounts, so it needs to be root"
    missing = [name for name in ("unshare", "nsenter", "mount") if not shutil.which(name)]
    return f"{', '.join(missing)} missing (package util-linux)" if missing else ""


def build(workshop: Path, *, fresh: bool) -> Image:
    """Carry out every instruction of the Dockerfile."""
    arguments = {"VERSION": "0.0.0+check", "REVISION": "image-check"}
    if os.environ.get("BASE"):
        arguments["BASE"] = os.environ["BASE"]
    stages = read(ROOT / "Dockerfile", arguments)
    base = base_root(stages[0].base, fresh=fresh)
    print(f"base    {stages[0].base}, from packages: {base}")
    builder = Builder(
        context=ROOT,
        workshop=workshop,
        arguments=arguments,
        told=lambda text: print(f"step    {text}", flush=True),
    )
    return builder.build(stages, base)


def inspect(image: Image) -> None:
    """Look at the image as it lies there."""
    user = image.user.partition(":")[0]
    seen("the user is numeric and not root", user.isdigit() and user != "0", image.user)
    folders = [*image.environment["PATH"].split(":"), "/usr/sbin", "/sbin"]
    tools = [
        f"{folder}/{name}"
        for folder in folders
        for name in BUILD_TOOLS
        if os.path.lexists(image.root / folder.lstrip("/") / name)
    ]
    seen("no build tools are in the final stage", not tools, tools)
    packaged = list((image.root / "opt/loopworker/lib").glob("python*/site-packages/pip"))
    seen("no pip is in the environment", not packaged, packaged)
    seen("the image is labelled", "org.opencontainers.image.version" in image.labels, "")
    seen("one volume", image.volumes == ["/data"], image.volumes)
    writable = writable_by(image, int(user))
    seen("the user owns the volume and nothing else", writable == ["/data"], writable[:5])
    size = sum(path.lstat().st_size for path in image.root.rglob("*") if not path.is_dir()) / 2**20
    print(f"size    {size:.0f} MiB with the base")


def writable_by(image: Image, user: int) -> list[str]:
    """Return the paths that belong to the user."""
    return [
        "/" + str(path.relative_to(image.root))
        for path in image.root.rglob("*")
        if path.lstat().st_uid == user
    ]


def use(image: Image, workshop: Path) -> None:
    """Start the image, let it answer a task, stop it."""
    environment = {
        "LOOPWORKER_MODEL_URL": f"http://127.0.0.1:{MODEL_PORT}/v1",
        "LOOPWORKER_MODEL": "offline",
    }
    began = time.monotonic()
    container = Container(image, workshop, environment)
    try:
        container.until(*image.healthcheck, seconds=15)
        print(f"seen    HEALTHCHECK passes, {time.monotonic() - began:.1f} s after the start")
        is_confined(container)
        answers_a_task(container)
        drains(container)
        survives_a_restart(image, workshop, environment)
    except AssertionError:
        print(container.log.read_text(errors="replace")[-4000:], file=sys.stderr)
        raise
    finally:
        container.kill()


def is_confined(container: Container) -> None:
    """See that the worker is the image's user, process 1, on a tree that nobody can write."""
    who = container.execute("python", "-c", "import os; print(os.getuid(), os.getgid())").stdout
    seen("commands run as the image's user", who.split() == ["10001", "10001"], who)
    name = container.execute("cat", "/proc/1/cmdline").stdout.replace("\0", " ")
    seen("the worker is process 1, with no shell before it", "loopworker" in name, name)
    for place in ("/", "/app", "/opt/loopworker", "/tmp"):
        written = container.execute("touch", f"{place}/probe")
        seen(f"{place} cannot be written", written.returncode != 0, "")
    written = container.execute("touch", "/data/probe")
    seen("/data can be written", written.returncode == 0, written.stderr)


def answers_a_task(container: Container) -> None:
    """Submit a task against the offline model server that the package brings."""
    container.spawn(*OFFLINE_MODEL)
    submitted = container.execute("loopworker", "submit", QUESTION)
    words = submitted.stdout.split()
    seen("a task is accepted", submitted.returncode == 0 and words, submitted.stderr)
    asked = ("loopworker", "status", words[-1], "--json")
    status = container.until(*asked, seconds=30, shows='"completed"')
    print(f"seen    the task is answered: {' '.join(status.split())[:160]}")
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/metrics').read())"
    metrics = container.execute("python", "-c", script)
    seen("/metrics counts it", "loopworker_runs_total" in metrics.stdout, metrics.stderr[-300:])


def drains(container: Container) -> None:
    """Stop the worker as an engine would."""
    began = time.monotonic()
    code = container.stop(seconds=30)
    took = time.monotonic() - began
    seen(f"the stop signal drains it in {took:.1f} s with exit 0", code == 0, f"exit {code}")


def survives_a_restart(image: Image, workshop: Path, environment: dict[str, str]) -> None:
    """Start a second container on the same volume: its file is whole and the worker ready."""
    again = Container(image, workshop, environment)
    try:
        again.until(*image.healthcheck, seconds=15)
        code = again.stop(seconds=30)
        seen("a second start on the same volume is healthy and drains", code == 0, f"exit {code}")
    finally:
        again.kill()


def seen(what: str, holds: object, detail: object) -> None:
    """Tell a fact that was seen, or stop at one that was not."""
    if not holds:
        raise AssertionError(f"{what}: {detail}")
    print(f"seen    {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

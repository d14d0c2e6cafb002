"""A root folder made from the distribution's packages, to stand in for the base image.

`debian:SUITE-slim` is itself made this way (minimal variant, files removed afterwards). The mirror
and the proxy are those that this machine's apt uses; the result is kept in the user's cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path


class NoBase(Exception):
    """The base cannot be made here; the message says why and what would help."""


def base_root(image: str, *, fresh: bool) -> Path:
    """Return the folder of the base root for `debian:SUITE…`; make it if it is not cached."""
    match = re.fullmatch(r"debian:([a-z]+)(?:-slim)?(?:@.*)?", image)
    if not match:
        raise NoBase(f"a stand-in can be made for debian:SUITE[-slim] only, not for {image}")
    suite = match[1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopworker"
    root = cache / f"base-{suite}-{os.uname().machine}"
    if fresh:
        shutil.rmtree(root, ignore_errors=True)
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as folder:
            made = Path(folder) / "root"
            bootstrap(suite, made)
            made.rename(root)
    return root


def bootstrap(suite: str, root: Path) -> None:
    """Fill a folder with the suite's minimal set of packages."""
    if not shutil.which("mmdebstrap"):
        raise NoBase("mmdebstrap is missing; on Debian or Ubuntu: apt-get install mmdebstrap")
    options = [f"--aptopt={line}" for line in apt_settings()]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--format=directory", *options]
    done = subprocess.run([*command, suite, str(root), mirror()], capture_output=True, text=True)
    if done.returncode:
        raise NoBase(f"mmdebstrap failed for {suite}:\n{done.stderr[-2000:]}")


def mirror() -> str:
    """Return where this machine's apt gets Debian from."""
    chosen = os.environ.get("IMAGE_CHECK_MIRROR")
    if chosen:
        return chosen
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(COMPONENT)"],
        capture_output=True,
        text=True,
    ).stdout
    for line in listed.splitlines():
        site, _, kind = line.partition(" ")
        if kind == "Debian main" and "security" not in site:
            return site
    raise NoBase("apt knows no Debian mirror here; name one in IMAGE_CHECK_MIRROR")


def apt_settings() -> list[str]:
    """Return this machine's apt settings for reaching the mirror."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    wanted = re.compile(r'^Acquire::https?::(?:\S*::)?(?:Proxy|CAInfo|Verify-\w+)\S* ".+";$', re.I)
    return [line for line in dump.splitlines() if wanted.match(line)]

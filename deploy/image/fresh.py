"""Follow the first line of the README on a machine with Python, pip and make, and nothing else.

    make fresh-check            or: python -m deploy.image.fresh [--fresh] [--keep FOLDER]

The machine is a root made from the distribution's packages, without python3-venv. `make setup`
may use the package index; `make run` then gets a network of its own that leads nowhere.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.image.base import NoBase, base_root
from deploy.image.box import Box
from deploy.image.builder import SYSTEM_PATH, StepFailed, copy_tree, lent_by_machine
from deploy.image.check import ROOT, seen, why_not_here
from tests.tidy.sources import repository_files

MACHINE = "debian:trixie-slim"
PACKAGES = "python3 python3-pip make"
INSTALL = (
    "apt-get -qq update && DEBIAN_FRONTEND=noninteractive "
    f"apt-get -qq install --no-install-recommends {PACKAGES} >/dev/null"
)


def main() -> int:
    """Make the machine, lay the clone, run its first command; 0 when the demo ended well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="make the base root anew")
    parser.add_argument("--keep", type=Path, help="leave the machine in this folder")
    options = parser.parse_args()
    problem = why_not_here()
    if problem:
        print(f"fresh-check cannot run here: {problem}", file=sys.stderr)
        return 1
    root = options.keep or Path(tempfile.mkdtemp(prefix="loopworker-fresh-"))
    try:
        copy_tree(base_root(MACHINE, fresh=options.fresh), root)
        lay_clone(root / "clone")
        seen(f"{PACKAGES} are installed on {MACHINE}", run(root, INSTALL, "/") == 0, "")
        alone = run(root, "python3 -c 'import ensurepip' 2>/dev/null", "/") != 0
        seen("the venv module is not complete there", alone, "ensurepip is there")
        seen("make setup succeeds all the same", run(root, "make setup") == 0, "")
        seen("a second make setup has nothing to do", run(root, "test -z $(make setup)") == 0, "")
        seen("make run ends well, without a network", run(root, "make run", alone=True) == 0, "")
    except (NoBase, StepFailed, AssertionError) as error:
        print(f"FAILED  {error}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(root, ignore_errors=True)
    return 0


def lay_clone(folder: Path) -> None:
    """Copy what a clone would hold."""
    for path in repository_files():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, place)


def run(root: Path, command: str, folder: str = "/clone", *, alone: bool = False) -> int:
    """Run a shell command on the machine; `alone` takes the network away."""
    environment, mounts = lent_by_machine()
    box = Box(
        root=str(root),
        command=["/bin/sh", "-c", command],
        environment=environment | {"PATH": SYSTEM_PATH, "HOME": "/var/tmp", "LANG": "C.UTF-8"},
        folder=folder,
        own_network=alone,
        mounts=mounts,
    )
    return box.run()


if __name__ == "__main__":
    sys.exit(main())

"""The worker on a machine whose wall clock jumps: `python shifted_worker.py SECONDS`.

The jump happens when the file `jump` is there. Monotonic time goes on as it did.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

JUMP = Path(os.environ["EFFECTS"]) / "jump"
SECONDS = float(sys.argv[1])
_real = time.time


def shifted() -> float:
    """The wall clock."""
    return _real() + (SECONDS if JUMP.exists() else 0.0)


time.time = shifted

if __name__ == "__main__":
    from worker.cli import main

    sys.argv[1:] = ["run"]
    sys.exit(main())

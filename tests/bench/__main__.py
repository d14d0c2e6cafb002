"""`make bench`: measure the worker beside lean loops, print the ratios, write RESULTS.md.

Every case runs in a fresh process, and the cases take turns: a slow minute of the machine falls on
all of them alike. Figures are medians of the rounds, with the smallest and the largest beside.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.bench.plan import PEERS_PYTHON, cases, prepare_peers, run, servers
from tests.bench.report import Results, page

RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    """Read the options, run the rounds, report."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each case is run")
    parser.add_argument("--only", default="", help="run cases whose name contains one of these a,b")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of loops")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    options = parser.parse_args()
    wanted = [word.strip() for word in options.only.split(",") if word.strip()]
    chosen = [
        case
        for case in cases(options.scale)
        if not wanted or any(word in case.name for word in wanted)
    ]
    figures: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if any(case.python == PEERS_PYTHON for case in chosen):
        prepare_peers()
    with servers() as urls:
        for number in range(options.rounds):
            for case in chosen:
                print(f"round {number + 1}: {case.name:<30}", end="\r", file=sys.stderr, flush=True)
                figures[case.name].append(run(case, urls))
    print(" " * 60, end="\r", file=sys.stderr)
    text = page(Results(figures), chosen, rounds=options.rounds)
    print(text)
    if not (options.no_write or wanted):
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

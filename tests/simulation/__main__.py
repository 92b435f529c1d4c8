"""`python -m tests.simulation --seed N --trace` replays one run; without a seed, a range."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.world import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the one run to replay")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--trace", action="store_true", help="print every event")
    given = parser.parse_args()
    seeds = (
        [given.seed] if given.seed is not None else range(given.first, given.first + given.count)
    )
    broken = 0
    for seed in seeds:
        outcome = run(seed, keep_trace=given.trace)
        for line in outcome.trace:
            print(line)
        print(
            f"seed {seed}: {outcome.events} events, {outcome.commits} commits, "
            f"{outcome.seconds:.0f} s, {outcome.digest[:16]}"
        )
        if outcome.broken is not None:
            broken += 1
            print(f"broken: {outcome.broken}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

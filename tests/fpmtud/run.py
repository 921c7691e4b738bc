# SPDX-License-Identifier: BSD-3-Clause
"""Runs one scenario of path-MTU probing in network namespaces, as root: run.py NAME; --list names them.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

import chain  # noqa: E402
import hostile  # noqa: E402
import many  # noqa: E402
import paths  # noqa: E402
import special  # noqa: E402
from lab.netns import LabError, sweep  # noqa: E402

SCENARIOS = {**paths.SCENARIOS, **special.SCENARIOS, **hostile.SCENARIOS, **many.SCENARIOS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("--fpmtud", default="build/fpmtud/fpmtud")
    parser.add_argument("--whole", action="store_true",
                        help="every MTU at every hop instead of a sample; takes minutes a scenario")
    parser.add_argument("name", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(SCENARIOS))
        return 0
    if args.name not in SCENARIOS:
        print(f"no scenario named {args.name}; --list names them", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 77
    args.fpmtud = os.path.abspath(args.fpmtud)
    # Ctrl-C and ctest's time limit end in the same clean-up as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sweep(chain.TAG)
    begin = time.monotonic()
    try:
        SCENARIOS[args.name](args)
    except (chain.Failure, LabError) as e:
        print(f"FAILED: {e}")
        return 1
    print(f"passed in {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Runs one scenario of caravand in network namespaces, as root: run.py NAME; --list names them.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

import bed  # noqa: E402
import programs  # noqa: E402
import scenarios  # noqa: E402
from lab.netns import LabError, sweep  # noqa: E402

SCENARIOS = {**scenarios.SCENARIOS, **programs.SCENARIOS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("--caravand", default="build/caravan/caravand")
    parser.add_argument("--gateway", default="build/tests/caravan/caravan_gateway")
    parser.add_argument("--pxgw", help="the gateway, where a scenario can go over it; else one made of the library")
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
    args.caravand, args.gateway = os.path.abspath(args.caravand), os.path.abspath(args.gateway)
    args.pxgw = os.path.abspath(args.pxgw) if args.pxgw else None
    # Ctrl-C and ctest's time limit end in the same clean-up as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sweep(bed.TAG)
    begin = time.monotonic()
    try:
        SCENARIOS[args.name](args)
    except (bed.Failure, LabError) as e:
        print(f"FAILED: {e}")
        return 1
    print(f"passed in {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

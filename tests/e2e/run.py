# SPDX-License-Identifier: BSD-3-Clause
"""Runs one end-to-end scenario as root: run.py --pxgw PATH --wire PATH NAME; --list names them all.

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
import faults  # noqa: E402
import frames  # noqa: E402
import live  # noqa: E402
import options  # noqa: E402
import paths  # noqa: E402
from lab.netns import LabError, sweep  # noqa: E402

SCENARIOS = {**live.SCENARIOS, **options.SCENARIOS, **faults.SCENARIOS, **paths.SCENARIOS,
             **frames.SCENARIOS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("--pxgw", default="build/pxgw/pxgw")
    parser.add_argument("--wire", default="build/tests/e2e/e2e_wire")
    parser.add_argument("--keep-dir", help="where to copy captures and logs if the scenario fails")
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
    # Ctrl-C and ctest's time limit end in the same clean-up as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sweep(bed.TAG)
    begin = time.monotonic()
    try:
        SCENARIOS[args.name](bed.options_from(args))
    except bed.Skip as e:
        print(f"skipped: {e}")
        return 77
    except (bed.Failure, LabError) as e:
        print(f"FAILED: {e}")
        return 1
    print(f"passed in {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

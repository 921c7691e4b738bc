# SPDX-License-Identifier: BSD-3-Clause
"""Runs one scenario of caravand in network namespaces, as root: run.py NAME; --list names them.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

import bed  # noqa: E402
import programs  # noqa: E402
import scenarios  # noqa: E402
from lab import scenario  # noqa: E402

SCENARIOS = {**scenarios.SCENARIOS, **programs.SCENARIOS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caravand", default="build/caravan/caravand")
    parser.add_argument("--gateway", default="build/tests/caravan/caravan_gateway")
    parser.add_argument("--pxgw", help="the gateway, where a scenario can go over it; else one made of the library")
    args = scenario.begin(parser, SCENARIOS, bed.TAG)
    args.caravand, args.gateway = os.path.abspath(args.caravand), os.path.abspath(args.gateway)
    args.pxgw = os.path.abspath(args.pxgw) if args.pxgw else None
    return scenario.run(SCENARIOS[args.name], args)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Runs one scenario of path-MTU probing in network namespaces, as root: run.py NAME; --list names them.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

import chain  # noqa: E402
import hostile  # noqa: E402
import many  # noqa: E402
import paths  # noqa: E402
import special  # noqa: E402
from lab import scenario  # noqa: E402

SCENARIOS = {**paths.SCENARIOS, **special.SCENARIOS, **hostile.SCENARIOS, **many.SCENARIOS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fpmtud", default="build/fpmtud/fpmtud")
    parser.add_argument("--whole", action="store_true",
                        help="every MTU at every hop instead of a sample; takes minutes a scenario")
    args = scenario.begin(parser, SCENARIOS, chain.TAG)
    args.fpmtud = os.path.abspath(args.fpmtud)
    return scenario.run(SCENARIOS[args.name], args)


if __name__ == "__main__":
    sys.exit(main())

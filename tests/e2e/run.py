# SPDX-License-Identifier: BSD-3-Clause
"""Runs end-to-end scenarios as root: run.py [OPTIONS] NAME, or --all.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

import bed  # noqa: E402
import faults  # noqa: E402
import frames  # noqa: E402
import jumbo_networks  # noqa: E402
import live  # noqa: E402
import options  # noqa: E402
import paths  # noqa: E402
import reassemblers  # noqa: E402
import soak  # noqa: E402
import softnic  # noqa: E402
import workers  # noqa: E402
from lab import scenario  # noqa: E402

# Over whichever ports are asked for.
SCENARIOS = {**live.SCENARIOS, **options.SCENARIOS, **faults.SCENARIOS, **paths.SCENARIOS,
             **frames.SCENARIOS}
ALL = {**SCENARIOS, **softnic.scenarios(SCENARIOS), **workers.SCENARIOS, **jumbo_networks.SCENARIOS,
       **reassemblers.SCENARIOS, **soak.SCENARIOS}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="run all that go over any ports, each in turn")
    parser.add_argument("--pxgw", default="build/pxgw/pxgw")
    parser.add_argument("--wire", default="build/tests/e2e/e2e_wire")
    parser.add_argument("--pxnic", default="build/bench/nic/pxnic")
    parser.add_argument("--ports", choices=("kernel", "softnic"), default="kernel",
                        help="the gateway's ports: kernel interfaces, or NICs in software")
    parser.add_argument("--lro", choices=("on", "off"), help="whether the port outside merges")
    parser.add_argument("--lro-contexts", type=int, help="with softnic: flows that it merges at once")
    parser.add_argument("--seconds", type=int, default=60, help="with soak: for how long; default 60")
    parser.add_argument("--seed", type=int, help="with soak: repeats what a run printed")
    parser.add_argument("--keep-dir", help="where to copy captures and logs if the scenario fails")
    return scenario.begin(parser, ALL, bed.TAG, no_name=lambda args: args.all)


def run(name, args):
    return scenario.run(lambda: ALL[name](bed.options_from(args)))


def run_all(args):
    results = {}
    for name in SCENARIOS:
        print(f"=== {name}", flush=True)
        results[name] = run(name, args)
    by_code = {code: [n for n, c in results.items() if c == code] for code in (0, 77, 1)}
    print(f"\n{len(by_code[0])} passed, {len(by_code[77])} skipped, {len(by_code[1])} failed")
    print("".join(f"  failed: {name}\n" for name in by_code[1]), end="")
    return 1 if by_code[1] else 0


def main():
    args = arguments()
    return run_all(args) if args.all else run(args.name, args)


if __name__ == "__main__":
    sys.exit(main())

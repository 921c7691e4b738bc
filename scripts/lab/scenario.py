# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios in network namespaces: what they say when they fail, and the command line that runs them.

Exit code: 0 passed, 1 failed, 77 can't be run on this machine."""
import os
import signal
import sys
import time

from lab.netns import LabError, sweep


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def need(condition, message):
    if not condition:
        raise Failure(message)


def begin(parser, scenarios, tag, no_name=lambda args: False):
    """The arguments, once nothing stands in the way of running; ends the program otherwise. `no_name`: whether no
    scenario needs to be named."""
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("name", nargs="?")
    args = parser.parse_args()
    if args.list:
        print("\n".join(scenarios))
        sys.exit(0)
    if not no_name(args) and args.name not in scenarios:
        print(f"no scenario named {args.name}; --list names them", file=sys.stderr)
        sys.exit(2)
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        sys.exit(77)
    # Ctrl-C and ctest's time limit end in the same clean-up as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sweep(tag)
    return args


def run(scenario, *args):
    """The exit code."""
    start = time.monotonic()
    try:
        scenario(*args)
    except Skip as e:
        print(f"skipped: {e}")
        return 77
    except (Failure, LabError) as e:
        print(f"FAILED: {e}")
        return 1
    print(f"passed in {time.monotonic() - start:.1f} s")
    return 0

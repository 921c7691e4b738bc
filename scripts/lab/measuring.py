# SPDX-License-Identifier: BSD-3-Clause
"""What programs that measure in network namespaces have in common."""
import os
import signal
import sys

from lab.netns import LabError


def begin(parser):
    """The arguments, once nothing stands in the way of measuring; ends the program otherwise."""
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.exit(2, f"{parser.prog}: network namespaces need root; run it as root\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return options


def progress(text=None):
    """What is being done, on a terminal; None: all is done."""
    if sys.stderr.isatty():
        print("\r\033[K" if text is None else f"\r{text} \033[K", end="", file=sys.stderr)


def run(main):
    """Ends the program with what `main` returns; 1 and one line where something failed."""
    try:
        sys.exit(main())
    except LabError as e:
        print(f"{os.path.basename(sys.argv[0])}: {e}", file=sys.stderr)
        sys.exit(1)

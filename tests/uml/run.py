# SPDX-License-Identifier: BSD-3-Clause
"""Runs a test program in user-mode Linux (Debian's user-mode-linux): run.py PROGRAM. Exit status 0: it passed."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NEEDLE = "uml tests ended with "


def main():
    program = os.path.abspath(sys.argv[1])
    done = subprocess.run(
        ["linux.uml", "mem=1024M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/init.sh", "quiet",
         "con=null", "con0=null,fd:1", f"UML_TESTS={program}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False)
    text = done.stdout.decode(errors="replace")
    print(text)
    ends = [line.strip() for line in text.splitlines() if NEEDLE in line]
    if not ends:
        print("run.py: user-mode Linux ended before the tests did", file=sys.stderr)
        return 1
    return 0 if ends[-1].endswith(NEEDLE + "0") else 1


if __name__ == "__main__":
    sys.exit(main())

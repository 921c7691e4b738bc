# SPDX-License-Identifier: BSD-3-Clause
"""fpmtud beside tracepath and scamper (Debian: iputils-tracepath, scamper) on the same paths, as root:
compare.py [--fpmtud PATH]. Prints the table of docs/measurements.md. Takes some minutes: the others wait long
where ICMP errors are missing."""
import argparse
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]

from chain import TAG, Chain, middlebox  # noqa: E402
from capture import Capture  # noqa: E402
from lab.netns import sweep  # noqa: E402
from paths import all_fragments  # noqa: E402

LIMIT = 20
RUNS = 3
Row = collections.namedtuple("Row", "family mtu icmp fragments")
ROWS = [Row(f, m, i, True) for i in (True, False) for f in (4, 6) for m in (1400, 1492, 1500, 4470, 8761)]
ROWS += [Row(4, m, i, False) for i in (True, False) for m in (1400, 8761)]


def fpmtud(options, address, family):
    return [options.fpmtud, "probe", address]


def fpmtud_exact(options, address, family):
    return [options.fpmtud, "probe", "--exact", address]


def tracepath(options, address, family):
    return ["tracepath", "-n", f"-{family}", address]


def scamper(options, address, family):
    return ["scamper", "-c", "trace -P udp-paris -M", "-i", address]


def value_of(tool, output):
    """The path MTU that a tool's output names; None where it names none."""
    if tool in (fpmtud, fpmtud_exact):
        found = re.search(r"^\S+ +(\d+)  \(", output, re.M)
    elif tool is tracepath:
        found = re.search(r"Resume: pmtu (\d+) hops", output)
    else:
        found = re.search(r"pmtu:? (\d+)|\[.*mtu: (\d+)", output)
        sizes = [int(x) for x in re.findall(r"mtu: (\d+)", output)]
        return min(sizes) if sizes else None
    return int(found.group(1)) if found else None


def run(chain, options, tool, family):
    """Value, seconds, and round trips: bursts of what left, with pauses of at least half a round trip."""
    capture = Capture(chain.prober, f"c{time.monotonic_ns()}", "right",
                      filter=f"dst host {chain.address[family]}")
    # What ICMP errors told the kernel during an earlier run isn't the tool's knowledge.
    chain.prober.ip("route flush cache")
    chain.prober.ip6("route flush cache")
    begin = time.monotonic()
    command = ["ip", "netns", "exec", chain.prober.name, *tool(options, chain.address[family], family)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout
    except subprocess.TimeoutExpired:
        output = ""
    took = time.monotonic() - begin
    time.sleep(1.1)
    chain.lab.end(capture.process)
    times = capture_times(capture.path)
    os.unlink(capture.path)
    bursts = sum(1 for a, b in zip([-1, *times], times) if b - a > 0.01)
    return value_of(tool, output), took, bursts


def capture_times(path):
    done = subprocess.run(["tcpdump", "-r", path, "-n", "-tt", "-q"], capture_output=True, text=True)
    return [float(line.split()[0]) for line in done.stdout.splitlines() if line[:1].isdigit()]


def cell(results, truth):
    values = [v for v, _, _ in results]
    worst = next((v for v in values if v != truth), truth)
    if worst is None:
        text = "none"
    elif worst == truth:
        text = "**right**"
    elif 0 < truth - worst < 8:
        text = f"{worst}"
    else:
        text = f"{worst} {'too large' if worst > truth else '(at least)'}"
    trips = statistics.median(t for _, _, t in results)
    seconds = statistics.median(s for _, s, _ in results)
    return f"{text}, {trips:.0f}, {seconds * 1000:.0f} ms" if seconds < LIMIT else f"{text}, {trips:.0f}, > {LIMIT} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fpmtud", default="build/fpmtud/fpmtud")
    options = parser.parse_args()
    options.fpmtud = os.path.abspath(options.fpmtud)
    for tool in ("tracepath", "scamper"):
        if not shutil.which(tool):
            print(f"{tool} is missing: apt-get install iputils-tracepath scamper", file=sys.stderr)
            return 2
    sweep(TAG)
    tools = (fpmtud, fpmtud_exact, tracepath, scamper)
    print("| path MTU | " + " | ".join(["fpmtud probe", "with --exact", "tracepath", "scamper"]) + " |")
    print("|---" * 5 + "|")
    for row in ROWS:
        with Chain(options.fpmtud, 3) as chain:
            middlebox(chain, "delay")
            if not row.icmp:
                chain.no_icmp()
            if not row.fragments:
                all_fragments(chain)
            chain.set_mtu(2, row.mtu)
            cells = [cell([run(chain, options, tool, row.family) for _ in range(RUNS if row.icmp else 1)],
                          row.mtu) for tool in tools]
            what = f"IPv{row.family}, {row.mtu}" + ("" if row.icmp else ", no ICMP errors") \
                + ("" if row.fragments else ", no fragments")
            print(f"| {what} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""10,000 targets from a file."""
import json
import os
import re
import subprocess
import time

from chain import Chain, need

SCENARIOS = {}
DEAD = 40


def run_targets(chain, count):
    """Results by address, the peak of resident memory in kB, what stderr said, the exit status."""
    path = os.path.join(chain.lab.dir, "targets")
    with open(path, "w") as f:
        f.write("# one a line\n\n")
        for i in range(count - DEAD):
            f.write(f"10.50.{i // 250}.{i % 250 + 1}  # alive\n")
        for i in range(DEAD):
            f.write(f"10.51.0.{i + 1}\n")
    out = os.path.join(chain.lab.dir, "out")
    with open(out, "w") as f:
        process = chain.prober.popen(chain.fpmtud, "probe", "--targets", path, "--json", "--rate", 2000,
                                     stdout=f, stderr=subprocess.PIPE, text=True)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    with open(out) as f:
        results = {r["address"]: r for r in map(json.loads, f)}
    return results, usage.ru_maxrss, errors, process.returncode


def targets_10000(options):
    # All those addresses are one responder's, and one source asks.
    with Chain(options.fpmtud, 1, serve=["--source-rate", "10000", "--total-rate", "10000"]) as chain:
        chain.set_mtu(0, 1280)  # few rungs: it's the number that counts here
        chain.responder.ip("route add local 10.50.0.0/16 dev lo")
        for node, via in ((chain.prober, "10.99.0.2"), (chain.routers[0], "10.99.1.2")):
            node.ip(f"route add 10.50.0.0/16 via {via}")
        chain.prober.ip("route add 10.51.0.0/16 via 10.99.0.2")
        chain.routers[0].ip("route add blackhole 10.51.0.0/16")
        few, memory_few, _, _ = run_targets(chain, 600)
        begin = time.monotonic()
        results, memory, errors, status = run_targets(chain, 10000)
        took = time.monotonic() - begin
        need(len(few) == 600 and len(results) == 10000, f"{len(results)} results")
        alive = [r for a, r in results.items() if a.startswith("10.50")]
        wrong = [r for r in alive if r["mtu"] != 1280]
        need(not wrong, f"{len(wrong)} wrong, as {wrong[:2]}")
        dead = [r for a, r in results.items() if a.startswith("10.51")]
        need(len(dead) == DEAD and all(r["mtu"] is None for r in dead), "silence got a value")
        need(status == 1, f"exit status {status}: some had no answer")
        need(memory < memory_few + 4096, f"{memory_few} kB for 600 targets, {memory} kB for 10,000")
        need(re.search(r"\d+ done, \d+ measured, \d+ under way", errors), "no progress was shown")
        print(f"{took:.1f} s, {memory} kB at most")


SCENARIOS["targets_10000"] = targets_10000

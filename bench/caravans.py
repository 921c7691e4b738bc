# SPDX-License-Identifier: BSD-3-Clause
"""What caravans save a receiving host: a sender outside, pxgw, and a host inside, in network namespaces. The same
datagrams at the same rate arrive one by one, by caravand, and in a program that embeds libcaravan, one after the
other. CPU is that of the inside host alone: the kernel's receiving (a NAPI thread of its own), caravand, and the
program. Table and plots are those of `pxbench report`. Needs root."""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from lab.gateway import Gateway  # noqa: E402
from lab.measuring import begin, progress, run  # noqa: E402
from lab.netns import Lab, LabError, sweep, wait_for  # noqa: E402

OUTSIDE, INSIDE, FAR = "10.9.0.1", "10.9.0.2", "198.51.100.1"
PORT, CARAVAN_PORT, SIZE = 6000, 7475, 1400
# What stands on the inside host: its name, whether caravand runs, and how the program receives.
SUBJECTS = {
    "one by one": (None, ()),
    "one by one, UDP_GRO": (None, ("--gro",)),
    "caravand": ("caravand", ()),
    "caravand, UDP_GRO": ("caravand", ("--gro",)),
    "libcaravan": ("program", ("--caravans", CARAVAN_PORT)),
}


def cpu_seconds(pid):
    """Of its one thread, to the nanosecond: runs are too short for ticks."""
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1e9


def napi_threads():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("napi/eth0-"):
                    found.add(int(pid))
        except OSError:
            pass  # it ended
    return found


class Bed:
    def __init__(self, o, takes):
        self.o = o
        self.lab = Lab("pxcar")
        try:
            self.outside, self.inside = self.lab.host("out"), self.lab.host("in")
            middle = self.lab.bump("gw")
            self.lab.veth(self.outside, "eth0", middle, "outside", 1500)
            self.lab.veth(self.inside, "eth0", middle, "inside", 9000)
            self.outside.ip(f"addr add {OUTSIDE}/24 dev eth0", f"addr add {FAR}/32 dev lo")
            self.inside.ip(f"addr add {INSIDE}/24 dev eth0", f"route add default via {OUTSIDE}")
            self.napi = self.own_napi()
            caravan = {None: "{mode: off}", "caravand": "{mode: on}",
                       "program": f"{{mode: on, hosts: [{INSIDE}]}}"}[takes]
            self.gateway = Gateway(middle, o.pxgw, caravan=caravan, cpus="[0]")
            self.gateway.start()
            self.daemon = self.start_caravand() if takes == "caravand" else None
            self.inside.run("ping", "-c1", "-W2", OUTSIDE)
        except BaseException:
            self.lab.close()
            raise

    def own_napi(self):
        """Receiving has a thread of its own, so that its time can be told from the sender's."""
        before = napi_threads()
        self.inside.run("ethtool", "-K", "eth0", "gro", "on")
        self.inside.run("sh", "-c", "echo 1 > /sys/class/net/eth0/threaded")
        new = napi_threads() - before
        if len(new) != 1:
            raise LabError(f"{len(new)} NAPI threads came into being, not one; it takes a kernel whose veth has NAPI")
        pid = new.pop()
        os.sched_setaffinity(pid, {1})
        return pid

    def start_caravand(self):
        socket = os.path.join(self.lab.dir, "caravand.sock")
        daemon = self.inside.popen("taskset", "-c", "1", self.o.caravand, "run", "--gateway", FAR, "--socket", socket,
                                   stdout=subprocess.DEVNULL)
        wait_for(lambda: subprocess.run([self.o.caravand, "status", "--socket", socket],
                                        capture_output=True).returncode == 0, 5, "registering")
        return daemon

    def measure(self, receive, mbps):
        program = self.inside.popen("taskset", "-c", "1", self.o.pxdgram, "receive", INSIDE, "--port", PORT, *receive,
                                    stdout=subprocess.PIPE, text=True)
        if program.stdout.readline() != "ready\n":
            raise LabError("the receiving program didn't start")
        threads = {"kernel": self.napi} | ({"caravand": self.daemon.pid} if self.daemon else {})
        before = {k: cpu_seconds(pid) for k, pid in threads.items()}
        wire = self.inside.counters()
        sent = json.loads(self.outside.run(
            "taskset", "-c", "0", self.o.pxdgram, "send", INSIDE, "--port", PORT, "--size", SIZE, "--mbps", mbps,
            "--seconds", self.o.seconds, "--flows", self.o.flows, "--burst", self.o.burst))
        time.sleep(0.3)
        cpu = {k: cpu_seconds(pid) - before[k] for k, pid in threads.items()}
        after = self.inside.counters()
        program.send_signal(signal.SIGTERM)
        got = json.loads(program.communicate(timeout=10)[0])
        if got["datagrams"] == 0:
            raise LabError("nothing arrived")
        cpu["program"] = got["cpu_s"]
        gb = got["bytes"] / 1e9
        return {"gbps": got["bytes"] * 8e-9 / sent["seconds"], "lost": sent["datagrams"] - got["datagrams"],
                "sent": sent["datagrams"], "reordered": got["reordered"], "delay_us": got["delay_us"],
                "packets_a_datagram": (after["rx_packets"] - wire["rx_packets"]) / got["datagrams"],
                "datagrams_a_call": got["datagrams"] / got["calls"],
                "cpu_s_per_gb": {k: v / gb for k, v in cpu.items()}}


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cpu": cpu, "cpus": os.cpu_count(), "dpdk": f"Linux {platform.release()}", "pages": "kernel ports",
            "date": time.strftime("%Y-%m-%d"), "load_average": os.getloadavg()[0]}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    build = os.path.join(ROOT, "build")
    p.add_argument("--pxgw", default=f"{build}/pxgw/pxgw")
    p.add_argument("--caravand", default=f"{build}/caravan/caravand")
    p.add_argument("--pxdgram", default=f"{build}/bench/datagrams/pxdgram")
    p.add_argument("--pxbench", default=f"{build}/bench/pxbench")
    p.add_argument("--mbps", type=lambda t: [int(x) for x in t.split(",")], default=[300, 600],
                   help="rates of payload, Mb/s (300,600)")
    p.add_argument("--only", action="append", choices=SUBJECTS, help="instead of all; may be given several times")
    p.add_argument("--flows", type=int, default=4, help="source ports (4)")
    p.add_argument("--burst", type=int, default=32, help="datagrams that a flow sends at once (32)")
    p.add_argument("--seconds", type=float, default=4, help="of each transfer (4)")
    p.add_argument("--rounds", type=int, default=5, help="in which all take turns (5)")
    p.add_argument("--json", metavar="FILE", help="write all rounds to this file, for pxbench report")
    p.add_argument("--plots", metavar="DIR", help="folder for the plots")
    o = begin(p)
    if os.cpu_count() < 2:
        p.exit(2, "caravans.py: the inside host has CPU 1 for itself; run it where there are two\n")
    sweep("pxcar")
    subjects = {name: SUBJECTS[name] for name in o.only or SUBJECTS}
    results = {(name, m): {"name": name, "mbps": m, "rounds": []} for m in o.mbps for name in subjects}
    for i in range(o.rounds):
        for name, (takes, receive) in subjects.items():
            bed = Bed(o, takes)
            try:
                for m in o.mbps:
                    progress(f"round {i + 1} of {o.rounds}: {name}, {m} Mb/s")
                    results[name, m]["rounds"].append(bed.measure(receive, m))
            finally:
                bed.lab.close()
    progress()
    with tempfile.TemporaryDirectory() as folder:
        path = o.json or os.path.join(folder, "caravans.json")
        with open(path, "w") as f:
            json.dump({"machine": machine(), "kind": "caravans", "size": SIZE, "flows": o.flows, "burst": o.burst,
                       "results": list(results.values())}, f, indent=1)
        return subprocess.run([o.pxbench, "report", path, "--plots", o.plots or folder]).returncode


if __name__ == "__main__":
    run(main)

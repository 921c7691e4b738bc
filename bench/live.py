# SPDX-License-Identifier: BSD-3-Clause
"""TCP between two hosts in network namespaces, through what stands between them, one after the other:
pxgw on kernel ports, dpdk-testpmd on net_af_packet (forwards frames as they are), Linux forwarding, and
nginx as a stream proxy. 1500 B outside and 9000 B inside. Offloads are off at all interfaces, so that single
frames cross as on a wire; "GRO" merges at both interfaces between the hosts what has crossed. Prints a table.
Needs root, iperf3, and for the others dpdk-dev, nginx-light and libnginx-mod-stream."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from lab.gateway import Gateway  # noqa: E402
from lab.measuring import begin, progress, run  # noqa: E402
from lab.netns import Lab, LabError, cpu_seconds, wait_for  # noqa: E402

SERVER, PORT = "10.9.0.1", 5201
STREAM_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
TICK = os.sysconf("SC_CLK_TCK")


def process_cpu(pid):
    """CPU seconds of a process and its children that have not ended."""
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return sum(cpu_seconds(p) for p in [pid, *children])


def machine_cpu():
    """CPU seconds that weren't idle, of all CPUs."""
    v = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(v) - v[3] - v[4]) / TICK


class Between:
    """Two hosts on one link layer, or with a router between them."""
    routed = False
    gro = False
    address = SERVER

    def __init__(self, pxgw):
        self.lab = Lab("pxlive")
        try:
            self.outside, self.inside = self.lab.host("outside"), self.lab.host("inside")
            self.middle = self.lab.host("middle") if self.routed else self.lab.bump("middle")
            self.lab.veth(self.outside, "eth0", self.middle, "outside", 1500)
            self.lab.veth(self.inside, "eth0", self.middle, "inside", 9000)
            self.outside.ip(f"addr add {SERVER}/24 dev eth0")
            self.inside.ip(f"addr add {'10.9.1.2' if self.routed else '10.9.0.2'}/24 dev eth0")
            if self.routed:
                self.middle.ip("addr add 10.9.0.254/24 dev outside", "addr add 10.9.1.254/24 dev inside")
                self.outside.ip("route add default via 10.9.0.254")
                self.inside.ip("route add default via 10.9.1.254")
            for interface in ("outside", "inside"):
                if self.gro:
                    self.middle.run("ethtool", "-K", interface, "gro", "on")
            self.process = self.start(pxgw)
            self.server = self.outside.popen("iperf3", "-s", "-p", PORT, stdout=subprocess.DEVNULL)
            wait_for(lambda: f":{PORT}" in self.outside.run("ss", "-ltn"), 5, "starting iperf3")
        except BaseException:
            self.lab.close()
            raise

    def measure(self, direction, seconds):
        received = self.inside if direction == "in" else self.outside
        before, busy = received.counters(), machine_cpu()
        own = process_cpu(self.process.pid) if self.process else 0
        if self.process and self.process.poll() is not None:
            raise LabError(f"{self.name} ended with {self.process.returncode}")
        text = self.inside.run("iperf3", "-c", self.address, "-p", PORT, "-t", seconds, "-J",
                               *(["-R"] if direction == "in" else []))
        end = json.loads(text)["end"].get("sum_received")
        if not end or not end["bytes"]:
            raise LabError(f"{self.name}: nothing arrived: {json.loads(text).get('error')}")
        after, gb = received.counters(), end["bytes"] / 1e9
        packets = after["rx_packets"] - before["rx_packets"]
        own = process_cpu(self.process.pid) - own if self.process else None
        return {"gbps": end["bits_per_second"] / 1e9, "all_cpu_s_per_gb": (machine_cpu() - busy) / gb,
                "own_cpu_s_per_gb": own / gb if own is not None else None,
                "gbps_per_core": end["bytes"] * 8e-9 / own if own else None,
                "bytes_a_packet": (after["rx_bytes"] - before["rx_bytes"]) / packets}


class Pxgw(Between):
    """Turns GRO on by itself."""
    name = "pxgw, kernel ports"
    offloads = "{}"

    def start(self, pxgw):
        gateway = Gateway(self.middle, pxgw, offloads=self.offloads)
        gateway.start()
        return gateway.process


class PxgwSingly(Pxgw):
    name = "pxgw, kernel ports, `lro: off`"
    offloads = "{lro: off}"


class Testpmd(Between):
    name = "testpmd, net_af_packet"
    needs = "dpdk-testpmd"

    def start(self, _):
        log = open(os.path.join(self.lab.dir, "testpmd.log"), "w")
        return self.middle.popen(
            "dpdk-testpmd", "-l", "0,1", "--no-pci", "--no-huge", "-m", "1024", "--no-telemetry",
            "--file-prefix", self.lab.prefix,
            "--vdev", "net_af_packet0,iface=outside", "--vdev", "net_af_packet1,iface=inside", "--",
            "--forward-mode=io", "--auto-start", "--stats-period=60", "--total-num-mbufs=32768", stdout=log,
            stderr=log, stdin=subprocess.PIPE)


class Forwarding(Between):
    name = "Linux forwarding"
    routed = True

    def start(self, _):
        self.middle.sysctl(net__ipv4__ip_forward=1)


class ForwardingGro(Forwarding):
    name = "Linux forwarding, GRO"
    gro = True


class Proxy(Between):
    name = "nginx stream proxy"
    needs = "nginx"
    routed = True
    address = "10.9.1.254"

    def start(self, _):
        config = os.path.join(self.lab.dir, "nginx.conf")
        with open(config, "w") as f:
            f.write(f"load_module {STREAM_MODULE};\nworker_processes 1;\ndaemon off;\n"
                    f"pid {self.lab.dir}/nginx.pid;\nerror_log {self.lab.dir}/nginx.log;\n"
                    "events {}\n"
                    f"stream {{ server {{ listen {PORT}; proxy_buffer_size 64k; proxy_pass {SERVER}:{PORT}; }} }}\n")
        return self.middle.popen("nginx", "-c", config, "-e", f"{self.lab.dir}/nginx.log",
                                 stderr=subprocess.DEVNULL)


class ProxyGro(Proxy):
    name = "nginx stream proxy, GRO"
    gro = True


ALL = (Pxgw, PxgwSingly, Testpmd, Forwarding, ForwardingGro, Proxy, ProxyGro)


def show(results):
    print("| between the hosts | direction | Gb/s | bytes a packet at the receiver | CPU s/GB, itself | "
          "CPU s/GB, all | Gb/s a core of its own |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for r in results:
        def cell(key, digits):
            v = [x[key] for x in r["rounds"] if x[key] is not None]
            return f"{statistics.median(v):.{digits}f}" if v else "in softirq"
        print(f"| {r['name']} | {r['direction']} | {cell('gbps', 1)} | {cell('bytes_a_packet', 0)} | "
              f"{cell('own_cpu_s_per_gb', 2)} | {cell('all_cpu_s_per_gb', 2)} | {cell('gbps_per_core', 1)} |")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--pxgw", default=os.path.join(ROOT, "build/pxgw/pxgw"))
    p.add_argument("--seconds", type=int, default=5, help="of each transfer (5)")
    p.add_argument("--rounds", type=int, default=3, help="in which all take turns (3)")
    p.add_argument("--json", metavar="FILE", help="write all rounds to this file, too")
    o = begin(p)
    kinds = [k for k in ALL if shutil.which(getattr(k, "needs", "iperf3"))]
    for k in set(ALL) - set(kinds):
        print(f"live.py: {k.name}: {getattr(k, 'needs', 'iperf3')} isn't installed, left out", file=sys.stderr)
    results = {(k.name, d): {"name": k.name, "direction": d, "rounds": []} for k in kinds for d in ("in", "out")}
    for i in range(o.rounds):
        for k in kinds:
            between = k(o.pxgw)
            try:
                time.sleep(2)
                for d in ("in", "out"):
                    progress(f"round {i + 1} of {o.rounds}: {k.name}, {d}")
                    results[k.name, d]["rounds"].append(between.measure(d, o.seconds))
            finally:
                between.lab.close()
    progress()
    show(results.values())
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"kind": "live", "results": list(results.values())}, f, indent=1)
    return 0


if __name__ == "__main__":
    run(main)

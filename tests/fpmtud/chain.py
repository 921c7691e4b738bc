# SPDX-License-Identifier: BSD-3-Clause
"""A prober and a responder with 1 to 5 routers between them, and what is done to their packets."""
import json
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from capture import Capture, stop_captures  # noqa: E402
from lab.middlebox import insert  # noqa: E402
from lab.netns import Lab  # noqa: E402
from lab.scenario import Failure, need  # noqa: E402,F401

TAG = "pxf"
PORT = 7474
WIDEST = 9000
PORTS = 4  # source ports of a probing, unless --flows says otherwise; with --exact one


class Chain:
    """prober -- router 1 -- ... -- router n -- responder; link i lies behind the i-th of them.

    All links are 9000 B wide until set_mtu() says otherwise."""

    def __init__(self, fpmtud, routers, serve=()):
        self.fpmtud, self.routers = fpmtud, []
        self.mtus = [WIDEST] * (routers + 1)
        self.lab = Lab(TAG)
        try:
            self.prober, self.responder = self.lab.host("a"), self.lab.host("b")
            self.routers = [self.lab.host(f"r{i}") for i in range(1, routers + 1)]
            self._build()
            self.server = None
            if serve is not None:
                self.serve(*serve)
        except BaseException:
            self.lab.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.close()

    def _build(self):
        nodes = [self.prober, *self.routers, self.responder]
        for r in self.routers:
            r.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
                     net__ipv4__icmp_ratelimit=0, net__ipv4__icmp_msgs_per_sec=100000,
                     net__ipv6__icmp__ratelimit=0)
        for i in range(len(nodes) - 1):
            left, right = nodes[i], nodes[i + 1]
            self.lab.veth(left, "right", right, "left", WIDEST)
            left.ip(f"addr add 10.99.{i}.1/24 dev right")
            right.ip(f"addr add 10.99.{i}.2/24 dev left")
            left.ip6(f"addr add fd99:{i}::1/64 dev right nodad")
            right.ip6(f"addr add fd99:{i}::2/64 dev left nodad")
        last = len(nodes) - 2
        for i, node in enumerate(nodes):
            if i < len(nodes) - 1:
                for k in range(i + 1, last + 1):
                    node.ip(f"route add 10.99.{k}.0/24 via 10.99.{i}.2")
                    node.ip6(f"route add fd99:{k}::/64 via fd99:{i}::2")
            if i > 0:
                for k in range(0, i - 1):
                    node.ip(f"route add 10.99.{k}.0/24 via 10.99.{i - 1}.1")
                    node.ip6(f"route add fd99:{k}::/64 via fd99:{i - 1}::1")
        self.nodes = nodes
        self.address = {4: f"10.99.{last}.2", 6: f"fd99:{last}::2"}
        self.source = {4: "10.99.0.1", 6: "fd99:0::1"}

    def serve(self, *options):
        self.server = self.responder.popen(self.fpmtud, "serve", "--port", PORT, *options,
                                           stdout=subprocess.PIPE, text=True)
        line = self.server.stdout.readline()
        need("answers on" in line, "fpmtud serve didn't start")

    def stop_server(self):
        """Its counters."""
        need(self.server.poll() is None, "the responder has ended by itself")
        need(self.lab.end(self.server) == 0, "the responder ended with an error")
        words = self.server.stdout.read().split("probes", 1)[1].split()
        words.insert(0, "probes")
        return dict(zip(words[::2], map(int, words[1::2])))

    def set_mtu(self, link, mtu):
        for node, name in ((self.nodes[link], "right"), (self.nodes[link + 1], "left")):
            node.ip(f"link set dev {name} mtu {mtu}")
        self.mtus[link] = mtu

    def truth(self):
        return min(self.mtus)

    def in_routers(self, *rules, family=4):
        for r in self.routers:
            iptables(r, *rules, family=family)

    def no_icmp(self):
        """Routers' errors don't reach anyone."""
        for r in self.routers:
            iptables(r, "-A OUTPUT -p icmp -j DROP")
            iptables(r, "-A OUTPUT -p icmpv6 --icmpv6-type packet-too-big -j DROP", family=6)

    def probe(self, *options, family=4, check=True, stdin=None):
        """The result as the JSON that --json prints."""
        done = subprocess.run(["ip", "netns", "exec", self.prober.name, self.fpmtud, "probe",
                               self.address[family], "--json", *map(str, options)],
                              capture_output=True, text=True, timeout=120)
        if check:
            need(done.returncode == 0, f"exit status {done.returncode}: {done.stdout}{done.stderr}")
        result = json.loads(done.stdout.splitlines()[-1])
        result["exit"] = done.returncode
        return result

    def popen(self, *options, **kwargs):
        return self.prober.popen(self.fpmtud, "probe", *options, stdout=subprocess.PIPE, text=True,
                                 **kwargs)


def iptables(space, *rules, family=4):
    for rule in rules:
        space.run("iptables" if family == 4 else "ip6tables", "-w", *rule.split())


def middlebox(chain, kind):
    """The second router's traffic towards the responder goes through a box of that kind."""
    insert(chain.routers[1], kind, "left")


class ProbeCapture:
    """What leaves the prober, by nonce: the rounds that it took are counted here, not by the tool."""

    def __init__(self, chain):
        self.capture = Capture(chain.prober, "probes", "right", filter=f"udp dst port {PORT}",
                               limit=500000)

    def rounds(self, ports=PORTS):
        stop_captures(self.capture)
        by_nonce = {}
        for frame in self.capture.frames():
            at = frame.data.find(b"FPMT", 14)
            if at < 0:
                continue
            head = frame.data[at:at + 24]
            by_nonce.setdefault(head[8:24], set()).add(head[7])
        each = [len(r) for r in by_nonce.values()]
        return [max(each[i:i + ports]) for i in range(0, len(each), ports)]

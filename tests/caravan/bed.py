# SPDX-License-Identifier: BSD-3-Clause
"""A host with caravand, a gateway, and a host outside that knows nothing of caravans.

    inside host (default route) -- 9000 B -- gateway -- outside host, with addresses that only a default
                                                        route leads to"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from lab.gateway import Gateway
from lab.netns import Lab, LabError, wait_for  # noqa: F401
from lab.scenario import Failure, need  # noqa: F401

TAG = "pxv"
UDP_SEGMENT, UDP_GRO = 103, 104
INSIDE = {4: "10.9.0.2", 6: "fd09::2"}
FAR = {4: "198.51.100.1", 6: "2001:db8:51::1"}  # of the outside host, behind the default route
NEAR = {4: "10.9.0.1", 6: "fd09::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


class Bed:
    def __init__(self, args, mtu=1500, gateway=(), caravand=(), caravan="{mode: on}", **keys):
        self.args, self.keys = args, {"caravan": caravan, **keys}  # of pxgw's configuration
        self.lab = Lab(TAG)
        self.gateway = self.daemon = self.pxgw = None
        self.wide = mtu > 1500
        self.options = caravand
        try:
            self._build(mtu)
            if gateway is not None:
                self.start_gateway(*gateway)
            if caravand is not None:
                self.start_caravand()
                self.wait_active()
        except BaseException:
            self.lab.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and self.daemon is not None:
            print(self.status(check=False))
            if self.pxgw is not None:
                print(self.pxgw.log(20), self.pxgw.stats(check=False))
        self.lab.close()

    def _build(self, mtu):
        lab = self.lab
        self.inside, self.outside, self.bump = lab.host("in"), lab.host("out"), lab.bump("gw")
        lab.veth(self.inside, "eth0", self.bump, "inside", 9000)
        lab.veth(self.outside, "eth0", self.bump, "outside", 9000)
        self.outside.ip(f"link set dev eth0 mtu {mtu}")
        # As distributions set it: what arrives where its way back doesn't lead is dropped.
        self.inside.sysctl(net__ipv4__conf__all__rp_filter=1, net__ipv4__conf__default__rp_filter=1)
        for version, bits in ((4, 24), (6, 64)):
            for space, address in ((self.inside, INSIDE), (self.outside, NEAR)):
                line = f"addr add {address[version]}/{bits} dev eth0" + (" nodad" if version == 6 else "")
                (space.ip if version == 4 else space.ip6)(line)
            (self.outside.ip if version == 4 else self.outside.ip6)(
                f"addr add {FAR[version]}/{32 if version == 4 else 128} dev lo" + (" nodad" if version == 6 else ""))
            (self.inside.ip if version == 4 else self.inside.ip6)(f"route add default via {NEAR[version]}")

    def start_gateway(self, *options):
        """pxgw; or, where options are given or its size limits are in the way, one made of the library alone."""
        if self.args.pxgw and not options and not self.wide:
            self.pxgw = self.pxgw or Gateway(self.bump, self.args.pxgw, **self.keys)
            self.pxgw.start()
            return
        self.gateway = self.bump.popen(self.args.gateway, "inside", "outside", *options,
                                       stdout=subprocess.PIPE, text=True)
        need(self.gateway.stdout.readline() == "ready\n", "the gateway didn't start")

    def stop_gateway(self, sig=signal.SIGTERM):
        """What it counted, unless it was killed."""
        if self.pxgw is not None:
            return self._stop_pxgw(sig)
        self.lab.end(self.gateway, sig)
        text = self.gateway.stdout.read()
        return json.loads(text) if sig == signal.SIGTERM else None

    def _stop_pxgw(self, sig):
        if sig != signal.SIGTERM:
            return self.pxgw.kill()
        stats = self.pxgw.settled_stats()
        need(stats["unaccounted"] == 0, f"{stats['unaccounted']} packets are unaccounted for")
        code = self.pxgw.stop()
        need(code == 0, f"pxgw ended with {code}: {self.pxgw.log(8)}")
        c = stats["caravan"]
        return {"refused": sum(v for k, v in c.items() if k.startswith("drop_")),
                "datagrams_to_inside": c["bundle_out_datagrams"], "datagrams_from_inside": c["unbundle_out"],
                "caravans_from_inside": c["unbundle_in"]}

    def start_caravand(self):
        self.socket_path = os.path.join(self.lab.dir, "caravand.sock")
        self.daemon = self.inside.popen(self.args.caravand, "run", "--gateway", FAR[4], "--gateway", FAR[6],
                                        "--socket", self.socket_path, *self.options,
                                        stdout=subprocess.PIPE, text=True)
        need("asks" in self.daemon.stdout.readline(), "caravand didn't start")

    def status(self, check=True):
        done = subprocess.run([self.args.caravand, "status", "--json", "--socket", self.socket_path],
                              capture_output=True, text=True, timeout=10)
        if check:
            need(done.returncode in (0, 1), f"caravand status: {done.stderr}")
        return json.loads(done.stdout) if done.stdout else {}

    def active(self):
        return all(f["active"] for f in self.status()["families"])

    def wait_active(self, timeout=5):
        return wait_for(self.active, timeout, "registering")

    def counters(self):
        return self.status()["counters"]

    def udp(self, space, version, address="", port=0):
        with space.entered():
            s = socket.socket(FAMILY[version], socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        s.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)  # SO_SNDBUFFORCE
        s.bind((address, port))
        return s

    def rules(self):
        return self.inside.run("ip", "rule") + self.inside.run("ip", "-6", "rule")

    def table(self):
        """Routes of caravand's table; a table without any has no name to ask for."""
        return (self.inside.run("ip", "route", "show", "table", 7475, check=False) +
                self.inside.run("ip", "-6", "route", "show", "table", 7475, check=False))


def payload(number, size):
    """Numbered where there is room; every byte follows from number and place."""
    body = struct.pack("!I", number & 0xffffffff) + bytes(((number * 7) + i) & 255 for i in range(min(size, 251)))
    return (body * (size // len(body) + 1))[:size]


def collect(sock, count, timeout=10):
    """Datagrams and where they came from, until there are `count` or nothing came for a second."""
    got = []
    sock.settimeout(1)
    end = time.monotonic() + timeout
    while len(got) < count and time.monotonic() < end:
        try:
            got.append(sock.recvfrom(65536))
        except socket.timeout:
            break
    return got


def check_stream(got, sizes, source, what, lost_allowed=False):
    """Each datagram once, in order, with its bytes, from its true source."""
    expected = [payload(i, n) for i, n in enumerate(sizes)]
    need(all(g[1][:2] == source for g in got), f"{what}: from {set(g[1][:2] for g in got)}, not {source}")
    data = [g[0] for g in got]
    if lost_allowed:
        at = 0
        for d in data:
            while at < len(expected) and expected[at] != d:
                at += 1
            need(at < len(expected), f"{what}: a datagram that wasn't sent, or too late")
            at += 1
        return
    need(len(data) == len(expected), f"{what}: {len(data)} of {len(expected)} datagrams arrived")
    for i, (a, b) in enumerate(zip(data, expected)):
        need(a == b, f"{what}: datagram {i} of {len(b)} B has other bytes ({len(a)} B)")


def python(bed, space, code, *args, **kwargs):
    return space.popen(sys.executable, "-c", code, *args, stdout=subprocess.PIPE, text=True, **kwargs)

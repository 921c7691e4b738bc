# SPDX-License-Identifier: BSD-3-Clause
"""Loss, boxes that reassemble, asymmetric and changing paths, routes, keys, hosts without a responder."""
import json
import os
import select
import signal
import time

from chain import Chain, ProbeCapture, iptables, middlebox, need
from paths import judge, sweep

SCENARIOS = {}


def lossy(chain):
    """Of a hundred packets five, each way, on one router."""
    for family in (4, 6):
        iptables(chain.routers[0], "-A FORWARD -m statistic --mode random --probability 0.05 -j DROP",
                 family=family)


SCENARIOS["ipv4_loss"] = sweep(4, icmp=False, prepare=lossy, rounds=None)
SCENARIOS["ipv6_loss"] = sweep(6, icmp=False, prepare=lossy, rounds=None)
SCENARIOS["ipv4_loss_exact"] = sweep(4, icmp=False, prepare=lossy, rounds=None, exact=True)


def reassembler(options):
    """Fragments arrive whole, though the links before are narrow."""
    with Chain(options.fpmtud, 2) as chain:
        middlebox(chain, "reassemble")
        chain.no_icmp()
        capture = ProbeCapture(chain)
        results = []
        for mtu in (1280, 1377, 1400, 1474, 1492, 1500, 4470, 5000, 8950, 8961):
            chain.set_mtu(1, mtu)
            results.append((mtu, chain.probe()))
        rounds = capture.rounds()
        for (mtu, r), n in zip(results, rounds):
            need(not judge(r, mtu, 4, False, False), f"{mtu}: {judge(r, mtu, 4, False, False)}: {r}")
            need("reassembler" in r["notes"], f"{mtu}: the reassembler went unnoticed: {r}")
            # Close to the top few probes contradict the fragment; then loss is ruled out first.
            need(n == r["rounds"] and n <= (1 if mtu < 8900 else 3), f"{mtu}: {n} rounds: {r}")
        exact = chain.probe("--exact")
        need(exact["mtu"] == 8961 and exact["exact"], f"--exact: {exact}")


def asymmetric(options):
    """Back it goes another way, of another width."""
    with Chain(options.fpmtud, 1) as chain:
        a, b, lab = chain.prober, chain.responder, chain.lab
        other = lab.host("other")
        other.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        lab.veth(a, "alt", other, "left", 9000)
        lab.veth(other, "right", b, "alt", 9000)
        for space in (a, b, other, *chain.routers):
            space.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__default__rp_filter=0)
        a.ip("addr add 10.98.0.1/24 dev alt")
        other.ip("addr add 10.98.0.2/24 dev left", "addr add 10.98.1.1/24 dev right")
        b.ip("addr add 10.98.1.2/24 dev alt")
        a.ip6("addr add fd98:0::1/64 dev alt nodad")
        other.ip6("addr add fd98:0::2/64 dev left nodad", "addr add fd98:1::1/64 dev right nodad")
        b.ip6("addr add fd98:1::2/64 dev alt nodad")
        other.ip("route add 10.99.0.0/24 via 10.98.0.1")
        other.ip6("route add fd99:0::/64 via fd98:0::1")
        b.ip("route replace 10.99.0.0/24 via 10.98.1.1")
        b.ip6("route replace fd99:0::/64 via fd98:1::1")
        for there, back in ((9000, 1400), (1400, 9000), (1500, 1492), (4469, 1377)):
            chain.set_mtu(1, there)
            other.ip(f"link set dev left mtu {back}")
            a.ip(f"link set dev alt mtu {back}")
            for family in (4, 6):
                for exact in (False, True):
                    r = chain.probe("--both", *(["--exact"] if exact else []), family=family)
                    for name, got, truth in (("there", r, there), ("back", r["reverse"], back)):
                        fault = judge(got, truth, family, True, exact)
                        need(not fault, f"{there} and {back}, IPv{family}, {name}: {fault}: {r}")
        chain.stop_server()
        chain.serve("--no-reverse")
        r = chain.probe("--both", check=False)
        need(r["exit"] == 1 and r["reverse"]["mtu"] is None and r["mtu"] is not None,
             f"a refused way back: {r}")


class Lines:
    """The lines of a process as they come."""

    def __init__(self, process):
        self.process = process

    def next(self, timeout):
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        return self.process.stdout.readline() if ready else None


def watch(options):
    """What changes is printed soon, and nothing else."""
    with Chain(options.fpmtud, 3) as chain:
        chain.no_icmp()
        process = chain.popen(chain.address[4], "--watch", "0.2", "--json")
        lines = Lines(process)
        for mtu in (9000, 1500, 1400, 9000, 1492):
            chain.set_mtu(1, mtu)
            begin = time.monotonic()
            line = lines.next(5)
            need(line, f"nothing was printed after the path became {mtu}")
            took = time.monotonic() - begin
            r = json.loads(line)
            need(r["mtu"] == mtu, f"the path became {mtu}: {r}")
            need(took < 1.5, f"the path became {mtu}, seen after {took:.1f} s")
            need(lines.next(0.7) is None, "something was printed though nothing changed")
        # The responder goes away: not a small MTU.
        chain.stop_server()
        line = lines.next(15)
        need(line and json.loads(line)["mtu"] is None, f"the responder went away: {line}")
        need(chain.lab.end(process, signal.SIGINT) == 1, "exit status after a last result without value")


def interface_change(options):
    """The prober's own interface narrows while it watches."""
    with Chain(options.fpmtud, 1) as chain:
        lines = Lines(chain.popen(chain.address[4], "--watch", "0.1", "--json"))
        for mtu in (9000, 1500, 2000, 9000):
            chain.set_mtu(0, mtu)
            line = lines.next(5)
            need(line and json.loads(line)["mtu"] == mtu, f"the interface became {mtu}: {line}")


def routes(options):
    """--set-route makes Linux use the value, --unset-route removes what it made and nothing else."""
    with Chain(options.fpmtud, 2) as chain:
        chain.set_mtu(1, 1400)
        for family in (4, 6):
            get = lambda: chain.prober.run("ip", "route", "get", chain.address[family])
            r = chain.probe("--set-route", family=family)
            need(r["route_ok"] and f"mtu {r['mtu']}" in get(), f"{r}: {get()}")
            chain.set_mtu(1, 1500)
            r = chain.probe("--set-route", family=family)
            need(r["mtu"] == 1500 and "mtu 1500" in get(), f"raised: {r}: {get()}")
            chain.set_mtu(1, 1400)
            r = chain.probe("--unset-route", family=family)
            need(r["route_ok"] and "mtu 1500" not in get(), f"{r}: {get()}")
            r = chain.probe("--unset-route", family=family, check=False)
            need(r["exit"] == 1 and not r["route_ok"], f"there was nothing to remove: {r}")
        chain.prober.ip(f"route add {chain.address[4]}/32 via 10.99.0.2 mtu 1300")
        r = chain.probe("--unset-route", check=False)
        need(r["exit"] == 1 and "mtu 1300" in chain.prober.run("ip", "route", "get", chain.address[4]),
             f"the administrator's route was removed: {r}")
        # A route's MTU and what ICMP errors left in the kernel don't hide the path.
        r = chain.probe()
        need(r["mtu"] == 1400, f"beside a route of mtu 1300: {r}")


def fallback(options):
    with Chain(options.fpmtud, 2, serve=None) as chain:
        chain.set_mtu(1, 1377)
        for family in (4, 6):
            r = chain.probe(family=family, check=False)
            need(r["exit"] == 1 and r["mtu"] is None and r["verdict"] == "refused", f"no responder: {r}")
            r = chain.probe("--fallback", family=family)
            need(r["mtu"] == 1377 and "via_echo" in r["notes"], f"with ICMP errors: {r}")
        chain.no_icmp()
        for family in (4, 6):
            r = chain.probe("--fallback", family=family)
            need(not judge(r, 1377, family, False, False) and "via_echo" in r["notes"],
                 f"without ICMP errors: {r}")
        # Nothing answers at all.
        chain.in_routers("-A FORWARD -j DROP")
        r = chain.probe("--fallback", check=False)
        need(r["exit"] == 1 and r["mtu"] is None and r["verdict"] == "silent", f"silence: {r}")


def keys(options):
    with Chain(options.fpmtud, 1, serve=None) as chain:
        files = {}
        for name in ("right", "wrong"):
            files[name] = os.path.join(chain.lab.dir, name)
            with open(os.open(files[name], os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write(f"{name} key of this test\n")
        chain.serve("--key-file", files["right"])
        r = chain.probe("--key-file", files["right"], "--both")
        need(r["mtu"] == 9000 and r["reverse"]["mtu"] == 9000, f"the right key: {r}")
        for other in (["--key-file", files["wrong"]], []):
            r = chain.probe(*other, check=False)
            need(r["exit"] == 1 and r["verdict"] == "silent", f"{other or 'no key'}: {r}")
        counters = chain.stop_server()
        need(counters["drop_unsigned"] > 0 and counters["drop_not_ours"] > 0, f"{counters}")
        # A prober with a key believes no responder without.
        chain.serve()
        r = chain.probe("--key-file", files["right"], check=False)
        need(r["verdict"] == "silent", f"a responder without a key: {r}")


def load_sharing(options):
    """Two links of different width share the load by ports: the least counts."""
    with Chain(options.fpmtud, 2) as chain:
        a, b = chain.routers
        chain.lab.veth(a, "more", b, "more", 9000)
        a.ip("addr add 10.98.0.1/24 dev more")
        b.ip("addr add 10.98.0.2/24 dev more")
        a.sysctl(net__ipv4__fib_multipath_hash_policy=1)
        chain.set_mtu(1, 1500)
        a.ip(f"route replace {chain.address[4]}/32 nexthop via 10.99.1.2 nexthop via 10.98.0.2")
        chain.no_icmp()
        one = {chain.probe("--flows", 1)["mtu"] for _ in range(12)}
        need(one == {1500, 9000}, f"single flows should see both links: {one}")
        for _ in range(5):
            r = chain.probe("--flows", 16)
            need(r["mtu"] == 1500, f"16 flows: {r}")
            need(r["round_trips"] == 1, f"more than one round trip: {r}")
            paths = {p["port"]: p["mtu"] for p in r["paths"] if p["port"] != 0}
            need(r["paths_differ"] and len(paths) == 16 and set(paths.values()) == {1500, 9000},
                 f"the paths aren't told apart: {r}")
        # Few ports see one link alone once in sixteen times; no more often.
        found = [chain.probe()["mtu"] for _ in range(20)]
        need(found.count(1500) >= 14, f"by default: {found}")
        # Ports whose probes are lost on the narrow link say nothing: no small MTU, no other path.
        a.run("iptables", "-A", "FORWARD", "-p", "udp", "-o", "right", "-j", "DROP")
        r = chain.probe("--flows", 16)
        need(r["mtu"] == 9000 and not r["paths_differ"], f"silence on some ports: {r}")


def df_cleared(options):
    """A box that fragments what must not be fragmented: what arrives in pieces hasn't passed."""
    with Chain(options.fpmtud, 2) as chain:
        chain.no_icmp()
        middlebox(chain, "clear-df")
        for mtu in (1400, 1500, 4469):
            chain.set_mtu(2, mtu)
            r = chain.probe()
            need(not judge(r, mtu, 4, True, False), f"{mtu}: {judge(r, mtu, 4, True, False)}: {r}")
            need("df_cleared" in r["notes"], f"{mtu}: it went unnoticed: {r}")


SCENARIOS.update({f.__name__: f for f in (reassembler, asymmetric, watch, interface_change, routes,
                                          fallback, keys, load_sharing, df_cleared)})

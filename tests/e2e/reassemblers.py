# SPDX-License-Identifier: BSD-3-Clause
"""Two networks of jumbo frames with a narrow link between, beyond which fragments are made whole: the probe that was
cut there arrives as if it had not been.

    gateway 1 -- 9000 B -- router -- narrow -- router 2 -- 9000 B -- gateway 2
"""
from bed import MB, need
from jumbo_networks import Networks, name
from lab.gateway import difference
from lab.middlebox import insert

SCENARIOS = {}


class TwoRouters(Networks):
    """IPv4, without ICMP errors. Either router makes whole what came over the narrow link: by "conntrack", which
    cuts it again where it has to, or by a "box" that forgets that there were fragments."""

    def __init__(self, options, kind, narrow):
        self.kind, self.narrow = kind, narrow
        super().__init__(options, silent=True)

    def router_at(self, number):
        if number == 1:
            return self.router
        second = self.lab.host("router2")
        self.routers.append(second)
        second.sysctl(net__ipv4__ip_forward=1)
        self.lab.veth(self.router, "mid", second, "mid", self.narrow)
        for n, router in enumerate(self.routers, 1):
            router.ip(f"addr add 10.9.9.{n}/24 dev mid", f"route add 10.9.{3 - n}.0/24 via 10.9.9.{3 - n}")
            if self.kind == "conntrack":
                router.run(*"iptables -A FORWARD -m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT".split())
                continue
            insert(router, "reassemble", "mid", "ipproto udp")
        return second


def reassembles(kind, narrow):
    """Fragmentable probes arrive as if no link were narrow, and no router tells of it: what passes unfragmented
    counts, and packets get through from then on."""
    def scenario(options):
        with TwoRouters(options, kind, narrow) as net:
            net.transfer(2 * MB)
            for n in (1, 2):  # a timeout in between would have lowered the path instead
                net.gates[n - 1].pmtu("probe", name(3 - n, 4))
            net.wait_for_paths(narrow)
            for n in (1, 2):
                row = net.gates[n - 1].pmtu("show", name(3 - n, 4))["destinations"][0]
                need(row["mtu"] == narrow and row["state"] == "confirmed", f"gateway {n}: {row}")
                print(f"  {row}")
                if kind == "box":
                    need("reassembler" in row["notes"] and row["how"] == "ladder",
                         f"gateway {n} doesn't tell of the reassembler: {row}")
            before = [g.settled_stats() for g in net.gates]
            for way in ("up", "down"):
                result = net.transfer(10 * MB, 2, way)
                need(result["seconds"] < 5, f"10 MB {way} took {result['seconds']:.1f} s")
            for n, (g, was) in enumerate(zip(net.gates, before), 1):
                did = difference(g.settled_stats(), was)
                row = g.pmtu("show", name(3 - n, 4))["destinations"][0]
                need(row["mtu"] <= narrow, f"gateway {n} went above the path: {row}")
                need(did["engine"]["split_in_pkts"] > 100 or narrow > 4000, f"gateway {n} split nothing: {did}")
            net.finish()
    return scenario


for _kind in ("conntrack", "box"):
    for _narrow in (1400, 4470):
        SCENARIOS[f"reassembler_{_kind}_{_narrow}"] = reassembles(_kind, _narrow)

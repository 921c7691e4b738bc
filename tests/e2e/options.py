# SPDX-License-Identifier: BSD-3-Clause
"""What hosts may have turned on or off, and hosts that take less."""
import socket

from bed import MB, Bed, Skip, need
from capture import tcp_sizes

SCENARIOS = {}


def congestion_control(name):
    def scenario(options):
        with Bed(options) as bed:
            try:
                socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError as e:
                raise Skip(f"this kernel has no {name}") from e
            o = {"cc": name}
            for direction, port in (("down", 5000), ("up", 5001)):
                bed.transfer(direction, 4, 20 * MB, port=port, outside_options=o, inside_options=o)
            bed.finish(jumbos=0.3)
    return scenario


for _cc in ("cubic", "bbr"):
    SCENARIOS[f"cc_{_cc}"] = congestion_control(_cc)


def with_sysctl(direction, least=0.75, **values):
    def scenario(options):
        with Bed(options) as bed:
            for host in (bed.outside, bed.inside):
                host.sysctl(**values)
            bed.transfer(direction, 4, 30 * MB)
            bed.finish(jumbos=least if direction == "down" else None)
    return scenario


for _direction in ("down", "up"):
    SCENARIOS[f"ecn_{_direction}"] = with_sysctl(_direction, net__ipv4__tcp_ecn=1)
    SCENARIOS[f"no_timestamps_{_direction}"] = with_sysctl(_direction, net__ipv4__tcp_timestamps=0)
    SCENARIOS[f"no_sack_{_direction}"] = with_sysctl(_direction, net__ipv4__tcp_sack=0)


def inside_1500(options):
    """An inside host at MTU 1500 gets what it can take, and no more."""
    with Bed(options, inside_host_mtu=1500) as bed:
        for direction, port in (("down", 5000), ("up", 5001)):
            bed.transfer(direction, 4, 20 * MB, port=port)
        stats = bed.finish()
        need(stats["engine"]["merge_out_merged"] == 0, "segments were merged for a host at MTU 1500")


SCENARIOS["inside_mtu_1500"] = inside_1500


def inside_route(options):
    """An inside host that sends less than the path outside takes, for a reason of its own, isn't helped to more,
    be its segments merged on their way here."""
    with Bed(options) as bed:
        bed.inside.ip("route change 10.9.0.0/24 dev eth0 src 10.9.0.2 mtu lock 1000")
        bed.transfer("up", 2, 20 * MB)
        bed.finish()
        largest = max(tcp_sizes(bed.captures["outside"].received()))
        need(largest <= 1000, f"a segment of {largest} B left for a host that sends 1000 B")


SCENARIOS["inside_route_mtu_1000"] = inside_route


def outside_mss(mss, family, jumbo_size, raised=True):
    """`jumbo_size`: a packet of as many whole segments as fit. `raised`: whether the gateway offers the
    inside host jumbos, which it doesn't where the outside host takes less than everyone must."""
    def scenario(options):
        with Bed(options, family=family) as bed:
            o = {"maxseg": mss}
            for direction, port in (("down", 5000), ("up", 5001)):
                bed.transfer(direction, 2, 20 * MB, port=port, outside_options=o)
            stats = bed.finish(jumbos=0.6, jumbo_size=jumbo_size)
            # What the port had merged and is cut again isn't counted.
            split = stats["engine"]["split_in_pkts"] - stats["gateway"]["merge_recut"]
            need(split > 100 if raised else split == 0, f"{split} jumbos came to be split")
            limit = mss + (40 if family == 4 else 60)
            largest = max(tcp_sizes(bed.captures["outside"].received()))
            need(largest <= limit, f"a segment of {largest} B went to a host that takes {limit} B")
    return scenario


for _family, _head in ((4, 52), (6, 72)):
    SCENARIOS[f"outside_mss_1300_ipv{_family}"] = outside_mss(1300, _family, 6 * 1288 + _head)
    SCENARIOS[f"outside_mss_536_ipv{_family}"] = outside_mss(536, _family, 8000, raised=_family == 4)


def tagged(family, *tags):
    """TCP with VLAN tags is translated like any other. The wires tag, so the hosts needn't."""
    def scenario(options):
        wire = [x for tag in tags for x in ("--tag", tag)]
        with Bed(options, family=family, wires={"outside": wire, "inside": wire},
                 lro_applies=len(tags) < 2) as bed:
            for direction, port in (("down", 5000), ("up", 5001)):
                bed.transfer(direction, 2, 20 * MB, port=port)
            stats = bed.finish(jumbos=0.6)
            need(stats["engine"]["split_in_pkts"] > 100, "hardly any jumbo came to be split")
    return scenario


SCENARIOS["vlan_ipv4"] = tagged(4, 5)
SCENARIOS["vlan_ipv6"] = tagged(6, 5)
SCENARIOS["qinq_ipv4"] = tagged(4, 7, 5)

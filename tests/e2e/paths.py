# SPDX-License-Identifier: BSD-3-Clause
"""A 1400 B hop outside that neither end knows of, with and without ICMP."""
from bed import MB, Bed, need

SCENARIOS = {}


def narrow(family, hop, direction):
    def scenario(options):
        with Bed(options, family=family, hop=hop) as bed:
            if hop == "silent" and direction == "down":
                # The outside host sees to itself here: the gateway has no part in what it sends.
                bed.outside.sysctl(net__ipv4__tcp_mtu_probing=1, net__ipv4__tcp_base_mss=1200)
            bed.transfer(direction, 2, 20 * MB, timeout=30)
            stats = bed.finish(jumbos=0.75 if (hop, direction) == ("icmp", "down") else None)
            if direction == "up":
                need(stats["gateway"]["pmtu_lowered"] > 0, "the gateway didn't lower the path MTU")
                need(stats["engine"]["split_in_pkts"] > 100, "the inside host no longer sends jumbos")
                if hop == "icmp":
                    need(stats["gateway"]["ptb_taken"] > 0, "the router's errors weren't taken in")
                    need(stats["gateway"]["ptb_passed"] == 0, "the router's errors reached the inside host")
    return scenario


for _family in (4, 6):
    for _hop in ("icmp", "silent"):
        for _direction in ("down", "up"):
            SCENARIOS[f"hop_1400_{_hop}_ipv{_family}_{_direction}"] = narrow(_family, _hop, _direction)

# SPDX-License-Identifier: BSD-3-Clause
"""Networks that lose, reorder and double packets."""
from bed import MB, Bed, need

SCENARIOS = {}


def lossy_hosts(family, direction):
    """1 % of what arrives is lost at either host: segments, jumbos and ACKs."""
    def scenario(options):
        with Bed(options, family=family) as bed:
            tables = "iptables" if family == 4 else "ip6tables"
            for host in (bed.outside, bed.inside):
                host.run(tables, "-A", "INPUT", "-p", "tcp", "-m", "statistic", "--mode", "random",
                         "--probability", "0.01", "-j", "DROP")
            bed.transfer(direction, 4, 20 * MB)
            bed.finish()
    return scenario


for _family in (4, 6):
    for _direction in ("down", "up"):
        SCENARIOS[f"loss_hosts_ipv{_family}_{_direction}"] = lossy_hosts(_family, _direction)


def faulty_wire(faults, direction, did, family=4, side="outside", size=20 * MB):
    def scenario(options):
        with Bed(options, family=family, wires={side: faults}) as bed:
            bed.transfer(direction, 4, size)
            bed.finish()
            for what in did:
                need(bed.wire_did[side][what] > 20, f"the wire {what} only {bed.wire_did[side]} packets")
    return scenario


for _direction in ("down", "up"):
    SCENARIOS[f"loss_wire_{_direction}"] = faulty_wire(["--loss", 1], _direction, ["lost"])
    SCENARIOS[f"reorder_{_direction}"] = faulty_wire(["--reorder", 2], _direction, ["reordered"])
    SCENARIOS[f"duplicates_{_direction}"] = faulty_wire(["--dup", 2], _direction, ["doubled"])
SCENARIOS["reorder_inside_up"] = faulty_wire(["--reorder", 2], "up", ["reordered"], side="inside")
SCENARIOS["all_faults_both_ipv6"] = faulty_wire(
    ["--loss", 0.5, "--reorder", 1, "--dup", 1], "both", ["lost", "reordered", "doubled"], family=6)

# SPDX-License-Identifier: BSD-3-Clause
"""Several workers: by the kernel's flow hash, and fanned out where a port can't share its traffic so."""
import argparse
import time

from bed import MB, Bed, need
from lab.softnic import SoftNic

SCENARIOS = {}


def check_shared(stats, workers, fanned, lossless=True):
    busy = [w["polls_with_packets"] for w in stats["workers"]]
    need(len(busy) == workers and min(busy) > 100, f"polls with packets, by worker: {busy}")
    for port in stats["ports"]:
        need(("fan_out" in port["offloads"]) == fanned, f"{port['name']}: {port['offloads']}")
        rules = [(r["used"], r["how"]) for r in port["flow_rules"]]
        need(rules == ([(False, "one queue")] * 4 if fanned and port["driver"].startswith("net_") else []),
             f"{port['name']}: {rules}")
        need(not lossless or port["rx_dropped"] == 0, f"{port['name']}: {port['rx_dropped']} packets had no room")


def transfers(bed, conns=16):
    for direction, port in (("down", 5000), ("up", 5001), ("both", 5002)):
        bed.transfer(direction, conns, 20 * MB, port=port)


def kernel(workers, family):
    def scenario(options):
        with Bed(options, family=family, ports="kernel", gateway_keys={"workers": workers}) as bed:
            transfers(bed)
            check_shared(bed.gateway.settled_stats(), workers, fanned=False)
            bed.finish(jumbos=0.3)
    return scenario


SCENARIOS["workers_kernel_2_ipv4"] = kernel(2, 4)
SCENARIOS["workers_kernel_4_ipv6"] = kernel(4, 6)


def over_softnic(scenario):
    def with_nics(options):
        scenario(argparse.Namespace(**{**vars(options), "ports": "softnic", "nic": {"lro": "on"}}))
    return with_nics


def fanned(options):
    """NICs with one queue each, two workers."""
    with Bed(options, gateway_keys={"workers": 2}) as bed:
        transfers(bed)
        # Three threads that spin, and two NICs, on as many cores as there are: what waits for a thread that doesn't
        # run may find its ring full, as with a NIC.
        check_shared(bed.gateway.settled_stats(), 2, fanned=True, lossless=False)
        bed.finish(jumbos=0.3)


def asleep(options):
    """All threads sleep while there is nothing to do, and no packet waits for the end of a sleep."""
    with Bed(options, gateway_keys={"workers": 2, "idle": "sleep"}) as bed:
        transfers(bed, 8)
        before = bed.gateway.cpu_seconds()
        time.sleep(2)
        used = bed.gateway.cpu_seconds() - before
        need(used < 1.0, f"{used:.2f} s of CPU in 2 s without traffic, by three threads")
        check_shared(bed.gateway.settled_stats(), 2, fanned=True)
        bed.finish(jumbos=0.3)


SCENARIOS["workers_fan_out"] = over_softnic(fanned)
SCENARIOS["workers_fan_out_asleep"] = over_softnic(asleep)


class MixedBed(Bed):
    """A NIC outside, a kernel interface inside."""
    def _attach(self, space, interface, side, mtu, more=0):
        if side == "outside":
            self.nics[side] = SoftNic(space, interface, self.options.pxnic, 0, mtu, {"lro": "on"})
        else:
            self.lab.veth(space, interface, self.gw, side, mtu + more)


def mixed(options):
    with MixedBed(options, gateway_keys={"workers": 2, "idle": "sleep"}) as bed:
        transfers(bed)
        check_shared(bed.gateway.settled_stats(), 2, fanned=True, lossless=False)
        bed.finish(jumbos=0.3)


SCENARIOS["workers_mixed_ports"] = over_softnic(mixed)

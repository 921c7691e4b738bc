# SPDX-License-Identifier: BSD-3-Clause
"""A part of the scenarios over NICs in software and over ports that merge nothing, and what only such a NIC
shows. `run.py --ports softnic --all` runs them all over NICs, `run.py --lro off --all` over kernel ports without
GRO."""
import argparse
import os
import subprocess
import time

from bed import MB, Bed, Failure, need
from frames import PMTUDISC_DONT, udp_pair


def over(scenario, ports="softnic", **nic):
    """The scenario with NICs in software as the gateway's ports, or with kernel ports of other options."""
    def with_nics(options):
        changed = {**vars(options), "ports": ports, "nic": nic}
        scenario(argparse.Namespace(**changed))
    return with_nics


def few_contexts(options):
    """64 connections through a NIC that merges 4 flows at once: the gateway merges on."""
    with Bed(options) as bed:
        bed.transfer("down", 64, 40 * MB)
        bed.finish(jumbos=0.50)
        nic = bed.nic_did["outside"]
        need(nic["lro_out"] > 100, "the NIC merged hardly anything")
        need(nic["lro_most_contexts"] == 4, f"the NIC used {nic['lro_most_contexts']} of 4 contexts")
        need(nic["lro_no_context"] > 0, "no flow lacked a context")


def host_offloads(options):
    """The outside host leaves TCP uncut and checksums unfinished; the NIC makes frames of it."""
    with Bed(options, capture=False) as bed:
        bed.transfer("both", 8, 40 * MB)
        bed.finish()
        need(bed.nic_did["outside"]["wire_in_gso"] > 0, "the host cut all by itself")


def above_the_wires_mtu(options):
    """A gateway that sends more than the wire takes is found out."""
    with Bed(options, capture=False, gateway_keys={"outside_mtu": 3000}) as bed:
        _, client = udp_pair(bed, 4, PMTUDISC_DONT)
        for _ in range(5):
            client.send(bytes(2000))
            time.sleep(0.1)
        try:
            bed.finish()
        except Failure as e:
            need("frames above the wire's MTU of 1500 were dropped" in str(e), f"another failure: {e}")
        else:
            need(False, "the NIC didn't mind frames of 2000 B")
        need(bed.nic_did["outside"]["wire_too_big"] > 0, "they weren't counted")


def refusals(options):
    """What pxnic can't do it says in one line, and ends with 2."""
    tap = f"px{os.getpid()}"
    for words, text in (("--socket /tmp/x", "--tap is required"),
                        (f"--socket /tmp/x --tap {tap} --lro maybe", "on or off is wanted"),
                        (f"--socket /tmp/x --tap {tap} --mtu 10", "not in range 68 to 65000"),
                        ("--socket /tmp/x --tap lo", "an interface of that name exists"),
                        (f"--socket /tmp/x --tap {tap} --netns pxt-none", "no network namespace pxt-none"),
                        (f"--socket /none/x --tap {tap}", "nothing can be made in /none/")):
        done = subprocess.run([options.pxnic, *words.split()], capture_output=True, text=True, timeout=20)
        need(done.returncode == 2, f"{words}: exit status {done.returncode}")
        need(text in done.stderr and done.stderr.count("\n") == 1, f"{words}: {done.stderr}")


def scenarios(over_any):
    return {
        "softnic_lro_on_ipv4_down_8": over(over_any["ipv4_down_8"], lro="on"),
        "softnic_lro_off_ipv4_down_8": over(over_any["ipv4_down_8"], lro="off"),
        "softnic_lro_4_contexts_64_flows": over(few_contexts, lro="on", lro_contexts=4),
        "softnic_lro_psh_alone_ipv6_both_8": over(over_any["ipv6_both_8"], lro="on", lro_psh="alone"),
        "softnic_lro_64k_ipv4_down_1": over(over_any["ipv4_down_1"], lro="on", lro_max=65000,
                                            lro_timeout_us=1000),
        "softnic_host_offloads": over(host_offloads, lro="on", tap_offloads="on"),
        "softnic_above_the_wires_mtu": over(above_the_wires_mtu),
        "softnic_refusals": over(refusals),
        "softnic_ipv6_up_8": over(over_any["ipv6_up_8"], lro="on"),
        "softnic_faults": over(over_any["all_faults_both_ipv6"], lro="on"),
        "softnic_vlan": over(over_any["vlan_ipv4"], lro="on"),
        "softnic_kill_restart": over(over_any["kill_restart_down"], lro="on"),
        "softnic_untouched_frames": over(over_any["untouched_frames"], lro="on"),
        # Each segment by itself, too, as from an interface that can't merge.
        **{f"no_gro_{name}": over(over_any[name], ports="kernel", lro="off")
           for name in ("ipv4_down_8", "ipv6_both_64", "all_faults_both_ipv6", "reorder_down", "ecn_down", "vlan_ipv4",
                        "outside_mss_1300_ipv4", "kill_restart_down")},
    }

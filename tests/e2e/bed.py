# SPDX-License-Identifier: BSD-3-Clause
"""An outside host, a gateway and an inside host, and what every scenario checks at its end."""
import json
import os
import shutil
import subprocess

from capture import Capture, bad_checksums, share_of_jumbos, stop_captures
from lab.gateway import Gateway
from lab.netns import Lab, LabError
from lab.scenario import Failure, Skip, need  # noqa: F401
from lab.softnic import SoftNic
from lab.transfer import Transfer

MB = 1_000_000
TAG = "pxt"


class Bed:
    """outside host -- [1400 B hop] -- [wire] -- gateway -- [wire] -- inside host

    options: .pxgw, .wire, .pxnic (paths), .keep_dir, .ports (kernel or softnic), .nic (options of the NIC outside;
    of them kernel ports have lro alone)
    hop: None, "icmp" or "silent" (routers that drop "fragmentation needed")
    wires: options of the faulty wire by side, such as {"outside": ["--loss", 1]}
    lro_applies: whether a NIC merges such TCP, where it can merge
    """

    def __init__(self, options, *, family=4, inside_host_mtu=9000, hop=None, wires=None, start=True,
                 capture=True, gso=True, gateway_keys=None, ports=None,
                 lro_applies=True):
        self.options, self.family = options, family
        self.ports, self.lro_applies = ports or options.ports, lro_applies
        self.lab = Lab(TAG, gso)
        self.captures = {}
        self.gateway = None
        self.wires, self.nics = {}, {}
        self.frame_limit = {"outside": 1514, "inside": inside_host_mtu + 14}
        try:
            self._build(inside_host_mtu, hop, wires or {}, gateway_keys or {})
            if capture:
                self.captures = {"outside": Capture(self.near, "outside", self.near_interface),
                                 "inside": Capture(self.inside, "inside")}
            if start:
                self.gateway.start()
        except BaseException:
            self.lab.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        try:
            if kind not in (None, Skip):
                print(self.evidence())
                if self.options.keep_dir:
                    shutil.copytree(self.lab.dir, self.options.keep_dir, dirs_exist_ok=True,
                                    ignore=shutil.ignore_patterns("*.sock", "blob"))
        finally:
            self.lab.close()

    # ------------------------------------------------------------------------------ topology

    def _build(self, inside_host_mtu, hop, wires, keys):
        lab = self.lab
        self.outside, self.inside = lab.host("out"), lab.host("in")
        self.gw = lab.bump("gw")
        self.near, self.near_interface = self.outside, "eth0"
        if hop:
            self._build_hop(hop)
        ends = {"outside": (self.near, self.near_interface, 1500), "inside": (self.inside, "eth0", 9000)}
        for side, (space, interface, mtu) in ends.items():
            if side in wires:
                self._build_wire(space, interface, side, mtu, wires[side])
            else:
                self._attach(space, interface, side, mtu)
        if inside_host_mtu != 9000:
            self.inside.ip(f"link set dev eth0 mtu {inside_host_mtu}")
        self.inside.ip("addr add 10.9.0.2/24 dev eth0")
        self.inside.ip6("addr add fd09::2/64 dev eth0 nodad")
        if hop:
            self.near.ip("addr add 10.9.0.1/24 dev b")
            self.near.ip6("addr add fd09::1/64 dev b nodad")
            self.inside.ip("route add default via 10.9.0.1")
            self.inside.ip6("route add default via fd09::1")
            self.address = {4: "10.9.2.1", 6: "fd09:2::1"}
        else:
            self.outside.ip("addr add 10.9.0.1/24 dev eth0")
            self.outside.ip6("addr add fd09::1/64 dev eth0 nodad")
            self.address = {4: "10.9.0.1", 6: "fd09::1"}
        self.inside_address = {4: "10.9.0.2", 6: "fd09::2"}
        if self.nics:
            keys = {"idle": "spin", **keys}
            self.gateway = Gateway(self.gw, self.options.pxgw, self.nics["outside"].device,
                                   self.nics["inside"].device if "inside" in self.nics else "kernel:inside", **keys)
        else:
            if self.options.nic.get("lro") == "off":
                keys = {"offloads": "{lro: off}", **keys}
            self.gateway = Gateway(self.gw, self.options.pxgw, **keys)

    def _attach(self, space, interface, side, mtu, more=0):
        """The interface becomes the far end of the gateway's port; `more`: room for VLAN tags."""
        if self.ports == "kernel":
            return self.lab.veth(space, interface, self.gw, side, mtu + more)
        # The NIC inside merges nothing: outbound packets are jumbos already.
        options = self.options.nic if side == "outside" else {"lro": "off"}
        number = ("outside", "inside").index(side)
        self.nics[side] = SoftNic(space, interface, self.options.pxnic, number, mtu, options)
        if more:
            space.ip(f"link set dev {interface} mtu {mtu + more}")
        return None

    def _build_hop(self, hop):
        """outside host --1500-- far router --1400-- near router --1500-- gateway"""
        lab = self.lab
        far, near = lab.host("far"), lab.host("near")
        lab.veth(self.outside, "eth0", far, "a", 1500)
        lab.veth(far, "b", near, "a", 1400)
        for s in (far, near):
            s.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
            if hop == "silent":
                s.run("iptables", "-A", "OUTPUT", "-p", "icmp", "-j", "DROP")
                s.run("ip6tables", "-A", "OUTPUT", "-p", "icmpv6", "--icmpv6-type", "packet-too-big",
                      "-j", "DROP")
        for s, a, b in ((self.outside, "2", 1), (far, "2", 254)):
            device = "eth0" if s is self.outside else "a"
            s.ip(f"addr add 10.9.{a}.{b}/24 dev {device}")
            s.ip6(f"addr add fd09:{a}::{b}/64 dev {device} nodad")
        far.ip("addr add 10.9.1.1/24 dev b", "route add default via 10.9.1.2")
        far.ip6("addr add fd09:1::1/64 dev b nodad", "route add default via fd09:1::2")
        near.ip("addr add 10.9.1.2/24 dev a", "route add 10.9.2.0/24 via 10.9.1.1")
        near.ip6("addr add fd09:1::2/64 dev a nodad", "route add fd09:2::/64 via fd09:1::1")
        self.outside.ip("route add default via 10.9.2.254")
        self.outside.ip6("route add default via fd09:2::254")
        self.near, self.near_interface = near, "b"

    def _build_wire(self, space, interface, side, mtu, options):
        s = self.lab.bump(f"wire{side[0]}")
        self.lab.veth(space, interface, s, "a", mtu)
        self._attach(s, "b", side, mtu, more=8)
        wire = s.popen(self.options.wire, "a", "b", *options, stdout=subprocess.PIPE, text=True)
        if wire.stdout.readline().strip() != "ready":
            raise LabError("the wire didn't start")
        self.wires[side] = wire

    # ------------------------------------------------------------------------------ traffic

    def start_transfer(self, direction="down", conns=1, size=40 * MB, initiator="inside", outside_options=None,
                       inside_options=None, timeout=60, port=5000):
        """`size` bytes in all, each way; "down" is outside to inside, whoever connects."""
        each = max(1, size // conns)
        down = each if direction in ("down", "both") else 0
        up = each if direction in ("up", "both") else 0
        if initiator == "inside":
            return Transfer(self.outside, self.address[self.family], self.inside, down=down, up=up,
                            conns=conns, timeout=timeout, port=port, listener_options=outside_options,
                            client_options=inside_options)
        return Transfer(self.inside, self.inside_address[self.family], self.outside, down=up, up=down,
                        conns=conns, timeout=timeout, port=port, listener_options=inside_options,
                        client_options=outside_options)

    def finish_transfer(self, transfer):
        result = transfer.result()
        need(result["intact"], "the bytes did not arrive: " + "; ".join(result["faults"][:5]))
        print(f"  {result['bytes'] / 1e6:.0f} MB intact in {result['seconds']:.2f} s, "
              f"{result['mbps']:.0f} Mb/s")
        return result

    def transfer(self, *args, **kwargs):
        return self.finish_transfer(self.start_transfer(*args, **kwargs))

    # ------------------------------------------------------------------------------ verdicts

    def finish(self, *, jumbos=None, jumbo_size=8000):
        """Ends all, and checks what must hold after any traffic. `jumbos`: the least share of the
        TCP payload that must have come to the inside host in jumbos. Returns the final counters."""
        stats = self.gateway.settled_stats()
        self.wire_did = {}
        for side, wire in self.wires.items():
            wire.send_signal(15)
            self.wire_did[side] = json.loads(wire.communicate(timeout=5)[0])
            print(f"  wire {side}: {self.wire_did[side]}")
        if self.captures:
            stop_captures(*self.captures.values())
        code = self.gateway.stop()
        need(code is not None, "pxgw didn't end within 10 s of SIGTERM")
        need(code == 0, f"pxgw ended with {code}: a buffer was lost, or it failed\n{self.gateway.log(8)}")
        if self.nics:
            self._finish_nics(stats, jumbos is not None)
        else:
            on = [p["offloads"]["lro"]["used"] for p in stats["ports"]]
            need(set(on) == {self.options.nic.get("lro") != "off"}, f"GRO of the ports: {on}")
        for side, bad in zip(self.captures, bad_checksums(self.captures.values())):
            largest, limit = self.captures[side].largest(), self.frame_limit[side]
            need(largest <= limit, f"{side}: a frame of {largest} B, above {limit} B")
            need(not bad, f"{side}: {len(bad)} packets with a bad checksum:\n  " + "\n  ".join(bad[:5]))
        if self.captures and jumbos is not None:
            share = share_of_jumbos(self.captures["inside"].received(), jumbo_size)
            print(f"  {100 * share:.1f} % of the payload came in packets of {jumbo_size} B and more")
            need(share >= jumbos, f"only {100 * share:.1f} % of the payload came in packets of "
                                  f"{jumbo_size} B and more; expected {100 * jumbos:.0f} %")
        need(stats["unaccounted"] == 0, f"{stats['unaccounted']} packets are unaccounted for")
        return stats

    def _finish_nics(self, stats, downloaded):
        self.nic_did = {}
        for side, nic in self.nics.items():
            code, self.nic_did[side], complaint = nic.stop()
            print(f"  NIC {side}: { {k: v for k, v in self.nic_did[side].items() if v} }")
            need(code == 0, f"the NIC {side} ended with {code}: {complaint}")
        did = self.nic_did["outside"]
        if self.options.nic.get("lro") == "off":
            need(did["lro_out"] == 0, "the NIC merged with LRO off")
        elif downloaded and self.lro_applies:
            need(did["lro_out"] > 0, "the NIC merged nothing: pxgw didn't enable LRO")
        if stats["engine"]["split_in_pkts"] > 100:
            # What was merged for a host that doesn't take it is cut again on the inside.
            need(sum(n["tso_in"] for n in self.nic_did.values()) > 0, "jumbos were split, but none by a NIC")

    def evidence(self):
        text = "--- pxgw's log\n" + (self.gateway.log() if self.gateway else "")
        stats = self.gateway.stats(check=False) if self.gateway else None
        if stats:
            moved = {k: v for part in ("gateway", "engine") for k, v in stats[part].items() if v}
            text += "--- counters\n" + json.dumps(moved, indent=1)
        return text


def options_from(args):
    for path in (args.pxgw, args.wire, *([args.pxnic] if args.ports == "softnic" else [])):
        if not os.path.exists(path):
            raise LabError(f"{path} isn't there; build it first")
    args.nic = {k: v for k, v in (("lro", args.lro), ("lro_contexts", args.lro_contexts)) if v is not None}
    return args

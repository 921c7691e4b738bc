# SPDX-License-Identifier: BSD-3-Clause
"""Two networks of jumbo frames behind a gateway each, with 9000 B between these: probed, found, used, and
given up in time when the path shrinks.

    host 1 -- 9000 B -- gateway 1 -- 9000 B -- router -- 9000 B -- gateway 2 -- 9000 B -- host 2
"""
import os
import random
import select
import socket
import struct
import threading
import time

from bed import MB, TAG, Failure, need
from capture import Capture, bad_checksums, stop_captures
from lab.gateway import Gateway, difference
from lab.netns import Lab, wait_for
from lab.transfer import Transfer

SCENARIOS = {}
PORT = 5000
BLOCK = bytes(range(251)) * 1044  # 262044 B, of a prime period


def name(number, family):
    return {4: f"10.9.{number}.2", 6: f"fd09:{number}::2"}[family]


class Networks:
    """answer: whether the gateways answer probes for their hosts; else hosts may run `fpmtud serve`."""

    def __init__(self, options, *, family=4, answer=True, key=False, silent=False, keys=None):
        self.options, self.family, self.silent = options, family, silent
        self.lab = lab = Lab(TAG)
        self.captures = []
        try:
            self.router = lab.host("router")
            self.routers = [self.router]
            self.router.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
            self.hosts, self.gates = [], []
            for n in (1, 2):
                host, space = lab.host(f"in{n}"), lab.bump(f"gw{n}")
                lab.veth(host, "eth0", space, "inside", 9000)
                router = self.router_at(n)
                lab.veth(router, f"r{n}", space, "outside", 9000)
                router.ip(f"addr add 10.9.{n}.1/24 dev r{n}")
                router.ip6(f"addr add fd09:{n}::1/64 dev r{n} nodad")
                host.ip(f"addr add 10.9.{n}.2/24 dev eth0", f"route add default via 10.9.{n}.1")
                host.ip6(f"addr add fd09:{n}::2/64 dev eth0 nodad", f"route add default via fd09:{n}::1")
                self.hosts.append(host)
                pmtu = ["probe: on", "elephant_bytes: 65536"]
                if answer:
                    pmtu.append(f'answer: [10.9.{n}.0/24, "fd09:{n}::/64"]')
                if key:
                    path = f"{lab.dir}/key"
                    with open(path, "w") as f:
                        f.write("0123456789abcdef0123456789abcdef\n")
                    os.chmod(path, 0o600)
                    pmtu.append(f"key_file: {path}")
                self.gates.append(Gateway(space, options.pxgw, name=f"pxgw{n}", outside_mtu=9000,
                                          pmtu="{" + ", ".join(pmtu) + "}", **(keys or {})))
            for router in self.routers if silent else ():
                router.run("iptables", "-A", "OUTPUT", "-p", "icmp", "-j", "DROP")
                router.run("ip6tables", "-A", "OUTPUT", "-p", "icmpv6", "--icmpv6-type", "packet-too-big",
                           "-j", "DROP")
            for g in self.gates:
                g.start()
        except BaseException:
            lab.close()
            raise

    def router_at(self, number):
        """The one that this gateway's outside link leads to."""
        return self.router

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if kind is not None:
            for g in self.gates:
                print(f"--- log of {g.control}\n{g.log()}")
                stats = g.stats(check=False)
                print({k: v for k, v in stats["gateway"].items() if v} if stats else "no counters")
                try:
                    print(g.pmtu("list"))
                except Exception as e:  # noqa: BLE001
                    print(e)
        self.lab.close()

    def transfer(self, size=4 * MB, conns=1, way="up"):
        """Host 1 connects to host 2; "up" is from 1 to 2."""
        t = Transfer(self.hosts[1], name(2, self.family), self.hosts[0], up=size if way == "up" else 0,
                     down=size if way == "down" else 0, conns=conns, timeout=60, port=PORT)
        result = t.result()
        need(result["intact"], "the bytes did not arrive: " + "; ".join(result["faults"][:5]))
        return result

    def set_path(self, mtu):
        """What the router forwards, both ways; the links of the gateways stay as they are."""
        limit = f"mtu lock {mtu}" if mtu < 9000 else ""
        for n in (1, 2):
            self.router.ip(f"route replace 10.9.{n}.0/24 dev r{n} {limit}")
            self.router.ip6(f"route replace fd09:{n}::/64 dev r{n} metric 256 {limit}")

    def wait_for_paths(self, mtu, timeout=10):
        for n in (1, 2):
            gate, to = self.gates[n - 1], name(3 - n, self.family)
            try:
                wait_for(lambda: gate.path_to(to) == ("confirmed", mtu), timeout, f"gateway {n} finding {mtu} B")
            except Exception as e:
                raise Failure(f"{e}: {gate.pmtu('show', to)}") from e

    def shares(self, capture):
        """Of the TCP payload between the gateways, the share in packets above 8000 B, and the largest frame."""
        large = whole = largest = 0
        for f in capture.frames():
            largest = max(largest, f.length)
            if f.length < 200:
                continue
            whole += f.length
            large += f.length if f.length > 8000 else 0
        return large / max(whole, 1), largest

    def finish(self):
        for g in self.gates:
            stats = g.settled_stats()
            need(stats["unaccounted"] == 0, f"{stats['unaccounted']} packets are unaccounted for")
            for w in stats["workers"]:
                need(w["commands_dropped"] == 0 and w["reports_dropped"] == 0, f"messages were lost: {w}")
            code = g.stop()
            need(code == 0, f"pxgw ended with {code}\n{g.log(8)}")


class Streams:
    """Connections both ways that send steadily; the longest time that one received nothing."""

    def __init__(self, networks, conns=4):
        self.over = threading.Event()
        self.gap = [0.0] * (2 * conns)
        self.bytes = [0] * (2 * conns)
        self.at = [0.0] * (2 * conns)
        self.fault = None
        self.marked = False
        senders, receivers = [], []
        for n in (0, 1):  # connections from this host send
            with networks.hosts[1 - n].entered():
                listener = socket.create_server((name(2 - n, networks.family), PORT + 1 + n), backlog=conns,
                                                family=socket.AF_INET if networks.family == 4 else socket.AF_INET6)
            with networks.hosts[n].entered():
                for _ in range(conns):
                    s = socket.create_connection((name(2 - n, networks.family), PORT + 1 + n), timeout=5)
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    s.setblocking(False)
                    senders.append(s)
                    receivers.append(listener.accept()[0])
            listener.close()
        self.threads = [threading.Thread(target=f, args=(x,), daemon=True)
                        for f, x in ((self._send, senders), (self._receive, receivers))]
        for t in self.threads:
            t.start()

    def _send(self, sockets):
        sent = [0] * len(sockets)
        while not self.over.is_set():
            for i, s in enumerate(sockets):
                at = sent[i] % 251
                try:
                    sent[i] += s.send(BLOCK[at:at + 40000])
                except BlockingIOError:
                    pass
                except OSError as e:
                    self.fault = str(e)
                    return
            time.sleep(0.005)
        for s in sockets:
            s.close()

    def _receive(self, sockets):
        index = {s: i for i, s in enumerate(sockets)}
        while not self.over.is_set():
            ready, _, _ = select.select(sockets, [], [], 0.05)
            now = time.monotonic()
            for s in ready:
                i = index[s]
                data = s.recv(len(BLOCK) - 251)
                at = self.bytes[i] % 251
                if data != BLOCK[at:at + len(data)]:
                    self.fault = f"connection {i}: wrong bytes after {self.bytes[i]}"
                    return
                if self.marked and self.at[i]:
                    self.gap[i] = max(self.gap[i], now - self.at[i])
                self.bytes[i] += len(data)
                self.at[i] = now
        for s in sockets:
            s.close()

    def mark(self):
        """From now on gaps count."""
        self.marked = True

    def finish(self):
        now = time.monotonic()
        still = max(now - at for at in self.at)
        self.over.set()
        for t in self.threads:
            t.join(5)
        need(self.fault is None, f"{self.fault}")
        return max(max(self.gap), still)


def unsplit(family, **how):
    def scenario(options):
        with Networks(options, family=family, **how) as net:
            net.transfer(2 * MB)
            net.wait_for_paths(9000)
            before = [g.settled_stats() for g in net.gates]
            capture = Capture(net.router, "between", "r2")
            for way in ("up", "down"):
                net.transfer(20 * MB, 2, way)
            stop_captures(capture)
            share, largest = net.shares(capture)
            print(f"  {100 * share:.1f} % of the bytes between the gateways in packets above 8000 B, "
                  f"the largest frame {largest} B")
            need(share >= 0.95, f"only {100 * share:.1f} % of the bytes went in jumbos")
            need(largest == 9014, f"the largest frame has {largest} B, not 9014")
            (bad,) = bad_checksums([capture])
            need(not bad, f"{len(bad)} packets with a bad checksum: {bad[:3]}")
            for g, was in zip(net.gates, before):
                did = difference(g.settled_stats(), was)
                # A timeout on a machine that is busy lowers a path until it is measured anew.
                split = did["engine"]["split_in_pkts"] - did["gateway"]["merge_recut"]
                need(split == 0 or did["gateway"]["pmtu_lowered"],
                     "jumbos were split although the path takes them")
                row = g.pmtu("list")["destinations"][0]
                print(f"  {row['destination']}: {row['mtu']}, {row['round_trips']} round trip(s), "
                      f"{row['took_ms']:.1f} ms")
            net.finish()
    return scenario


def shrinks(family, silent):
    """Eight connections under way, four each way; none may stand still for a second."""
    def scenario(options):
        with Networks(options, family=family, silent=silent) as net:
            net.transfer(2 * MB)
            net.wait_for_paths(9000)
            streams = Streams(net)
            time.sleep(1)
            streams.mark()
            net.set_path(1500)
            time.sleep(4)
            gap = streams.finish()
            print(f"  the longest time that a connection received nothing: {gap:.3f} s")
            need(gap < 1, f"a connection stood still for {gap:.2f} s")
            for g in net.gates:
                need(g.stats()["gateway"]["pmtu_lowered"] > 0, "no path was lowered")
            net.wait_for_paths(1500)
            result = net.transfer(4 * MB)
            need(result["seconds"] < 5, f"a new connection took {result['seconds']:.1f} s for 4 MB")
            # And back: only a probe raises it.
            net.set_path(9000)
            for n in (1, 2):
                net.gates[n - 1].pmtu("probe", name(3 - n, family))
            net.wait_for_paths(9000)
            net.finish()
    return scenario


def no_responder(options):
    """Nobody answers: paths carry what is assumed, nothing stalls, and the probes stop."""
    with Networks(options, answer=False) as net:
        net.transfer(2 * MB)
        wait_for(lambda: net.gates[0].path_to(name(2, 4))[0] == "silent", 15, "giving up")
        sent = [g.settled_stats()["gateway"]["probe_sent"] for g in net.gates]
        capture = Capture(net.router, "between", "r2")
        net.transfer(10 * MB)
        stop_captures(capture)
        need(capture.largest() <= 1514, f"a frame of {capture.largest()} B on a path that wasn't probed")
        need(sent == [g.settled_stats()["gateway"]["probe_sent"] for g in net.gates], "it goes on probing")
        net.finish()


def links_differ(silent):
    """Three quarters of host 1's ports travel a link of 1500 B; errors come back, or don't."""
    def scenario(options):
        with Networks(options, silent=silent) as net:
            net.router.ip("rule add iif r1 sport 32768-53887 lookup 77",
                          "route add 10.9.2.0/24 dev r2 mtu lock 1500 table 77")
            net.transfer(2 * MB)
            wait_for(lambda: net.gates[0].path_to(name(2, 4)) == ("confirmed", 1500), 10, "finding the least")
            capture = Capture(net.router, "between", "r1")
            before = net.gates[0].settled_stats()
            net.transfer(10 * MB, 8)
            stop_captures(capture)
            need(capture.largest() <= 9014, f"a frame of {capture.largest()} B")
            did = difference(net.gates[0].settled_stats(), before)
            need(did["gateway"]["pmtu_lowered"] == 0, "a connection ran into a path that was thought wider")
            # Only the way there has two links.
            wait_for(lambda: net.gates[1].path_to(name(1, 4)) == ("confirmed", 9000), 10, "the way back")
            net.finish()
    return scenario


class Stranger:
    """Sends IPv4 packets with any source from the router, whoever answers."""

    def __init__(self, networks):
        with networks.router.entered():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def udp(self, src, sport, dst, dport, payload, ident=0, frag=0):
        udp = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), ident, frag, 64, 17, 0,
                           socket.inet_aton(src), socket.inet_aton(dst))
        try:
            self.socket.sendto(head + udp, (dst, 0))
        except OSError:
            pass  # its own queue is full


def reports_in(capture):
    """UDP payloads of all reports in a capture, with the port that they went to."""
    for f in capture.frames():
        at = f.data.find(b"FPMT\x01\x02")
        if at == 14 + 20 + 8:
            yield int.from_bytes(f.data[36:38], "big"), f.data[at:f.length]


def hostile(options):
    """Forged and replayed reports, forged errors and fragments without end, while paths of 1500 B are measured."""
    with Networks(options) as net:
        net.set_path(1500)
        capture = Capture(net.router, "reports", "r1", filter="udp and src port 7474")
        net.transfer(2 * MB)
        net.wait_for_paths(1500)
        time.sleep(0.2)
        stop_captures(capture)
        old = list(reports_in(capture))
        need(old, "no report was captured")
        over = threading.Event()
        sent = [0]

        def attack():
            stranger = Stranger(net)
            rng = random.Random(1)
            while not over.is_set():
                for port, report in old:  # replayed, to its port and others; forged, with any nonce
                    stranger.udp(name(2, 4), 7474, name(1, 4), port, report)
                    forged = bytearray(report)
                    forged[8:24] = rng.randbytes(16)
                    struct.pack_into("!HHHHHH", forged, 40, 200, 9000, 2, 0, 9000, 0)
                    stranger.udp(name(2, 4), 7474, name(1, 4), rng.randrange(32768, 61000), bytes(forged))
                    # The first of three fragments of a probe that never comes whole.
                    probe = b"FPMT\x01\x01\x01\x00" + rng.randbytes(16) + struct.pack("!HHHH", 0, 3028, 3028, 0)
                    stranger.udp(f"198.51.100.{rng.randrange(256)}", 999, name(1, 4), 7474,
                                 probe + bytes(1000 - len(probe)), rng.randrange(65536), 0x2000)
                    sent[0] += 3
                time.sleep(0.002)

        thread = threading.Thread(target=attack, daemon=True)
        thread.start()
        try:
            for _ in range(8):
                for n in (1, 2):
                    net.gates[n - 1].pmtu("probe", name(3 - n, 4))
                    need(net.gates[n - 1].path_to(name(3 - n, 4)) == ("confirmed", 1500),
                         f"gateway {n} was misled: {net.gates[n - 1].pmtu('show', name(3 - n, 4))}")
            net.transfer(4 * MB)
        finally:
            over.set()
            thread.join(5)
        print(f"  {sent[0]} packets of a stranger, {len(old)} reports replayed")
        need(sent[0] > 1000, "hardly any attack")
        net.finish()


for _family in (4, 6):
    SCENARIOS[f"jumbo_networks_ipv{_family}"] = unsplit(_family)
    for _silent in (False, True):
        SCENARIOS[f"jumbo_networks_shrink_{'silent' if _silent else 'icmp'}_ipv{_family}"] = shrinks(_family, _silent)
SCENARIOS["jumbo_networks_key"] = unsplit(4, key=True)
SCENARIOS["jumbo_networks_two_workers"] = unsplit(4, keys={"workers": 2})
for _silent in (False, True):
    SCENARIOS[f"jumbo_networks_links_differ_{'silent' if _silent else 'icmp'}"] = links_differ(_silent)
SCENARIOS["jumbo_networks_no_responder"] = no_responder
SCENARIOS["jumbo_networks_hostile"] = hostile

# SPDX-License-Identifier: BSD-3-Clause
"""Forged, replayed and endless input to both ends."""
import json
import os
import select
import socket
import struct
import threading
import time

from chain import Chain, PORT, need

SCENARIOS = {}


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(source, to, protocol, payload, ident=0, frag=0):
    """A packet for a raw socket, which fills in length and checksum."""
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), ident, frag, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + payload


def udp(source_port, to_port, payload):
    return struct.pack("!HHHH", source_port, to_port, 8 + len(payload), 0) + payload


def probe(size, nonce, seq=0, round_=0, flags=0):
    head = b"FPMT" + bytes([1, 1, flags, round_]) + nonce
    head += struct.pack("!HHHHQ", seq, size, size, 0, 1) + bytes(16)
    return head + bytes(size - 28 - len(head))


def raw():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


class FalseResponder(threading.Thread):
    """Answers each probe on the responder's host by what `answer(probe, sender)` gives."""

    def __init__(self, chain, answer, port=PORT):
        super().__init__(daemon=True)
        with chain.responder.entered():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("0.0.0.0", port))
        self.answer, self.over = answer, False
        self.start()

    def run(self):
        while not self.over:
            if not select.select([self.socket], [], [], 0.1)[0]:
                continue
            data, sender = self.socket.recvfrom(65536)
            if data[:4] == b"FPMT" and data[5] == 1:
                self.answer(self, data, sender)

    def end(self):
        self.over = True
        self.join()
        self.socket.close()


def report(p, **change):
    """A report about a probe that came whole; `change` overrides what it says."""
    seq, size, _, _, sent = struct.unpack_from("!HHHHQ", p, 24)
    fragmentable = p[6] & 1
    r = {"seq": seq, "size": size, "fragment": 0, "sent": sent, "nonce": p[8:24], "round": p[7],
         "whole": 0 if fragmentable else 1, "largest_whole": 0 if fragmentable else size,
         "fragmentable": fragmentable, "largest_fragment": 0, "uncut": size if fragmentable else 0}
    r.update(change)
    return (b"FPMT" + bytes([1, 2, p[6] & 9, r["round"]]) + r["nonce"]
            + struct.pack("!HHHBBQHHHHHHIQ", r["seq"], r["size"], r["fragment"], 60, 0, r["sent"],
                          r["whole"], r["largest_whole"], r["fragmentable"], r["largest_fragment"],
                          r["uncut"], 0, 0, 0) + bytes(16))


def forged_reports(options):
    with Chain(options.fpmtud, 2, serve=None) as chain:
        chain.set_mtu(1, 1500)
        heard = []

        def truthful(me, p, sender):
            heard.append(report(p))
            me.socket.sendto(heard[-1], sender)

        def larger_than_sent(me, p, sender):
            me.socket.sendto(report(p, largest_whole=9001, uncut=9001), sender)

        def of_no_probe(me, p, sender):
            size = struct.unpack_from("!H", p, 26)[0]
            me.socket.sendto(report(p, size=size + 1), sender)
            me.socket.sendto(report(p, seq=400), sender)
            me.socket.sendto(report(p, round=200), sender)

        def other_nonce(me, p, sender):
            me.socket.sendto(report(p, nonce=bytes(16)), sender)

        def replayed(me, p, sender):
            for r in heard:
                me.socket.sendto(r, sender)

        def from_elsewhere(me, p, sender):
            elsewhere.sendto(report(p, largest_whole=9000), sender)

        def later(me, p, sender):
            me.socket.sendto(report(p, sent=2 ** 63), sender)

        def garbage(me, p, sender):
            for n in (0, 1, 23, 24, 79, 80, 81, 2000):
                me.socket.sendto(os.urandom(n), sender)
                me.socket.sendto(report(p)[:n][:79], sender)
                me.socket.sendto(report(p) + bytes(n + 1), sender)

        with chain.responder.entered():
            elsewhere = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        elsewhere.bind((chain.address[4], 7475))
        # The test's own reports are believed where they are right: the others fail for what is wrong.
        me = FalseResponder(chain, truthful)
        r = chain.probe()
        me.end()
        need(r["mtu"] == 1500, f"a truthful responder: {r}")
        running = []
        for kind in (larger_than_sent, of_no_probe, other_nonce, replayed, from_elsewhere, later, garbage):
            port = PORT + 10 + len(running)
            running.append((kind.__name__, FalseResponder(chain, kind, port),
                            chain.popen(chain.address[4], "--json", "--port", port)))
        for name, me, process in running:
            r = json.loads(process.stdout.read())
            status = process.wait()
            me.end()
            need(status == 1 and r["mtu"] is None and r["verdict"] == "silent", f"{name}: {r}")


def forged_icmp(options):
    """Errors of strangers change no result: too big, and port unreachable."""
    with Chain(options.fpmtud, 2) as chain:
        with chain.routers[0].entered():
            s = raw()
        stop = threading.Event()
        sent = [0]

        def flood():
            source, to = chain.source[4], chain.address[4]
            while not stop.is_set():
                for port in range(32768, 61000, 7):
                    quote = ipv4(source, to, 17, udp(port, PORT, b""))
                    for kind, rest in (((3, 4), struct.pack("!HH", 0, 600)), ((3, 3), bytes(4))):
                        body = bytes([*kind, 0, 0]) + rest + quote
                        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
                        s.sendto(ipv4("10.99.0.2", source, 1, body), (source, 0))
                        sent[0] += 1
                    if stop.is_set():
                        return

        threads = [threading.Thread(target=flood, daemon=True) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            for mtu in (1500, 9000, 4470):
                chain.set_mtu(1, mtu)
                for more in ([], ["--exact"], ["--flows", 16]):
                    r = chain.probe(*more)
                    need(r["mtu"] == mtu, f"{mtu}: {r}")
        finally:
            stop.set()
            for t in threads:
                t.join()
        need(sent[0] > 5000, f"only {sent[0]} errors were sent")


def memory(process):
    """kB that are resident."""
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def floods(options):
    """Probes from forged sources, garbage and replays: the responder stays small and answers others."""
    with Chain(options.fpmtud, 1) as chain:
        to = (chain.address[4], 0)
        chain.responder.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__left__rp_filter=0)
        with chain.prober.entered():
            s = raw()
        need(chain.probe()["mtu"] == 9000, "before")
        before, sent, begin = memory(chain.server), 0, time.monotonic()
        recorded = probe(1400, os.urandom(16))
        while time.monotonic() - begin < 4:
            for i in range(200):
                source = socket.inet_ntoa(os.urandom(4))
                s.sendto(ipv4(source, to[0], 17, udp(1024 + i, PORT, probe(600, os.urandom(16)))), to)
                s.sendto(ipv4("10.99.0.77", to[0], 17, udp(7, PORT, recorded)), to)
                s.sendto(ipv4("10.99.0.77", to[0], 17, udp(7, PORT, os.urandom(64))), to)
                sent += 3
        need(sent > 10000, f"only {sent} were sent")
        need(memory(chain.server) - before < 1024, f"from {before} to {memory(chain.server)} kB")
        need(chain.probe()["mtu"] == 9000, "after")
        need(memory(chain.server) - before < 1024, "memory grew afterwards")
        counters = chain.stop_server()
        need(counters["drop_not_ours"] > sent / 10, f"{counters}")
        need(counters["reports"] <= counters["probes"], f"{counters}")


def fragments(options):
    """Fragments that overlap, or never come together, are no probes and hinder none."""
    with Chain(options.fpmtud, 1) as chain:
        to = (chain.address[4], 0)
        with chain.prober.entered():
            s = raw()
        need(chain.probe()["mtu"] == 9000, "before")
        source = chain.source[4]
        whole = udp(5555, PORT, probe(4028 - 28 + 28, os.urandom(16), flags=1))

        def piece(ident, at, n, more):
            s.sendto(ipv4(source, to[0], 17, whole[at:at + n], ident,
                          (0x2000 if more else 0) | at // 8), to)

        for ident in range(1, 20000):  # first pieces alone
            piece(ident, 0, 1400, True)
        for ident in range(20000, 22000):
            piece(ident, 0, 1400, True)        # overlapping, with different contents
            piece(ident, 1392, 1400, True)
            piece(ident, 1400, 1400, True)
            piece(ident, 2800, len(whole) - 2800, False)
        for ident in range(22000, 24000):  # the end alone, and beyond the end
            piece(ident, 2800, len(whole) - 2800, False)
            s.sendto(ipv4(source, to[0], 17, bytes(1400), ident, 0x1fff), to)
        need(memory(chain.server) < 50000, f"{memory(chain.server)} kB")
        # The kernel has no room for other fragments for a while; the ladder needs none.
        need(chain.probe()["mtu"] == 9000, "meanwhile")
        chain.set_mtu(1, 1400)
        need(chain.probe()["mtu"] == 1400, "meanwhile, on a narrow path")
        counters = chain.stop_server()
        need(counters["drop_not_ours"] == 0, f"something of it was delivered: {counters}")


SCENARIOS.update({f.__name__: f for f in (forged_reports, forged_icmp, floods, fragments)})

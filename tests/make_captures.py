#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes captures of made-up traffic, as a gateway between 10.0.0.0/8, fd00::/8 and the rest saw it.

    make_captures.py OUT.pcap [--kind mix|bulk|upload|gro|tcp] [--seed N] [--flows N] [--packets N]
                     [--raw] [--pcapng] [--micro] [--snaplen N] [--unordered] [--largest N]

mix: all that follows; tcp: its TCP alone; bulk: one clean download as large as --packets says; upload:
the same with jumbos the other way; gro: TCP as captured on hosts with offloads, up to 64 KB a frame.
The same seed always makes the same file. Standard library only.
"""
import argparse
import ipaddress
import random
import struct

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = 1, 2, 4, 8, 16, 32, 64, 128, 256
IN, OUT = 0, 1  # directions of frames: inbound, outbound
US = 1000
MS = 1000 * US


def ones(b):
    """Ones' complement sum: a number taken modulo 65535 is the folded sum of its 16-bit words."""
    if len(b) & 1:
        b += b"\0"
    n = int.from_bytes(b, "big")
    return (n % 65535 or 65535) if n else 0


def checksum(b):
    return ~ones(b) & 0xFFFF


def ip4(src, dst, proto, body, tos=0, ttl=60, ident=0, frag=0x4000, options=b"", bad=0):
    ihl = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | ihl, tos, ihl * 4 + len(body), ident, frag, ttl, proto, 0)
    head += src.packed + dst.packed + options
    return head[:10] + struct.pack("!H", checksum(head) ^ bad) + head[12:] + body


def ip6(src, dst, proto, body, tos=0, ttl=60, label=0, ext=b"", ext_type=None):
    first = proto if ext_type is None else ext_type
    return struct.pack("!IHBB", 6 << 28 | tos << 20 | label, len(ext) + len(body), first, ttl) + \
        src.packed + dst.packed + ext + body


def l4_checksum(src, dst, proto, body, at, bad=0):
    pseudo = src.packed + dst.packed + struct.pack("!IHH", len(body), 0, proto)
    value = checksum(pseudo + body[:at] + b"\0\0" + body[at + 2:])
    if proto == 17 and value == 0:
        value = 0xFFFF
    return body[:at] + struct.pack("!H", value ^ bad) + body[at + 2:]


class Capture:
    def __init__(self, rng, raw):
        self.rng, self.raw, self.frames = rng, raw, []

    def add(self, t, direction, packet, vlan=(), ether=None, pad=b""):
        """vlan: (type, tag) from the outside inwards."""
        if self.raw:
            if packet and packet[0] >> 4 in (4, 6):
                self.frames.append((t, packet))
            return
        a, b = b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02"
        ether = ether or (0x0800 if packet[:1] and packet[0] >> 4 == 4 else 0x86DD)
        frame = (b + a if direction == IN else a + b)
        for tpid, tci in vlan:
            frame += struct.pack("!HH", tpid, tci)
        frame += struct.pack("!H", ether) + packet
        self.frames.append((t, frame + (pad or b"\0" * max(0, 60 - len(frame)))))


class Flow:
    """One TCP connection: a script of segments with everything that may befall them."""
    POOL = 1 << 18

    def __init__(self, cap, rng, start, number, **fixed):
        self.cap, self.rng, self.t = cap, rng, start
        r = rng
        f = {
            "version": r.choice((4, 4, 6)),
            "vlan": r.choice(((), (), (), ((0x8100, r.randrange(4096)),),
                              ((0x88A8, 20), (0x8100, 7 | r.randrange(8) << 13)))),
            "ts": r.random() < 0.7, "sack": r.random() < 0.8, "accecn": r.random() < 0.2,
            "inside_client": r.random() < 0.6, "handshake": r.random() < 0.9,
            "inside_mss": r.choice((8960, 8960, 8960, 8940, 1460, 4000, 536, None)),
            "outside_mss": r.choice((1460, 1460, 1440, 1400, 1300, 536, 216, None)),
            "signed": r.random() < 0.05, "mptcp": r.random() < 0.05, "trouble": r.choice((0, 0.01, 0.05, 0.2)),
            "gap": r.choice((150, 700, 3 * US, 12 * US, 80 * US)), "gro": False, "largest": 150000,
        }
        f.update(fixed)
        self.__dict__.update(f)
        if self.version == 6 and self.inside_mss in (8960, None):
            self.inside_mss = 8940
        if self.version == 6 and self.outside_mss in (1460, None):
            self.outside_mss = 1440
        base = 0x0A000000 if self.version == 4 else 0xFD << 120
        far = 0xC6336400 if self.version == 4 else 0x20010DB8 << 96
        kind = ipaddress.IPv4Address if self.version == 4 else ipaddress.IPv6Address
        self.addr = [kind(far + 1 + number % 200), kind(base + 1 + number // 3)]  # outside, inside
        self.port = [443, 20000 + number]
        # Indices of sides: 0 outside, 1 inside. Sequence numbers often run over their end.
        self.isn = [r.choice((r.randrange(1 << 32), (1 << 32) - r.randrange(1, 40000))) for _ in (0, 1)]
        self.sent = [0, 0]  # stream bytes, SYN included
        self.pool = r.randbytes(self.POOL + 70000)
        self.tsval = [r.choice((r.randrange(1 << 32), (1 << 32) - r.randrange(1, 50))) for _ in (0, 1)]
        self.window = [r.randrange(100, 65536) for _ in (0, 1)]
        self.tos, self.ttl, self.label = r.choice((0, 0, 2, 0x48)), [52, 64], r.randrange(1 << 20)
        self.ident = [r.randrange(1 << 16), r.randrange(1 << 16)]
        self.df = r.random() < 0.9

    def payload(self, side, off, n):
        at = (off + side * 977) % self.POOL
        return self.pool[at:at + n]

    def options(self, side, syn=False, extra=b""):
        o = b""
        if syn:
            mss = self.inside_mss if side else self.outside_mss
            if mss:
                o += struct.pack("!BBH", 2, 4, mss)
            if self.sack:
                o += b"\1\1\4\2"
            o += b"\1\3\3\7"
            if self.mptcp:
                o += b"\x1e\x0c\x01\x81" + self.pool[:8]
        if self.signed:
            o += b"\x13\x12" + self.pool[:16] + b"\1\1"
        elif self.ts:
            o += b"\1\1\x08\x0a" + struct.pack("!II", self.tsval[side] & 0xFFFFFFFF,
                                               self.tsval[1 - side] & 0xFFFFFFFF)
        if self.mptcp and not syn:
            o += b"\x1e\x08\x20\x01" + self.pool[8:12]
        o += extra
        return o[:40] if len(o) % 4 == 0 else (o + b"\0" * (4 - len(o) % 4))[:40]

    def segment(self, side, off, n, flags=ACK, at=None, syn=False, extra=b"", opts=None, bad=0, **ip):
        """Emits bytes [off, off + n) of the side's stream; off 0 is the SYN."""
        src, dst = self.addr[side], self.addr[1 - side]
        opts = self.options(side, syn, extra) if opts is None else opts
        body = self.payload(side, off, n) if n else b""
        seq = (self.isn[side] + off) & 0xFFFFFFFF
        ack = (self.isn[1 - side] + self.sent[1 - side]) & 0xFFFFFFFF if flags & ACK else 0
        urgent = 3 if flags & URG else 0
        doff = ip.pop("doff", 5 + len(opts) // 4)
        tcp = struct.pack("!HHIIHHHH", self.port[side], self.port[1 - side], seq, ack, doff << 12 | flags,
                          self.window[side], 0, urgent) + opts + body
        tcp = l4_checksum(src, dst, 6, tcp, 16, bad)
        self.ident[side] = (self.ident[side] + 1) & 0xFFFF
        pad, cut, total = ip.pop("pad", b""), ip.pop("cut", 0), ip.pop("total", 0)
        tos, ttl = ip.pop("tos", self.tos), ip.pop("ttl", self.ttl[side])
        if self.version == 4:
            ip.pop("label", 0), ip.pop("ext", 0), ip.pop("ext_type", 0)
            packet = ip4(src, dst, 6, tcp, tos, ttl, self.ident[side],
                         ip.pop("frag", 0x4000 if self.df else 0), **ip)
            if total:
                head = packet[:2] + struct.pack("!H", total & 0xFFFF) + packet[4:10] + b"\0\0" + packet[12:20]
                packet = head[:10] + struct.pack("!H", checksum(head)) + head[12:] + packet[20:]
        else:
            packet = ip6(src, dst, 6, tcp, tos, ttl, ip.pop("label", self.label), ip.pop("ext", b""),
                         ip.pop("ext_type", None))
            if total:
                packet = packet[:4] + struct.pack("!H", total & 0xFFFF) + packet[6:]
        if cut:
            packet = packet[:-cut]
        self.cap.add(self.t if at is None else at, IN if side == 0 else OUT, packet, self.vlan, pad=pad)
        return packet

    def ack(self, side, **kw):
        self.segment(side, self.sent[side], 0, **kw)

    def open(self):
        r = self.rng
        client = 1 if self.inside_client else 0
        flags = SYN | (ECE | CWR | (AE if self.accecn else 0) if self.tos & 3 else 0)
        if self.handshake:
            for _ in range(1 + (r.random() < 0.1)):
                self.segment(client, 0, 0, flags, syn=True)
                self.t += r.randrange(20 * US, 20 * MS)
            self.sent[client] = 1
            self.segment(1 - client, 0, 0, SYN | ACK | (ECE if flags & ECE else 0), syn=True)
            self.sent[1 - client] = 1
            self.t += r.randrange(20 * US, 2 * MS)
            self.ack(client)
        else:
            self.sent = [1, 1]
        self.t += r.randrange(1 * US, 1 * MS)

    def size(self, side):
        """Payload of full segments from this side."""
        mtu = 1500 if side == 0 else self.rng.choice((9000, 9000, 9000, 4000, 1500))
        peer = self.inside_mss if side == 0 else 8960 if self.version == 4 else 8940
        head = 40 if self.version == 4 else 60
        if side == 1 and self.signed:  # a signed SYN isn't rewritten: such hosts never hear of jumbos
            peer = self.outside_mss
        n = min(mtu - head, max(peer or 536, 88)) - len(self.options(side))
        return n * self.rng.randrange(1, max(2, 64000 // n)) if self.gro else n

    def trouble_with(self, side, off, n, t):
        """One of many things that happen to a segment; returns whether it's still to be sent."""
        r = self.rng
        what = r.randrange(32)
        seg = lambda *a, **kw: self.segment(side, *a, **kw)

        def whole(*a, **kw):
            """What can't be split leaves whole only where it fits."""
            small = min(n, 1300 - 8)
            seg(off, small, *a, at=t, **kw)
            if small < n:
                seg(off + small, n - small, at=t + 50)
            return False

        if what == 0:  # lost, sent again later, perhaps in other pieces
            later = t + r.randrange(5 * US, 900 * US)
            cuts = sorted({0, n, *(r.randrange(n + 1) for _ in range(r.randrange(3)))})
            for a, b in zip(cuts, cuts[1:]):
                seg(off + a, b - a, at=later + a)
            return False
        if what == 1:  # late
            seg(off, n, at=t + r.randrange(1 * US, 60 * US))
            return False
        if what == 2:  # twice
            seg(off, n, at=t + r.randrange(0, 30 * US))
        elif what == 3:  # old data again, with other borders, up to the new
            back = r.randrange(1, 3000)
            seg(max(1, off - back), min(back + r.randrange(n + 1), off - 1 + n, 1400), at=t)
        elif what == 4:  # keep-alives
            seg(off - 1, r.randrange(2), at=t)
        elif what == 5:  # a window probe
            seg(off, 1, at=t)
        elif what == 6:
            self.window[side] = r.randrange(65536)
            self.ack(side, at=t)
        elif what == 7:
            seg(off, n, ACK | PSH, at=t)
            return False
        elif what == 8:
            return whole(ACK | URG)
        elif what == 9:
            if r.random() < 0.2:
                return whole(ACK | 0x200)
            seg(off, n, ACK | r.choice((ECE, CWR, ECE | CWR, AE, AE | CWR)), at=t)
            return False
        elif what == 10:
            seg(off, n, at=t, tos=r.choice((0, 3, 0x10)), ttl=r.choice((self.ttl[side], 20)))
            return False
        elif what == 11 and self.version == 4:
            seg(off, n, at=t, frag=r.choice((0, 0x4000, 0x8000, 0xC000)))
            return False
        elif what == 12:
            seg(off, n, at=t, label=r.randrange(1 << 20))
            return False
        elif what == 13:  # timestamps back, or far ahead
            self.tsval[side] += r.choice((-5, 3, 1 << 31))
        elif what == 14:
            seg(off, n, at=t, opts=b"" if self.ts else b"\1\1\1\0")
            return False
        elif what == 15:
            sack = b"\1\1\5\x0a" + struct.pack("!II", self.isn[1 - side] + 9 & 0xFFFFFFFF,
                                               self.isn[1 - side] + 99 & 0xFFFFFFFF)
            seg(off, max(n - 12, 1), at=t, extra=sack)
            return False
        elif what == 16:
            seg(off, n, at=t, bad=r.randrange(1, 65536))
            return False
        elif what == 17:
            seg(off, n, at=t, pad=r.randbytes(r.randrange(1, 30)))
            return False
        elif what == 18:  # header options
            if self.version == 4:
                return whole(options=b"\1\1\1\1\x94\4\0\0")
            return whole(ext=struct.pack("!BBHI", 6, 0, 0x0104, 0), ext_type=r.choice((0, 60)))
        elif what == 19:  # lengths that can't be
            seg(off, min(n, 200), at=t, **r.choice(({"doff": r.randrange(5)}, {"doff": 15, "cut": min(n, 200)},
                                                   {"total": 19}, {"total": 60000}, {"cut": 3}, {"total": 41})))
        elif what == 20:
            self.fragments(side, off, n, t)
            return False
        elif what == 21:
            return whole(opts=b"\x08\x0a\0\0" if r.random() < 0.5 else b"\x03\x00\1\1")
        elif what == 22:
            flags = r.choice((RST, RST | ACK, 0, FIN) + ((SYN | FIN, SYN | ACK | PSH) if self.handshake else ()))
            seg(off, 0, flags, at=t, syn=bool(flags & SYN))
        elif what == 23:
            self.icmp_too_big(side, off, n, t)
        elif what == 24:
            return whole(0)
        return True

    def fragments(self, side, off, n, t):
        src, dst = self.addr[side], self.addr[1 - side]
        opts = self.options(side)
        tcp = struct.pack("!HHIIHHHH", self.port[side], self.port[1 - side], self.isn[side] + off & 0xFFFFFFFF,
                          1, 5 + len(opts) // 4 << 12 | ACK, 9, 0, 0) + opts + self.payload(side, off, n)
        tcp = l4_checksum(src, dst, 6, tcp, 16)
        step = self.rng.choice((48, 504, 1024))
        for a in range(0, len(tcp), step):
            more = a + step < len(tcp)
            if self.version == 4:
                p = ip4(src, dst, 6, tcp[a:a + step], 0, 60, 77, a // 8 | (0x2000 if more else 0))
            else:
                p = ip6(src, dst, 6, tcp[a:a + step], ext=struct.pack("!BBHI", 6, 0, a | more, 77), ext_type=44)
            self.cap.add(t + a // 8, IN if side == 0 else OUT, p, self.vlan)

    def icmp_too_big(self, side, off, n, t):
        """A router on the receiver's side complains about this segment."""
        src, dst = self.addr[side], self.addr[1 - side]
        mtu = self.rng.choice((1400, 1300, 1492, 600, 68, 0, 9000))
        tcp = struct.pack("!HHIIHHHH", self.port[side], self.port[1 - side], self.isn[side] + off & 0xFFFFFFFF,
                          0, 0x5010, 0, 0, 0)
        router = self.addr[1 - side]
        if self.version == 4:
            body = l4_checksum_icmp(struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + ip4(src, dst, 6, tcp)[:28])
            p = ip4(router, src, 1, body, frag=0)
        else:
            body = struct.pack("!BBHI", 2, 0, 0, mtu) + ip6(src, dst, 6, tcp)
            p = ip6(router, src, 58, l4_checksum(router, src, 58, body, 2))
        self.cap.add(t, OUT if side == 0 else IN, p, self.vlan)

    def transfer(self, side, total):
        r = self.rng
        n = self.size(side)
        acked = 0
        while total > 0:
            for _ in range(r.choice((1, 2, 10, 40))):
                take = min(n, total)
                if take <= 0:
                    break
                last = take == total
                off, t = self.sent[side], self.t
                if r.random() >= self.trouble or self.trouble_with(side, off, take, t):
                    self.segment(side, off, take, ACK | (PSH if last or r.random() < 0.02 else 0), at=t)
                self.sent[side] = off + take
                total -= take
                acked += 1
                self.t += r.randrange(self.gap // 2, self.gap * 2)
                if r.random() < 0.1:
                    self.tsval[side] += 1
                if acked >= 2 and r.random() < 0.7:
                    acked = 0
                    self.ack(1 - side)
                    if r.random() < 0.05:
                        self.tsval[1 - side] += 1
                if self.sent[side] % 7 == 0:
                    self.window[side] = r.randrange(65536)
            self.t += r.choice((1, 20 * US, r.randrange(3 * MS)))

    def close(self):
        r = self.rng
        if r.random() < 0.2:
            self.segment(r.randrange(2), self.sent[0] if r.random() < 0.5 else 1, 0, RST)
            return
        for side in (0, 1):
            n = r.choice((0, 0, 400))
            self.segment(side, self.sent[side], n, FIN | ACK)
            self.sent[side] += n + 1
            self.t += r.randrange(200 * US)
            self.ack(1 - side)

    def run(self):
        r = self.rng
        self.open()
        for _ in range(r.randrange(1, 5)):
            kind = r.randrange(4)
            if kind == 0:  # request and answer
                for side in (1, 0):
                    self.transfer(side, r.randrange(1, 2000))
            else:
                self.transfer(0 if kind < 3 else 1, min(self.largest, r.choice((3000, 30000, 150000))))
        if r.random() < 0.8:
            self.close()


def l4_checksum_icmp(body):
    return body[:2] + struct.pack("!H", checksum(body[:2] + b"\0\0" + body[4:])) + body[4:]


def noise(cap, rng, end):
    """Everything that isn't TCP across the border."""
    v4, v6 = ipaddress.IPv4Address, ipaddress.IPv6Address
    out6, in6 = v6("2001:db8::f9"), v6("fd00::f9")
    for i in range(rng.randrange(20, 60)):
        t, d = rng.randrange(end), rng.randrange(2)
        vlan = rng.choice(((), (), ((0x8100, 9),), ((0x88A8, 1), (0x8100, 2), (0x8100, 3))))
        data = rng.randbytes(rng.choice((0, 1, 30, 900, 1400)))
        udp = struct.pack("!HHHH", rng.randrange(1, 65536), rng.choice((53, 443, 4789)), 8 + len(data), 0) + data
        kind = rng.randrange(12)
        out4, in4 = v4(0xCB007100 + kind), v4(0x0A090900 + kind)
        s4, d4 = (out4, in4) if d == IN else (in4, out4)
        s6, d6 = (out6, in6) if d == IN else (in6, out6)
        if kind == 0:
            cap.add(t, d, ip4(s4, d4, 17, l4_checksum(s4, d4, 17, udp, 6)), vlan)
        elif kind == 1:
            cap.add(t, d, ip6(s6, d6, 17, l4_checksum(s6, d6, 17, udp, 6)), vlan)
        elif kind == 2:
            cap.add(t, d, ip4(s4, d4, 1, l4_checksum_icmp(b"\x08\0\0\0\0\1\0\1" + data)), vlan)
        elif kind == 3:
            cap.add(t, d, ip6(s6, d6, 58, l4_checksum(s6, d6, 58, b"\x80\0\0\0\0\1\0\1" + data, 2)), vlan)
        elif kind == 4:
            cap.add(t, d, b"\0\1\x08\0\6\4\0\1" + rng.randbytes(20), vlan, ether=0x0806)
        elif kind == 5:
            cap.add(t, d, rng.randbytes(60), (), ether=rng.choice((0x88CC, 0x8847, 0x8864, 0x0026, 0x0800, 0x86DD)))
        elif kind == 6:
            cap.add(t, d, ip4(s4, d4, rng.choice((47, 50, 132, 4, 2)), data), vlan)
        elif kind == 7:
            cap.add(t, d, ip4(s4, d4, 17, udp[:504], frag=0x2000) if data else ip4(s4, d4, 17, udp), vlan)
        elif kind == 8:  # TCP that doesn't cross
            peer = v4("10.8.8.8") if d else v4("203.0.113.8")
            me = in4 if d else out4
            tcp = struct.pack("!HHIIHHHH", 5, 6, rng.randrange(1 << 32), 0, 0x5010, 5, 0, 0) + data
            cap.add(t, d, ip4(me, peer, 6, l4_checksum(me, peer, 6, tcp, 16)), vlan)
        elif kind == 9 and not cap.raw:
            cap.frames.append((t, rng.randbytes(rng.randrange(1, 14))))
        elif kind == 10:
            big = struct.pack("!HHHH", 7, 7, 4008, 0) + bytes(4000)
            cap.add(t, OUT, ip4(in4, out4, 17, l4_checksum(in4, out4, 17, big, 6), frag=rng.choice((0, 0x4000))))
        elif kind == 11:  # an empty TCP packet, and one without a whole header
            cap.add(t, d, ip4(s4, d4, 6, rng.randbytes(rng.randrange(20))), vlan)


def write_pcap(path, frames, linktype, micro, snaplen):
    with open(path, "wb", buffering=1 << 20) as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4 if micro else 0xA1B23C4D, 2, 4, 0, 0, snaplen, linktype))
        for t, frame in frames:
            s, ns = divmod(1_700_000_000_000_000_000 + t, 1_000_000_000)
            data = frame[:snaplen]
            f.write(struct.pack("<IIII", s, ns // 1000 if micro else ns, len(data), len(frame)) + data)


def write_pcapng(path, frames, linktype, snaplen):
    def block(kind, body):
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    with open(path, "wb", buffering=1 << 20) as f:
        f.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        f.write(block(1, struct.pack("<HHI", linktype, 0, snaplen) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)))
        for t, frame in frames:
            stamp = 1_700_000_000_000_000_000 + t
            data = frame[:snaplen]
            f.write(block(6, struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(frame)) + data))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("out")
    ap.add_argument("--kind", choices=("mix", "tcp", "bulk", "upload", "gro"), default="mix")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--flows", type=int, default=12)
    ap.add_argument("--packets", type=int, default=10000, help="bulk and upload: data segments")
    ap.add_argument("--largest", type=int, default=150000, help="bytes of a transfer at most")
    ap.add_argument("--raw", action="store_true", help="link type raw IP")
    ap.add_argument("--pcapng", action="store_true")
    ap.add_argument("--micro", action="store_true", help="microsecond stamps")
    ap.add_argument("--snaplen", type=int, default=262144)
    ap.add_argument("--unordered", action="store_true", help="some stamps step back")
    a = ap.parse_args()
    rng = random.Random(a.seed)
    cap = Capture(rng, a.raw)
    if a.kind in ("bulk", "upload"):
        clean = dict(version=4, vlan=(), ts=True, sack=True, accecn=False, inside_client=True, handshake=True,
                     inside_mss=8960, outside_mss=1460, signed=False, mptcp=False, trouble=0, gap=240)
        flow = Flow(cap, rng, 0, 0, **clean)
        flow.open()
        side = 0 if a.kind == "bulk" else 1
        flow.size = lambda s: 1448 if s == 0 else 8948
        flow.transfer(side, a.packets * flow.size(side))
    else:
        for i in range(a.flows):
            fixed = dict(gro=True, signed=False, trouble=0.02, outside_mss=rng.choice((1460, 1400, 536))) if a.kind == "gro" else {}
            Flow(cap, rng, rng.randrange(20 * MS), i, largest=a.largest, **fixed).run()
        if a.kind == "mix":
            noise(cap, rng, max(t for t, _ in cap.frames))
    cap.frames.sort(key=lambda f: f[0])
    if a.unordered:
        cap.frames = [(max(0, t - rng.choice((0, 0, 0, 3 * US, 200 * US))), f) for t, f in cap.frames]
        half = len(cap.frames) // 2
        cap.frames[half:] = [(max(0, t - 5_000_000_000), f) for t, f in cap.frames[half:]]
    linktype = 101 if a.raw else 1
    if a.pcapng:
        write_pcapng(a.out, cap.frames, linktype, a.snaplen)
    else:
        write_pcap(a.out, cap.frames, linktype, a.micro, a.snaplen)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Writes the test vectors of docs/caravan-format.md; shares no code with the library: vectors.py [FOLDER]

vectors.pcap: the datagrams of a caravan, in their order, then the caravan (destination port 7475).
marked.pcap:  a caravan as it arrives with a congestion mark, then the datagrams that come of it.
refused.pcap: caravans that must be refused; REFUSED has the reasons in their order.
messages.pcap: a hello without and with cookie, the answers to both, a farewell and its answer."""
import ipaddress
import os
import struct
import sys

PORT = 7475
V4 = ("198.51.100.7", "10.9.0.2")
V6 = ("2001:db8:51::7", "2001:db8:9::2")


def ones_complement(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def pack(address):
    return ipaddress.ip_address(address).packed


class Ip:
    """What an IP header has beside its length and protocol."""

    def __init__(self, ends=V4, tos=0, ttl=57, df=True, mark=0):
        self.src, self.dst = pack(ends[0]), pack(ends[1])
        self.v6 = len(self.src) == 16
        self.tos, self.ttl, self.df, self.mark = tos, ttl, df, mark

    def but(self, **changes):
        new = Ip.__new__(Ip)
        new.__dict__.update(self.__dict__, **changes)
        return new

    def packet(self, payload):
        if self.v6:
            first = 6 << 28 | self.tos << 20 | self.mark
            return struct.pack("!IHBB", first, len(payload), 17, self.ttl) + self.src + self.dst + payload
        header = struct.pack("!BBHHHBBH", 0x45, self.tos, 20 + len(payload), self.mark,
                             0x4000 if self.df else 0, self.ttl, 17, 0) + self.src + self.dst
        checksum = 0xffff - ones_complement(header)
        return header[:10] + struct.pack("!H", checksum) + header[12:] + payload

    def udp(self, sport, dport, payload, checksum=True):
        length = 8 + len(payload)
        header = struct.pack("!HHHH", sport, dport, length, 0)
        if not checksum:
            return header + payload
        pseudo = self.src + self.dst + struct.pack("!IHH", length, 0, 17)
        value = 0xffff - ones_complement(pseudo + header + payload)
        return header[:6] + struct.pack("!H", value or 0xffff) + payload


class Datagram:
    def __init__(self, ip, sport, dport, payload, checksum=True):
        self.ip = ip
        self.udp = ip.udp(sport, dport, payload, checksum)
        self.ports = sport, dport

    def packet(self):
        return self.ip.packet(self.udp)


def body(datagrams, **header):
    """The payload of a caravan; keywords override fields of its header."""
    records = b"".join(struct.pack("!I" if d.ip.v6 else "!H", d.ip.mark) + d.udp for d in datagrams)
    field = dict(magic=0x5058, version=1, kind=0, flags=datagrams[0].ip.tos & 3, count=len(datagrams),
                 zero=0, length=len(records))
    field.update(header)
    return struct.pack("!HBBBBH", field["magic"], field["version"] << 4 | field["kind"], field["flags"],
                       field["count"], field["zero"], field["length"]) + records


def source_port(ip):
    words = struct.unpack(f"!{len(ip.src + ip.dst) // 4}I", ip.src + ip.dst)
    return 0xc000 | (sum(words) * 0x9e3779b1 & 0xffffffff) >> 18


def caravan(datagrams, payload=None, ip=None):
    ip = ip or datagrams[0].ip
    payload = body(datagrams) if payload is None else payload
    return ip.packet(ip.udp(source_port(ip), PORT, payload, checksum=ip.v6))


def data(n, seed):
    return bytes((i * 7 + seed * 31) & 255 for i in range(n))


def bundles():
    """Lists of datagrams that share a caravan."""
    for ends in (V4, V6):
        ip = Ip(ends)
        marks = iter(range(0x1200, 0x10000, 3))

        def flow(sizes, ports=(443, 50000), checksum=True, at=ip):
            return [Datagram(at.but(mark=next(marks)), *ports, data(n, i), checksum)
                    for i, n in enumerate(sizes)]

        yield flow([1200] * 7)                              # QUIC: 7 x 1200
        yield flow([1472, 1472, 80, 1472, 0, 1471, 1])      # any mix, an odd length between, none at all
        yield flow([0, 0])
        yield flow([100], (443, 50000)) + flow([333], (53, 50001)) + flow([35], (3478, 50002))
        yield flow([8] * 64, (5004, 5004))                  # as many as there may be
        yield flow([200, 300], at=ip.but(tos=0xb8 | 2, ttl=1))  # EF, ECT(0)
        if ends is V4:
            yield flow([700, 701, 702], checksum=False)     # no checksums: none made
            yield flow([700, 701], at=ip.but(df=False))
        else:
            yield [Datagram(ip.but(mark=m), 443, 50000, data(99, 0)) for m in (0, 0xfffff)]


# Reasons, in the order of refused.pcap; the first half on IPv4, the second on IPv6.
REFUSED = ["short", "magic", "version", "type", "reserved", "reserved", "count", "count", "count", "length",
           "length", "record", "record", "record", "rest", "nested", "nested", "ecn"]


def refused():
    for ends in (V4, V6):
        ip = Ip(ends)
        two = [Datagram(ip.but(mark=i), 443, 50000, data(100, i)) for i in (1, 2)]
        whole = body(two)
        at = 8 + (4 if ip.v6 else 2)  # of the first UDP header

        def poked(offset, replacement):
            return whole[:offset] + replacement + whole[offset + len(replacement):]

        for payload in (
                whole[:7], body(two, magic=0x5059), body(two, version=2), body(two, kind=3),
                body(two, flags=4), body(two, zero=1),
                body(two, count=0), body(two, count=65), body([two[0]] * 64, count=255),
                body(two, length=len(whole) - 9), body(two) + b"\0",
                poked(at + 4, struct.pack("!H", 7)),       # UDP length below its header's
                poked(at + 4, struct.pack("!H", 60000)),   # beyond the end
                body(two, count=3),
                body(two, count=1),
                body([two[0], Datagram(ip, 443, PORT, whole)]),
                body([two[0], Datagram(ip, PORT, 443, b"")])):
            yield caravan(two, payload)
        # CE on what can't bear it.
        yield caravan(two, ip=two[0].ip.but(tos=3))
    ip = Ip(V6)
    one = Datagram(ip, 443, 50000, b"label")
    payload = body([one])
    yield caravan([one], payload[:8] + b"\x00\x10\x00\x00" + payload[12:])


def marked():
    for ends in (V4, V6):
        for inner, outer, comes in ((0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 3),
                                    (2, 0, 2), (2, 1, 1), (2, 2, 2), (2, 3, 3),
                                    (3, 0, 3), (3, 1, 3), (3, 2, 3), (3, 3, 3)):
            ip = Ip(ends, tos=0x28 | inner)
            two = [Datagram(ip.but(mark=5 + i), 443, 50000, data(60, i)) for i in (0, 1)]
            # On its way the class was changed, too, and two routers were passed.
            arrived = two[0].ip.but(tos=0x48 | outer, ttl=55)
            yield caravan(two, ip=arrived)
            for d in two:
                yield arrived.but(tos=0x48 | comes, mark=d.ip.mark).packet(d.udp)


def messages():
    def message(kind, status, size, life, nonce, cookie, session):
        return struct.pack("!HBBHHQQQ", 0x5058, 0x10 | kind, status, size, life, nonce, cookie, session)

    nonce, cookie, session = 0x0102030405060708, 0x1112131415161718, 0x2122232425262728
    for ends in (V4, V6):
        out, back = Ip(ends[::-1]), Ip(ends)
        for ip, m in ((out, message(1, 0, 9000, 1000, nonce, 0, 0)),
                      (back, message(2, 1, 9000, 1000, nonce, cookie, session)),
                      (out, message(1, 0, 9000, 1000, nonce + 1, cookie, session)),
                      (back, message(2, 0, 8000, 1000, nonce + 1, cookie, session)),
                      (out, message(1, 0, 0, 0, nonce + 2, cookie, session)),
                      (back, message(2, 3, 0, 100, nonce + 2, cookie, session))):
            yield ip.packet(ip.udp(PORT, PORT, m))


def write(path, packets):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i, p in enumerate(packets):
            frame = bytes.fromhex("020000000002020000000001") + (b"\x08\x00" if p[0] >> 4 == 4 else b"\x86\xdd") + p
            f.write(struct.pack("<IIII", 1700000000, i, len(frame), len(frame)) + frame)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    both = []
    for datagrams in bundles():
        both += [d.packet() for d in datagrams] + [caravan(datagrams)]
    write(os.path.join(folder, "vectors.pcap"), both)
    write(os.path.join(folder, "refused.pcap"), list(refused()))
    write(os.path.join(folder, "marked.pcap"), list(marked()))
    write(os.path.join(folder, "messages.pcap"), list(messages()))


if __name__ == "__main__":
    main()

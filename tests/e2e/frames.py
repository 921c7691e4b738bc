# SPDX-License-Identifier: BSD-3-Clause
"""Frames that aren't TCP: what passes untouched, what is fragmented, what is refused by ICMP."""
import errno
import os
import select
import socket
import struct
import time

from bed import Bed, need
from capture import Capture, ip_offset, stop_captures

SCENARIOS = {}

ETH_P_ALL = 3
IP_MTU_DISCOVER, IP_MTU, IPV6_MTU_DISCOVER, IPV6_MTU = 10, 14, 23, 24
PMTUDISC_DONT, PMTUDISC_DO = 0, 2


def ipv4(protocol, payload, ident=7, fragment=0, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + len(payload), ident, fragment, 64,
                       protocol, 0, socket.inet_aton("10.9.0.1"), socket.inet_aton("10.9.0.2")) + options
    total = sum(struct.unpack(f"!{2 * words}H", head))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack("!H", ~total & 0xffff) + head[12:] + payload


def odd_frames(to, source):
    """Frames that no gateway of ours has any business with, by name."""
    unicast, ip = to + source, b"\x08\x00"
    data = os.urandom(1000)
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 500, 0xbad, 0)
    vlan, qinq = b"\x81\x00\x00\x05", b"\x88\xa8\x00\x07\x81\x00\x00\x05"
    return {
        "LLDP": bytes.fromhex("0180c200000e") + source + b"\x88\xcc" + data[:200],
        "STP": bytes.fromhex("0180c2000000") + source + b"\x00\x26\x42\x42\x03" + data[:35],
        "unknown ethertype": unicast + b"\x88\xb5" + data,
        "unknown ethertype, tagged": unicast + vlan + b"\x88\xb5" + data[:100],
        "two tags": unicast + qinq + b"\x88\xb5" + data[:100],
        "priority tag": unicast + b"\x81\x00\xe0\x00\x88\xb5" + data[:100],
        "first fragment": unicast + ip + ipv4(17, data[:800], fragment=0x2000),
        "last fragment": unicast + ip + ipv4(17, data[:40], fragment=100),
        "fragment of TCP": unicast + ip + ipv4(6, data[:80], fragment=0x2001),
        "IPv4 options": unicast + ip + ipv4(6, tcp + data[:50], options=b"\x94\x04\x00\x00"),
        "unknown protocol": unicast + ip + ipv4(253, data),
        "GRE": unicast + ip + ipv4(47, b"\x00\x00\x65\x58" + data),
        "OSPF": bytes.fromhex("01005e000005") + source + ip + ipv4(89, data[:44]),
        "IPv4 checksum wrong": unicast + ip + ipv4(17, data[:50])[:10] + b"\x12\x34" + ipv4(17, data[:50])[12:],
        "TCP checksum wrong": unicast + ip + ipv4(6, tcp + data[:50]),
        "TCP offset beyond the packet": unicast + ip + ipv4(6, tcp[:12] + b"\xf0" + tcp[13:]),
        "IP length beyond the frame": unicast + ip + ipv4(17, data[:100])[:80],
        "header only": unicast + ip + bytes(46),
        "padded": unicast + ip + ipv4(6, tcp) + b"\xaa" * 6,
    }


def untouched(options):
    """Odd frames pass bit for bit, both ways, tags and padding included."""
    with Bed(options, capture=False) as bed:
        for source, to in ((bed.outside, bed.inside), (bed.inside, bed.outside)):
            a, b = (bytes.fromhex(s.mac().replace(":", "")) for s in (source, to))
            capture = Capture(to, "odd")
            with source.entered():
                raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            raw.bind(("eth0", 0))
            sent = odd_frames(b, a)
            for frame in sent.values():
                raw.send(frame)
                time.sleep(0.002)
            raw.close()
            stop_captures(capture)
            got = {f.data for f in capture.received()}
            missing = [name for name, frame in sent.items() if frame not in got]
            need(not missing, f"lost or altered on the way to {to.name}: " + ", ".join(missing))
        print(f"  {len(sent)} kinds of frames passed bit for bit, both ways")
        bed.finish()


SCENARIOS["untouched_frames"] = untouched


def udp_pair(bed, family, discover):
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    level, option = ((socket.IPPROTO_IP, IP_MTU_DISCOVER) if family == 4
                     else (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER))
    with bed.outside.entered():
        server = socket.socket(kind, socket.SOCK_DGRAM)
    with bed.inside.entered():
        client = socket.socket(kind, socket.SOCK_DGRAM)
    server.bind((bed.address[family], 6000))
    client.setsockopt(level, option, discover)
    client.connect((bed.address[family], 6000))
    return server, client


def receive(sock, timeout):
    ready, _, _ = select.select([sock], [], [], timeout)
    return sock.recv(65535) if ready else None


def udp_fragmented(options):
    """UDP of 9000 B without DF from inside is cut into fragments that the outside host puts together."""
    with Bed(options) as bed:
        server, client = udp_pair(bed, 4, PMTUDISC_DONT)
        for size in (8972, 1473, 5000):
            data = os.urandom(size)
            client.send(data)
            need(receive(server, 2) == data, f"a datagram of {size} B didn't arrive intact")
        stats = bed.finish()
        need(stats["gateway"]["frag_in_pkts"] == 3, "the gateway didn't fragment 3 packets")
        fragments = [f for f in bed.captures["outside"].received()
                     if ip_offset(f.data) == 14 and f.data[23] == 17]
        need(len(fragments) >= 7 + 2 + 4, f"only {len(fragments)} fragments on the outside")


SCENARIOS["udp_without_df"] = udp_fragmented


def udp_refused(family):
    """With DF, or on IPv6, the inside host is told what fits."""
    def scenario(options):
        with Bed(options, family=family) as bed:
            server, client = udp_pair(bed, family, PMTUDISC_DO)
            client.send(b"hello")  # so that the neighbours know each other
            need(receive(server, 2) == b"hello", "a small datagram didn't arrive")
            client.send(os.urandom(8000))
            need(receive(server, 0.5) is None, "a datagram of 8000 B with DF arrived")
            try:
                client.send(os.urandom(8000))
                client.send(os.urandom(8000))
                need(False, "the inside host wasn't told that its datagrams are too big")
            except OSError as e:
                need(e.errno == errno.EMSGSIZE, f"another error than expected: {e}")
            mtu = client.getsockopt(*((socket.IPPROTO_IP, IP_MTU) if family == 4
                                      else (socket.IPPROTO_IPV6, IPV6_MTU)))
            need(mtu == 1500, f"the inside host was told an MTU of {mtu}, not 1500")
            client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # the router's error, once more
            fits = os.urandom(1472 if family == 4 else 1452)
            client.send(fits)
            need(receive(server, 2) == fits, "a datagram that fits didn't arrive")
            stats = bed.finish()
            need(stats["gateway"]["icmp_sent"] > 0, "no ICMP was counted")
    return scenario


for _family in (4, 6):
    SCENARIOS[f"udp_with_df_ipv{_family}"] = udp_refused(_family)

# SPDX-License-Identifier: BSD-3-Clause
"""Captures on a host's interface, and what an independent decoder says about them."""
import collections
import os
import signal
import struct
import subprocess
import time

from lab.netns import LabError

# Linux writes 0xffff where the sum is 0, which is the same number; tshark takes it for wrong. It also
# judges the cut packets that ICMP errors quote.
BAD_CHECKSUM = ("ip.checksum.status == 0 || icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || "
                "(!icmp && !icmpv6 && (udp.checksum.status == 0 || "
                "(tcp.checksum.status == 0 && tcp.checksum != 0xffff)))")

Frame = collections.namedtuple("Frame", "data length")


class Capture:
    def __init__(self, space, name, interface="eth0", limit=120000, filter=""):
        self.space, self.path = space, os.path.join(space.lab.dir, f"{name}.pcap")
        self.mac = bytes.fromhex(space.mac(interface).replace(":", ""))
        self.process = space.popen("tcpdump", "-i", interface, "-n", "-s", 0, "-B", 65536, "-Z",
                                   "root", "-c", limit, "-w", self.path, *filter.split(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        while line and "listening" not in line:
            line = self.process.stderr.readline()
        if not line:
            raise LabError(f"tcpdump didn't start on {space.name}")


    def frames(self):
        with open(self.path, "rb") as f:
            data = f.read()
        order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        header = struct.Struct(order + "IIII")
        at = 24
        while at + 16 <= len(data):
            _, _, stored, length = header.unpack_from(data, at)
            at += 16
            yield Frame(data[at:at + stored], length)
            at += stored

    def received(self):
        return (f for f in self.frames() if f.data[6:12] != self.mac)

    def largest(self):
        return max((f.length for f in self.frames()), default=0)


def bad_checksums(captures):
    """For each capture one line per packet with a checksum that doesn't hold, as tshark sees it."""
    checks = [x for p in ("ip", "tcp", "udp") for x in ("-o", f"{p}.check_checksum:TRUE")]
    runs = [subprocess.Popen(
        ["tshark", "-r", c.path, "-n", *checks, "-d", "tcp.port==5000-5010,data",
         "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.analyze_sequence_numbers:FALSE",
         "-Y", BAD_CHECKSUM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for c in captures]
    results = [(r, *r.communicate()) for r in runs]
    for r, _, err in results:
        if r.returncode != 0:
            raise LabError(f"tshark: {err.strip()[-300:]}")
    return [out.splitlines() for _, out, _ in results]


def stop_captures(*captures):
    time.sleep(1.1)  # tcpdump is behind by its read timeout of a second
    for c in captures:
        if c.process in c.space.lab.processes:
            c.space.lab.end(c.process, signal.SIGINT)


def ip_offset(data):
    """Where the IP header begins, behind VLAN tags; None: not IP."""
    at = 12
    while data[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    return at + 2 if data[at:at + 2] in (b"\x08\x00", b"\x86\xdd") else None


def tcp_payload(data):
    """(IP length, TCP payload length), or None where it isn't TCP."""
    at = ip_offset(data)
    if at is None:
        return None
    if data[at] >> 4 == 4:
        head, length, protocol = (data[at] & 15) * 4, int.from_bytes(data[at + 2:at + 4], "big"), data[at + 9]
    else:
        head, length, protocol = 40, 40 + int.from_bytes(data[at + 4:at + 6], "big"), data[at + 6]
    if protocol != 6:
        return None
    return length, length - head - (data[at + head + 12] >> 4) * 4


def tcp_sizes(frames):
    """IP length -> payload bytes in TCP packets of that length that carry any."""
    sizes = collections.Counter()
    for f in frames:
        tcp = tcp_payload(f.data)
        if tcp and tcp[1] > 0:
            sizes[tcp[0]] += tcp[1]
    return sizes


def share_of_jumbos(frames, at_least=8000):
    """Of all TCP payload, the share that came in packets of that size and more."""
    sizes = tcp_sizes(frames)
    total = sum(sizes.values())
    return sum(b for length, b in sizes.items() if length >= at_least) / total if total else 0.0

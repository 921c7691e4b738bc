# SPDX-License-Identifier: BSD-3-Clause
"""A box on the path; what it takes from a TUN device it writes back there: middlebox.py DEVICE KIND

reassemble: IPv4 datagrams leave whole, as behind some firewalls. clear-df: whatever says that it must not
be fragmented no longer does. delay: all of it leaves 20 ms later."""
import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000


def with_checksum(header):
    header[10:12] = b"\0\0"
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    struct.pack_into("!H", header, 10, ~total & 0xffff)
    return bytes(header)


def delay(tun, seconds):
    waiting = collections.deque()
    while True:
        pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        if select.select([tun], [], [], pause)[0]:
            waiting.append((time.monotonic() + seconds, os.read(tun, 65536)))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(tun, waiting.popleft()[1])


def main():
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", sys.argv[1].encode(), IFF_TUN | IFF_NO_PI))
    print("ready", flush=True)
    if sys.argv[2] == "delay":
        delay(tun, 0.02)
    parts = {}
    while True:
        packet = os.read(tun, 65536)
        if packet[0] >> 4 != 4:
            continue
        frag = struct.unpack_from("!H", packet, 6)[0]
        if sys.argv[2] == "clear-df":
            header = bytearray(packet[:20])
            struct.pack_into("!H", header, 6, frag & 0x3fff)
            os.write(tun, with_checksum(header) + packet[20:])
            continue
        if frag & 0x3fff == 0:
            os.write(tun, packet)
            continue
        key = packet[4:6] + packet[9:10] + packet[12:20]
        got = parts.setdefault(key, {})
        got[(frag & 0x1fff) * 8] = packet
        if len(parts) > 64:
            parts.pop(next(iter(parts)))
        data, at = b"", 0
        while at in got:
            piece = got[at]
            data += piece[20:]
            last = struct.unpack_from("!H", piece, 6)[0] & 0x2000 == 0
            at += len(piece) - 20
            if last:
                header = bytearray(got[0][:20])
                struct.pack_into("!HHH", header, 2, 20 + len(data), struct.unpack_from("!H", header, 4)[0], 0)
                os.write(tun, with_checksum(header) + data)
                del parts[key]
                break


def insert(space, kind, came_by, only=""):
    """What came to a router by an interface goes through a box of that kind; `only`: what `ip rule` shall choose."""
    process = space.popen(sys.executable, os.path.abspath(__file__), "box", kind, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        from lab.netns import LabError  # not to be found where this runs as the box
        raise LabError("the box didn't start")
    space.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__default__rp_filter=0,
                 net__ipv4__conf__box__rp_filter=0, **{f"net__ipv4__conf__{came_by}__rp_filter": 0})
    space.ip("link set dev box mtu 65000 up")
    for ip in (space.ip, space.ip6):
        ip("route add default dev box table 100", f"rule add iif {came_by} {only} lookup 100")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""What a user of caravand would lose."""
import os
import signal
import socket
import struct
import subprocess
import time

from bed import (FAR, INSIDE, NEAR, UDP_GRO, UDP_SEGMENT, Bed, check_stream, collect, need, payload)
from lab.netns import wait_for

# None is fragmented: fragments pass as they are, and may overtake what is in a caravan.
MIXED = [1200] * 60 + [0, 1, 2, 1452, 0, 77, 1451, 1452, 3] * 30 + [1200] * 60


def send_burst(sock, to, sizes, pause=0.002):
    """So fast that many are on their way together, but no queue of 1000 packets runs over."""
    for i, n in enumerate(sizes):
        sock.sendto(payload(i, n), to)
        if i % 50 == 49:
            time.sleep(pause)


def there_and_back(bed, version, sizes):
    """Datagrams of these sizes inwards, then outwards."""
    a = bed.udp(bed.inside, version, INSIDE[version], 5000)
    b = bed.udp(bed.outside, version, FAR[version], 6000)
    send_burst(b, (INSIDE[version], 5000), sizes)
    check_stream(collect(a, len(sizes)), sizes, (FAR[version], 6000), f"IPv{version} inwards")
    send_burst(a, (FAR[version], 6000), sizes)
    check_stream(collect(b, len(sizes)), sizes, (INSIDE[version], 5000), f"IPv{version} outwards")


def both_ways(args, options=()):
    """Every datagram arrives once, in order, with its bytes, from and to programs that know nothing of it."""
    with Bed(args, caravand=options) as bed:
        for version in (4, 6):
            there_and_back(bed, version, MIXED)
        c = bed.counters()
        print(c)
        for name in ("drop_refused", "drop_truncated", "drop_to_programs", "drop_send", "damaged"):
            need(c[name] == 0, f"{name} {c[name]}")
        need(c["caravans_in"] > 20 and c["caravans_out"] > 20, "hardly any caravans")
        g = bed.stop_gateway()
        print(g)
        need(g["refused"] == 0, "the gateway refused caravans")
        need(g["datagrams_to_inside"] == c["datagrams_in"], "datagrams were lost on the way in")
        need(g["datagrams_from_inside"] == c["datagrams_out"], "datagrams were lost on the way out")


def one_by_one(args):
    """As both_ways, on a kernel whose TUN devices take no batches."""
    both_ways(args, ("--no-batches",))


def inwards_only(args):
    """Without outbound it touches no rule or route, and what programs send goes its usual way."""
    with Bed(args, caravand=("--no-outbound",)) as bed:
        need("7475" not in bed.rules() and bed.table() == "", f"{bed.rules()}{bed.table()}")
        there_and_back(bed, 4, MIXED)
        c = bed.counters()
        # All but those that come alone.
        need(c["datagrams_in"] > 0.8 * len(MIXED) and c["plain_out"] == c["caravans_out"] == 0, f"{c}")


def every_size(args):
    """0 to 8,900 bytes: those that fit share caravans, the others pass as they are."""
    sizes = list(range(0, 1600, 13)) + list(range(1600, 8901, 100)) + [8900, 0, 8900]
    with Bed(args, mtu=9000) as bed:
        for version in (4, 6):
            there_and_back(bed, version, sizes)


def batches(args):
    """A program with UDP_GRO gets batches; one with UDP_SEGMENT is bundled whole."""
    with Bed(args) as bed:
        if not bed.status()["batches"]:
            print("skipped: this kernel's TUN devices take no batches of datagrams (Linux 6.2 and later do)")
            raise SystemExit(77)
        for version in (4, 6):
            a = bed.udp(bed.inside, version, INSIDE[version], 5000)
            a.setsockopt(17, UDP_GRO, 1)
            b = bed.udp(bed.outside, version, FAR[version], 6000)
            sizes = [1200] * 3000
            send_burst(b, (INSIDE[version], 5000), sizes)
            got, most, at = b"", 0, 0
            a.settimeout(1)
            expected = [payload(i, n) for i, n in enumerate(sizes)]
            while at < len(sizes):
                try:
                    data, control, _, source = a.recvmsg(65536, 1024)
                except socket.timeout:
                    break
                size = len(data)
                for level, kind, value in control:
                    if (level, kind) == (17, UDP_GRO):
                        size = struct.unpack("i", value[:4])[0]
                need(source[:2] == (FAR[version], 6000), f"from {source}")
                parts = [data[i:i + size] for i in range(0, len(data), size)]
                need(parts == expected[at:at + len(parts)], f"a batch of {len(parts)} has other bytes")
                most = max(most, len(parts))
                at += len(parts)
            need(at == len(sizes), f"IPv{version}: {at} of {len(sizes)} datagrams")
            need(most >= 7, f"batches of {most} at most")
            # Outwards.
            before = bed.counters()
            data = b"".join(expected[:40])
            for _ in range(5):
                a.sendmsg([data], [(17, UDP_SEGMENT, struct.pack("H", 1200))], 0, (FAR[version], 6000))
                check_stream(collect(b, 40), [1200] * 40, (INSIDE[version], 5000), f"IPv{version} segments")
            after = bed.counters()
            caravans = after["caravans_out"] - before["caravans_out"]
            need(caravans <= 40, f"200 datagrams in {caravans} caravans")


def plain_without_gateway(args):
    """The gateway dies, even by kill -9: within a second traffic goes plain, and comes back to caravans."""
    with Bed(args) as bed:
        bed.stop_gateway(signal.SIGKILL)
        # Frames pass without it now: a bridge in its place.
        bed.bump.ip("link add br0 type bridge", "link set br0 mtu 9000 up", "link set inside master br0",
                    "link set outside master br0")
        gone = time.monotonic()
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        b = bed.udp(bed.outside, 4, FAR[4], 6000)
        wait_for(lambda: not bed.active(), 3, "noticing that the gateway is gone")
        took = time.monotonic() - gone
        print(f"plain after {took:.2f} s")
        need(took <= 1.2, f"{took:.2f} s until traffic went plain (a second, and what asking takes)")
        need("caravan0" not in bed.table(), f"routes are left: {bed.table()}")
        send_burst(a, (FAR[4], 6000), MIXED)
        check_stream(collect(b, len(MIXED)), MIXED, (INSIDE[4], 5000), "plain, outwards")
        send_burst(b, (INSIDE[4], 5000), MIXED)
        check_stream(collect(a, len(MIXED)), MIXED, (FAR[4], 6000), "plain, inwards")
        need(bed.counters()["plain_out"] == 0, "plain traffic passes through caravand")
        bed.bump.ip("link del br0")
        bed.start_gateway()
        took = time.monotonic()
        bed.wait_active(5)
        print(f"back after {time.monotonic() - took:.2f} s")
        before = bed.counters()["caravans_out"]
        send_burst(a, (FAR[4], 6000), MIXED)
        check_stream(collect(b, len(MIXED)), MIXED, (INSIDE[4], 5000), "again, outwards")
        need(bed.counters()["caravans_out"] > before, "no caravans after the gateway's return")


def gateway_restart(args):
    """A restart under traffic costs at most a second of datagrams, none twice, and heals by itself."""
    with Bed(args) as bed:
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        b = bed.udp(bed.outside, 4, FAR[4], 6000)
        sizes = [1200] * 6000
        start = time.monotonic()
        for i, n in enumerate(sizes):
            a.sendto(payload(i, n), (FAR[4], 6000))
            if i % 20 == 19:
                time.sleep(max(0, start + i / 2000 - time.monotonic()))  # 2000 a second
            if i == 2000:
                bed.stop_gateway(signal.SIGKILL)
                bed.start_gateway()
        got = collect(b, len(sizes))
        check_stream(got, sizes, (INSIDE[4], 5000), "restart", lost_allowed=True)
        print(f"{len(sizes) - len(got)} of {len(sizes)} lost")
        need(len(sizes) - len(got) <= 2000, f"{len(sizes) - len(got)} datagrams lost, more than a second's")
        need(got[-1][0] == payload(len(sizes) - 1, 1200), "the last one didn't arrive")
        need(bed.active(), "not registered again")


def comes_and_goes(args):
    """Each time that a host's datagrams turn from caravans to plain ones or back, none overtakes another."""
    with Bed(args) as bed:
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        b = bed.udp(bed.outside, 4, FAR[4], 6000)
        sizes, start, steered = [1200] * 20000, time.monotonic(), []
        for i, n in enumerate(sizes):
            a.sendto(payload(i, n), (FAR[4], 6000))
            if i % 20 == 19:
                time.sleep(max(0, start + i / 2000 - time.monotonic()))  # 2000 a second
            if i % 2000 == 1999:  # the gateway's answers are lost, then they come again
                steered.append(bed.status()["families"][0]["steering"])
                bed.inside.run("iptables", "-D" if len(steered) % 2 == 0 else "-I", "INPUT", "-p", "udp",
                               "--sport", "7475", "-j", "DROP")
        got = collect(b, len(sizes))
        check_stream(got, sizes, (INSIDE[4], 5000), "turns")
        need(steered == [True, False] * 5, f"steered: {steered}")


def killed(args):
    """kill -9 of caravand leaves nothing that cuts the host off, and the next one starts without help."""
    with Bed(args) as bed:
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        b = bed.udp(bed.outside, 4, FAR[4], 6000)
        six, far = bed.udp(bed.inside, 6, INSIDE[6], 5000), bed.udp(bed.outside, 6, FAR[6], 6000)
        for _ in range(2):
            need("caravan0" in bed.table(), "no route through the device")
            bed.lab.end(bed.daemon, signal.SIGKILL)
            need("caravan0" not in bed.table(), f"routes are left: {bed.table()}")
            send_burst(a, (FAR[4], 6000), MIXED)
            check_stream(collect(b, len(MIXED)), MIXED, (INSIDE[4], 5000), "after kill -9")
            send_burst(six, (FAR[6], 6000), MIXED)
            check_stream(collect(far, len(MIXED)), MIXED, (INSIDE[6], 5000), "after kill -9, IPv6")
            bed.inside.run("ping", "-c1", "-W2", FAR[4])
            time.sleep(1.1)  # the gateway forgets the host by itself
            send_burst(b, (INSIDE[4], 5000), MIXED)
            check_stream(collect(a, len(MIXED)), MIXED, (FAR[4], 6000), "inwards after kill -9")
            bed.start_caravand()
            bed.wait_active()
            need(bed.rules().count("7475") == 2, f"rules that pile up: {bed.rules()}")
        before = bed.rules()
        bed.lab.end(bed.daemon)
        need("7475" in before and "7475" not in bed.rules(), f"rules are left: {bed.rules()}")
        need(bed.table() == "", f"routes are left: {bed.table()}")
        # It said good-bye: what comes now is plain at once.
        send_burst(b, (INSIDE[4], 5000), MIXED)
        check_stream(collect(a, len(MIXED)), MIXED, (FAR[4], 6000), "after its end")


def left_alone(args):
    """Hosts inside, other protocols, tunnels and bound sockets are none of caravand's business."""
    with Bed(args) as bed:
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        near = bed.udp(bed.outside, 4, NEAR[4], 6001)
        send_burst(a, (NEAR[4], 6001), MIXED)  # on its own link, not behind a default route
        check_stream(collect(near, len(MIXED)), MIXED, (INSIDE[4], 5000), "to a neighbour")
        need(bed.counters()["plain_out"] == 0, "a neighbour's datagrams pass through caravand")
        b = bed.udp(bed.outside, 4, FAR[4], 4500)
        send_burst(a, (FAR[4], 4500), MIXED)
        check_stream(collect(b, len(MIXED)), MIXED, (INSIDE[4], 5000), "to a tunnel's port")
        c = bed.counters()
        need(c["caravans_out"] == 0 and c["plain_out"] == len(MIXED), f"a tunnel was bundled: {c}")
        # A caravan from somebody outside who isn't the gateway: it has no other source than its own.
        g = bed.stop_gateway()
        need(g["caravans_from_inside"] == 0, f"{g}")


def losses(args):
    """Datagrams lost and overtaken before the gateway stay so, and nothing else is."""
    with Bed(args, gateway=("--lose", 17)) as bed:
        for version in (4, 6):
            a = bed.udp(bed.inside, version, INSIDE[version], 5000)
            b = bed.udp(bed.outside, version, FAR[version], 6000)
            sizes = [1200] * 1700
            send_burst(b, (INSIDE[version], 5000), sizes)
            got = collect(a, len(sizes))
            check_stream(got, sizes, (FAR[version], 6000), f"IPv{version}", lost_allowed=True)
            need(len(sizes) - len(got) in (99, 100, 101), f"{len(sizes) - len(got)} lost, not every 17th")
    with Bed(args, gateway=("--swap", 5)) as bed:
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        b = bed.udp(bed.outside, 4, FAR[4], 6000)
        sizes = [1200] * 1000
        send_burst(b, (INSIDE[4], 5000), sizes)
        got = [g[0] for g in collect(a, len(sizes))]
        need(sorted(got) == sorted(payload(i, n) for i, n in enumerate(sizes)), "other datagrams than were sent")


def reassembled(bed, version):
    """Fragments that the inside host had to put together itself."""
    if version == 4:
        lines = [line.split() for line in bed.inside.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Ip:")]
        return int(lines[1][lines[0].index("ReasmReqds")])
    return int(dict(line.split() for line in bed.inside.run("cat", "/proc/net/snmp6").splitlines())["Ip6ReasmReqds"])


def fragmented(args):
    """Datagrams that their sender had to fragment arrive whole; a part without the others arrives, too."""
    need(args.pxgw, "this is for pxgw; give --pxgw")
    with Bed(args, caravan="{mode: on, reassemble: on}") as bed:
        sizes = [8000, 4600, 8940, 7000, 5001] * 40  # none fits a caravan beside another
        for version in (4, 6):
            a = bed.udp(bed.inside, version, INSIDE[version], 5000)
            b = bed.udp(bed.outside, version, FAR[version], 6000)
            before = reassembled(bed, version)
            send_burst(b, (INSIDE[version], 5000), sizes, pause=0.01)
            check_stream(collect(a, len(sizes)), sizes, (FAR[version], 6000), f"IPv{version}")
            need(reassembled(bed, version) == before, f"IPv{version}: the host got fragments")
        with bed.outside.entered():
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        udp = struct.pack("!HHHH", 6000, 5000, 8 + 2960, 0) + payload(0, 1472)
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 77, 0x2000, 64, 17, 0,
                           socket.inet_aton(FAR[4]), socket.inet_aton(INSIDE[4]))
        before = reassembled(bed, 4)
        raw.sendto(head + udp, (INSIDE[4], 0))
        wait_for(lambda: reassembled(bed, 4) == before + 1, 2, "the part arriving")
        gateway = bed.pxgw.settled_stats()["gateway"]
        print({k: v for k, v in gateway.items() if k.startswith("reassembl")})
        need(gateway["reassembled_pkts"] == 2 * len(sizes), f"{gateway['reassembled_pkts']} made whole")
        need(gateway["reassembly_expired"] == 1, "the lone part")
        bed.stop_gateway()


def fragmented_workers(args):
    """Two workers: all fragments of a datagram meet on one of them."""
    need(args.pxgw, "this is for pxgw; give --pxgw")
    with Bed(args, caravan="{mode: on, reassemble: on}", workers=2) as bed:
        sources = [f"198.51.100.{n}" for n in range(1, 17)]
        bed.outside.ip(*[f"addr add {a}/32 dev lo" for a in sources if a != FAR[4]])
        a = bed.udp(bed.inside, 4, INSIDE[4], 5000)
        sizes = [8000, 4600, 8940, 7000, 5001] * 4
        before = reassembled(bed, 4)
        for source in sources:
            send_burst(bed.udp(bed.outside, 4, source, 6000), (INSIDE[4], 5000), sizes)
            check_stream(collect(a, len(sizes)), sizes, (source, 6000), source)
        need(reassembled(bed, 4) == before, "the host got fragments")
        stats = bed.pxgw.settled_stats()
        need(stats["gateway"]["reassembled_pkts"] == len(sources) * len(sizes), "not all were made whole")
        busy = [w["polls_with_packets"] for w in stats["workers"]]
        need(len(busy) == 2 and min(busy) > 20, f"polls with packets, by worker: {busy}")
        bed.stop_gateway()


def misuse(args):
    """What can't work says so in one line, with exit status 2."""
    def fails(bed, *options):
        done = subprocess.run(["ip", "netns", "exec", bed.inside.name, args.caravand, "run", *map(str, options)],
                              capture_output=True, text=True, timeout=20)
        need(done.returncode == 2, f"{options}: exit status {done.returncode}")
        need(done.stderr.count("\n") == 1, f"{options}: {done.stderr}")
        return done.stderr
    with Bed(args) as bed:
        need("no IPv4" in fails(bed, "--gateway", "nowhere"), "a name as a gateway")
        need("second" in fails(bed, "--gateway", FAR[4], "--gateway", NEAR[4]), "two of a family")
        need("--gateway" in fails(bed), "none")
        need("mark" in fails(bed, "--gateway", FAR[4], "--mark", 3), "a mark of two bits")
        need("port 7475" in fails(bed, "--gateway", FAR[4], "--tun", "other"), "a second one")
        need("caravan0" in fails(bed, "--gateway", FAR[4], "--port", 7476), "the same device")
        need("-" * 20 not in fails(bed, "--gateway", FAR[4], "--tun", "a" * 20), "a long name")
        need(bed.active(), "the running one was disturbed")
        need("caravan0" in bed.table(), "the running one's routes were taken away")
        other = os.path.join(bed.lab.dir, "nobody.sock")
        done = subprocess.run([args.caravand, "status", "--socket", other], capture_output=True, text=True)
        need(done.returncode == 2 and "is caravand running" in done.stderr, done.stderr)
        need(subprocess.run([args.caravand, "status", "--socket", bed.socket_path],
                            capture_output=True).returncode == 0, "status of an active one")


SCENARIOS = {f.__name__: f for f in (both_ways, one_by_one, inwards_only, every_size, batches, plain_without_gateway,
                                     gateway_restart, comes_and_goes, killed, left_alone, losses, fragmented,
                                     fragmented_workers, misuse)}

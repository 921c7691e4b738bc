# SPDX-License-Identifier: BSD-3-Clause
"""Real programs over caravans, that know nothing of them: iperf3, dnsmasq and dig, DTLS of OpenSSL."""
import json
import os
import shutil
import subprocess
import time

from bed import FAR, INSIDE, Bed, need
from lab.netns import wait_for


def present(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} isn't there; scripts/setup.sh test installs it")
        raise SystemExit(77)


def run(space, *command, timeout=60):
    return subprocess.run(["ip", "netns", "exec", space.name, *map(str, command)], capture_output=True,
                          text=True, timeout=timeout)


def iperf3(args):
    """UDP both ways: nothing lost, nothing out of order, and most of it in caravans."""
    present("iperf3")
    with Bed(args) as bed:
        for version in (4, 6):
            for reverse in ((), ("-R",)):
                server = bed.inside.popen("iperf3", "-s", "-1", "-B", INSIDE[version], stdout=subprocess.PIPE, text=True)
                wait_for(lambda: run(bed.inside, "ss", "-Hltn", "sport = :5201").stdout, 5, "starting iperf3")
                done = run(bed.outside, "iperf3", "-c", INSIDE[version], "-B", FAR[version], "-u", "-b", "80M", "-l", 1200,
                           "-t", 2, "-w", "4M", "--json", *reverse)
                need(done.returncode == 0, f"iperf3: {done.stdout[-300:]}{done.stderr}")
                total = json.loads(done.stdout)["end"]["sum"]
                what = f"IPv{version}{' reverse' if reverse else ''}"
                print(f"{what}: {total['packets']} datagrams, {total['lost_packets']} lost, jitter {total['jitter_ms']:.3f} ms")
                need(total["packets"] > 10000, f"{what}: {total['packets']} datagrams")
                need(total["lost_packets"] == 0, f"{what}: {total['lost_packets']} lost")
                stream = json.loads(done.stdout)["end"]["streams"][0]["udp"]
                need(stream["out_of_order"] == 0, f"{what}: {stream['out_of_order']} out of order")
                bed.lab.end(server)
        c = bed.counters()
        print(c)
        need(c["datagrams_in"] > 10000, "hardly any in caravans")


def dns(args):
    """A server and a client, on either side."""
    present("dnsmasq", "dig")
    with Bed(args) as bed:
        for server, client, address, source in ((bed.outside, bed.inside, FAR, INSIDE),
                                                (bed.inside, bed.outside, INSIDE, FAR)):
            process = server.popen("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                                   f"--listen-address={address[4]},{address[6]}", "--bind-interfaces", "--user=root",
                                   "--pid-file=", "--address=/example.test/192.0.2.77", stderr=subprocess.DEVNULL)
            wait_for(lambda: run(server, "ss", "-Hlun", "sport = :53").stdout.count("\n") >= 2, 5, "starting dnsmasq")
            names = os.path.join(bed.lab.dir, "names")
            for version in (4, 6):
                with open(names, "w") as f:
                    f.writelines(f"n{i}.example.test A\n" for i in range(100))
                done = run(client, "dig", f"@{address[version]}", "-b", source[version], "+short", "+tries=1", "+time=2",
                           "-f", names)
                answers = done.stdout.split()
                need(answers == ["192.0.2.77"] * 100, f"IPv{version}: {len(answers)} of 100 answers: {answers[:3]}")
            bed.lab.end(process)


def dtls(args):
    """Nothing of a file's content is lost or changed between OpenSSL's client and server."""
    present("openssl")
    with Bed(args) as bed:
        key, cert = os.path.join(bed.lab.dir, "key.pem"), os.path.join(bed.lab.dir, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=test"], check=True, capture_output=True)
        data = b"".join(b"%06d %s\n" % (i, b"x" * (i % 1000)) for i in range(1000))
        for inwards in (True, False):
            server_space, client_space, address = ((bed.inside, bed.outside, INSIDE) if inwards
                                                   else (bed.outside, bed.inside, FAR))
            out = open(os.path.join(bed.lab.dir, "received"), "w+b")
            server = server_space.popen("openssl", "s_server", "-dtls1_2", "-accept", f"{address[4]}:4433", "-cert", cert,
                                        "-key", key, "-quiet", "-mtu", 1400, stdin=subprocess.PIPE, stdout=out,
                                        stderr=subprocess.DEVNULL)
            wait_for(lambda: run(server_space, "ss", "-Hlun", "sport = :4433").stdout, 5, "starting openssl")
            # Each read of such a pipe gives what one write put there: a record each, none larger than the MTU.
            records, feed = os.pipe2(os.O_DIRECT)
            client = client_space.popen("openssl", "s_client", "-dtls1_2", "-connect", f"{address[4]}:4433", "-quiet",
                                        "-mtu", 1400, stdin=records, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
            os.close(records)
            for at in range(0, len(data), 1200):
                os.write(feed, data[at:at + 1200])
                time.sleep(0.001)  # what its socket has no room for a busy server loses

            def received():
                out.seek(0)
                return len(out.read()) >= len(data)
            wait_for(received, 20, "DTLS")
            out.seek(0)
            need(out.read() == data, "other bytes arrived")
            os.close(feed)
            bed.lab.end(client)
            bed.lab.end(server)
            out.close()
        print(bed.counters())


SCENARIOS = {f.__name__: f for f in (iperf3, dns, dtls)}

# SPDX-License-Identifier: BSD-3-Clause
"""tshark with conf/caravan.lua shows the test vectors as what they are. Exit code: 0 passed, 1 failed, 77
there is no tshark."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import vectors  # noqa: E402

LUA = os.path.join(HERE, "..", "..", "conf", "caravan.lua")


def shown(name, *fields, options=()):
    """Of each packet of a capture, its fields; several values of one as a list."""
    command = ["tshark", "-X", f"lua_script:{LUA}", "-r", os.path.join(HERE, name), "-T", "fields",
               "-E", "separator=;", "-E", "aggregator=,", *options]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or "Lua:" in done.stderr:
        raise AssertionError(f"tshark: {done.stderr}")
    return [[v.split(",") if v else [] for v in line.split(";")] for line in done.stdout.splitlines()]


def numbers(values):
    return [int(v, 0) for v in values]


def caravans():
    rows = shown("vectors.pcap", "pxcaravan.count", "pxcaravan.record.srcport", "pxcaravan.record.dstport",
                 "pxcaravan.record.length", "pxcaravan.record.id", "pxcaravan.record.flow_label", "pxcaravan.ecn",
                 "pxcaravan.refused", "udp.checksum.status", options=["-o", "udp.check_checksum:TRUE"])
    at = 0
    for datagrams in vectors.bundles():
        for row in rows[at:at + len(datagrams)]:
            assert row[0] == [], "a plain datagram is shown as a caravan"
        count, src, dst, length, ids, labels, ecn, refused, sums = rows[at + len(datagrams)]
        assert numbers(count) == [len(datagrams)], count
        assert numbers(src) == [d.ports[0] for d in datagrams], src
        assert numbers(dst) == [d.ports[1] for d in datagrams], dst
        assert numbers(length) == [len(d.udp) for d in datagrams], length
        v6 = datagrams[0].ip.v6
        assert numbers(labels if v6 else ids) == [d.ip.mark for d in datagrams], (ids, labels)
        assert numbers(ecn) == [datagrams[0].ip.tos & 3], ecn
        assert refused == [], refused
        # 0: bad. The outer datagram's and those of all inside, as the dissector of UDP sees them.
        assert len(sums) == 1 + len(datagrams) and "0" not in sums, sums
        at += len(datagrams) + 1
    assert at == len(rows)


def refused():
    rows = shown("refused.pcap", "pxcaravan.refused", "pxcaravan.record.srcport")
    reasons = vectors.REFUSED * 2 + ["mark"]
    assert [r[0] for r in rows] == [[r] for r in reasons], rows
    assert all(r[1] == [] for r in rows), "part of a refused caravan is shown as datagrams"


def messages():
    rows = shown("messages.pcap", "pxcaravan.type", "pxcaravan.status", "pxcaravan.size", "pxcaravan.lifetime",
                 "pxcaravan.nonce", "pxcaravan.cookie", "pxcaravan.session")
    nonce, cookie, session = 0x0102030405060708, 0x1112131415161718, 0x2122232425262728
    expected = [(1, 0, 9000, 1000, nonce, 0, 0), (2, 1, 9000, 1000, nonce, cookie, session),
                (1, 0, 9000, 1000, nonce + 1, cookie, session), (2, 0, 8000, 1000, nonce + 1, cookie, session),
                (1, 0, 0, 0, nonce + 2, cookie, session), (2, 3, 0, 100, nonce + 2, cookie, session)] * 2
    assert [tuple(numbers(v)[0] for v in r) for r in rows] == expected, rows


def main():
    if shutil.which("tshark") is None:
        print("skipped: there is no tshark; scripts/setup.sh test installs it")
        return 77
    for check in (caravans, refused, messages):
        check()
        print(f"{check.__name__}: as they are")
    return 0


if __name__ == "__main__":
    sys.exit(main())

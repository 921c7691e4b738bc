#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Golden captures: pxgw translate has to make the same bytes and the same counters as before.

    run.py --pxgw PATH [--regen]

--regen writes what the program makes now; review the difference before it is committed. Then come
inputs that have to be refused: one line, exit 2, and no file left behind.
"""
import argparse
import json
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MAKE = HERE.parent / "make_captures.py"
INTERNAL = ["--internal", "10.0.0.0/8", "fd00::/8"]

# name of the capture, how it is made, and the translations of it: suffix, options
CASES = [
    ("mix", "--seed 3 --flows 5 --largest 5000", [("", ""), ("_jumbo", "--inside-mss 8960")]),
    ("tcp", "--kind tcp --seed 11 --flows 4 --largest 6000",
     [("", ""), ("_small", "--inside-mtu 4000 --outside-mtu 1280"), ("_nohold", "--hold-us 0")]),
    ("bulk", "--kind bulk --packets 40", [("", ""), ("_4000", "--inside-mtu 4000")]),
    ("upload", "--kind upload --packets 5", [("", "")]),
    ("gro", "--kind gro --seed 5 --flows 3 --largest 12000", [("", ""), ("_jumbo", "--inside-mss 8960")]),
    ("raw", "--seed 7 --flows 2 --largest 8000 --raw", [("", "--inside-mss 8960")]),
    ("ng", "--seed 8 --flows 2 --largest 8000 --pcapng", [("", "--inside-mss 8960")]),
    ("cut", "--seed 9 --flows 3 --largest 8000 --snaplen 96", [("", "--inside-mss 8960")]),
    ("unordered", "--seed 6 --flows 3 --largest 8000 --unordered --micro", [("", "--inside-mss 8960")]),
]


class Runner:
    def __init__(self, pxgw, work):
        self.pxgw, self.work, self.failed = pathlib.Path(pxgw).resolve(), pathlib.Path(work), 0

    def translate(self, *args):
        return subprocess.run([self.pxgw, "translate", *map(str, args)], capture_output=True, text=True)

    def check(self, ok, name, text=""):
        if not ok:
            self.failed += 1
            print("FAILED %s: %s" % (name, text))

    def golden(self, regen):
        for name, how, runs in CASES:
            source = HERE / (name + ".in.pcap")
            if regen:
                subprocess.run([sys.executable, str(MAKE), str(source), *how.split()], check=True)
            for suffix, options in runs:
                self.golden_case(source, name + suffix, options.split(), regen)

    def golden_case(self, source, name, options, regen):
        out, figures = self.work / "out.pcap", self.work / "out.json"
        r = self.translate(source, out, *INTERNAL, *options, "--quiet", "--json", figures)
        self.check(r.returncode == 0 and not r.stdout and not r.stderr, name, r.stderr)
        if r.returncode != 0:
            return
        got = json.loads(figures.read_text())
        del got["in"]["file"], got["out"]["file"]
        self.check(got["unaccounted"] == 0 and got["state"]["held_pkts"] == 0, name, "packets unaccounted for")
        want_pcap, want_json = HERE / (name + ".out.pcap"), HERE / (name + ".out.json")
        if regen:
            want_pcap.write_bytes(out.read_bytes())
            want_json.write_text(json.dumps(got, indent=1) + "\n")
            return
        want = json.loads(want_json.read_text())
        for part in sorted(set(want) | set(got)):
            if want.get(part) != got.get(part):
                a, b = want.get(part), got.get(part)
                if isinstance(a, dict) and isinstance(b, dict):
                    a, b = ({k: v for k, v in x.items() if x.get(k) != y.get(k)} for x, y in ((a, b), (b, a)))
                self.check(False, name, "%s: expected %s, got %s" % (part, a, b))
        self.check(want_pcap.read_bytes() == out.read_bytes(), name,
                   "packets differ; keep both and compare: %s and the output of --regen" % want_pcap)

    def refused(self):
        w = self.work
        good = (HERE / "bulk.in.pcap").read_bytes()
        files = {
            "empty": b"", "text": b"this is no capture\n" * 9, "short_header": good[:20], "short": good[:-100],
            "short_record": good[:30], "gzip": b"\x1f\x8b\x08\x00" + bytes(60),
            "sll": good[:20] + struct.pack("<I", 113) + good[24:],
            "damaged": good[:24] + struct.pack("<IIII", 0, 0, 0x7FFFFFFF, 0x7FFFFFFF) + good[40:],
        }
        for name, data in files.items():
            (w / name).write_bytes(data)
        (w / "good").write_bytes(good)
        (w / "sealed").mkdir()
        os.symlink(w / "good", w / "alias")
        g, o = w / "good", w / "refused.pcap"
        cases = [(w / n, o, INTERNAL, n) for n in files]
        cases += [
            (w / "none", o, INTERNAL, "none"), (w, o, INTERNAL, "directory"), (g, g, INTERNAL, "input too"),
            (g, w / "alias", INTERNAL, "input too"), (g, w / "sealed", INTERNAL, "directory"),
            (g, w / "nodir" / "x", INTERNAL, "nodir"), (g, o, ["--internal", "10.0.0.0/33"], "10.0.0.0/33"),
            (g, o, ["--internal", "10.0.0.1/8"], "10.0.0.0/8"), (g, o, ["--internal", "inside"], "inside"),
            (g, o, [], "internal"), (g, o, INTERNAL + ["--inside-mtu", "1400"], "inside"),
            (g, o, INTERNAL + ["--outside-mtu", "600"], "1280"), (g, o, INTERNAL + ["--inside-mtu", "99999"], "65535"),
            (g, o, INTERNAL + ["--inside-mss", "7"], "536"), (g, o, INTERNAL + ["--hold-us", "x"], "hold"),
            (g, o, INTERNAL + ["--flows", "0"], "flows"), (g, o, INTERNAL + ["--json", w / "nodir" / "j"], "nodir"),
            (g, o, INTERNAL + ["--json", o], "JSON"),
        ]
        before = sorted(p.name for p in w.iterdir())
        for source, target, options, says in cases:
            r = self.translate(source, target, *options)
            name = "refuses %s %s" % (source.name, " ".join(map(str, options[len(INTERNAL):] or options[:2])))
            self.check(r.returncode == 2, name, "exit status %d" % r.returncode)
            self.check(len(r.stderr.splitlines()) == 1 and says in r.stderr and not r.stdout, name,
                       "says %r" % (r.stdout + r.stderr))
            self.check(sorted(p.name for p in w.iterdir()) == before, name, "left a file behind")
        self.check(g.read_bytes() == good, "input", "was changed")

    def overwrite_and_devices(self):
        w, source = self.work, HERE / "bulk.in.pcap"
        old = w / "old.pcap"
        old.write_bytes(b"old")
        r = self.translate(w / "short", old, *INTERNAL)
        self.check(r.returncode == 2 and old.read_bytes() == b"old", "keeps the old output on failure", r.stderr)
        r = self.translate(source, "/dev/null", *INTERNAL, "--json")
        self.check(r.returncode == 0 and json.loads(r.stdout)["out"]["packets"] > 0, "writes to a device", r.stderr)
        self.check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null", "is no device any more")

    def interrupted(self):
        """A signal in the middle leaves nothing behind."""
        w = self.work
        os.mkfifo(w / "pipe")
        before = sorted(p.name for p in w.iterdir())
        p = subprocess.Popen([self.pxgw, "translate", w / "pipe", w / "never.pcap", *INTERNAL],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        data = (HERE / "bulk.in.pcap").read_bytes()
        with open(w / "pipe", "wb", buffering=0) as f:
            f.write(data)
            time.sleep(1)
            p.send_signal(signal.SIGTERM)
            try:
                for _ in range(4000):
                    f.write(data[24:])
            except BrokenPipeError:
                pass
        out, err = p.communicate(timeout=60)
        self.check(p.returncode == 128 + signal.SIGTERM and len(err.splitlines()) == 1, "interrupt",
                   "%d %s %s" % (p.returncode, out, err))
        self.check(sorted(p.name for p in w.iterdir()) == before, "interrupt", "left a file behind")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--pxgw", required=True)
    ap.add_argument("--regen", action="store_true")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as work:
        r = Runner(a.pxgw, work)
        r.golden(a.regen)
    with tempfile.TemporaryDirectory() as work:
        r.work = pathlib.Path(work)
        r.refused()
        r.overwrite_and_devices()
        r.interrupted()
    print("golden: %s" % ("%d checks failed" % r.failed if r.failed else "all as expected"))
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())

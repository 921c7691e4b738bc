#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What docs/performance.md promises and a busy machine can show too: yield and delay under the heavy-tailed mix
(simulated time), full yield whatever the arrival, few cycles for many flows, and a report that can be made."""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def bench(program, folder, name, *args):
    path = os.path.join(folder, name + ".json")
    subprocess.run([program, *args, "--memory", "900", "--json", path], check=True, stdout=subprocess.DEVNULL)
    with open(path) as f:
        return json.load(f)["results"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pxbench", required=True)
    program = os.path.abspath(parser.parse_args().pxbench)
    wrong = []

    def expect(what, holds):
        print(("ok    " if holds else "WRONG ") + what)
        if not holds:
            wrong.append(what)

    with tempfile.TemporaryDirectory() as folder:
        for r in bench(program, folder, "load", "load", "--flows", "4096", "--hold", "50", "--mpps", "6.7,10.7",
                       "--line", "160", "--ns", "75"):
            expect(f"{r['mpps']} Mpps: yield {r['yield']:.3f} >= 0.95", r["yield"] >= 0.95)
            expect(f"{r['mpps']} Mpps: delay {r['delay_us'][1]:.1f} us <= 50 us", r["delay_us"][1] <= 50)
        lone = bench(program, folder, "lone", "load", "--lone", "--flows", "512", "--hold", "50", "--mpps", "5",
                     "--ns", "75")[0]
        # Two bursts of 32 packets.
        expect(f"lone segments wait {lone['delay_us'][1]:.2f} us <= 4.8 us", lone["delay_us"][1] <= 2 * 32 * 0.075)
        few, many = bench(program, folder, "merge", "run", "--work", "merge", "--flows", "16,16384", "--arrival", "1",
                          "--lines", "warm", "--rounds", "5", "--packets", "98304", "--no-peers")
        for r in (few, many):
            expect(f"{r['flows']} flows one by one: yield {r['yield']:.3f} >= 0.95", r["yield"] >= 0.95)
        ratio = min(many["cycles"]["engine"]) / min(few["cycles"]["engine"])
        expect(f"16,384 flows cost {ratio:.2f} times what 16 do, at most 4 on a busy machine", ratio <= 4)
        flood = bench(program, folder, "flood", "run", "--work", "flood", "--flows", "1024", "--lines", "warm",
                      "--rounds", "1", "--packets", "2000000", "--no-peers")[0]
        expect(f"among a million SYNs of strangers: yield {flood['yield']:.3f} >= 0.95", flood["yield"] >= 0.95)
        gro = bench(program, folder, "gro", "run", "--work", "merge", "--flows", "1024", "--lines", "warm",
                    "--rounds", "3", "--packets", "32768")[0]["cycles"]
        faster = min(gro["gro"]) / min(gro["engine"])
        expect(f"1,024 flows one by one: {faster:.1f} times as fast as librte_gro, at least 8 on a busy machine",
               faster >= 8)
        scale = bench(program, folder, "scale", "scale", "--flows", "1024", "--rounds", "3", "--packets", "65536")[0]
        expect(f"two workers are {max(scale['speed_up']):.2f} times as fast as one, at least 1.5 on a busy machine",
               max(scale["speed_up"]) >= 1.5)
        report = subprocess.run([program, "report", os.path.join(folder, "load.json"), "--plots", folder],
                                stdout=subprocess.PIPE, text=True)
        expect("a report with plots", report.returncode == 0 and "| 4096 |" in report.stdout and
               os.path.getsize(os.path.join(folder, "yield.svg")) > 1000)
        report = subprocess.run([program, "report", os.path.join(folder, "merge.json")], stdout=subprocess.PIPE, text=True)
        rates = [float(line.split("|")[8]) for line in report.stdout.splitlines() if line.startswith("| merge v4 |")]
        expect(f"its Gb/s a core: {rates}", len(rates) == 2 and min(rates) > 1)
        caravans = os.path.join(folder, "caravans.json")
        with open(caravans, "w") as f:
            # Rates, kernel's and program's CPU: half of it is saved.
            rows = [{"name": name, "mbps": 300, "rounds": [
                {"gbps": 0.3, "lost": 1, "sent": 100, "reordered": 0, "delay_us": [1, 2, 3, 4, 5],
                 "packets_a_datagram": share, "cpu_s_per_gb": {"kernel": cpu, "program": cpu}}] * 3}
                for name, share, cpu in (("one by one", 1, 1.0), ("libcaravan", 0.187, 0.5))]
            json.dump({"machine": {"cpu": "any", "cpus": 2, "dpdk": "", "pages": "", "date": "", "load_average": 0},
                       "kind": "caravans", "results": rows}, f)
        report = subprocess.run([program, "report", caravans, "--plots", folder], stdout=subprocess.PIPE, text=True)
        expect("a report of what caravans save", report.returncode == 0 and
               "| libcaravan | 300 | 0.30 | 0.187 | 0.50 | 0.00 | 0.50 | 1.00 | 2.0 x |" in report.stdout and
               "600 datagrams sent, 6 lost" in report.stdout and
               os.path.getsize(os.path.join(folder, "caravans-cpu-300.svg")) > 1000)
        tso = bench(program, folder, "tso", "run", "--work", "tso", "--flows", "16", "--lines", "warm", "--rounds", "3",
                    "--packets", "65536", "--no-peers")[0]["cycles"]
        expect(f"jumbos for TSO at {min(tso['engine']):.0f} cycles, at most 700 on a busy machine", min(tso["engine"]) <= 700)
        bad = subprocess.run([program, "run", "--work", "nothing"], stderr=subprocess.PIPE, text=True)
        expect("a wrong argument: one line, exit 2", bad.returncode == 2 and bad.stderr.count("\n") == 1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

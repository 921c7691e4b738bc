# SPDX-License-Identifier: BSD-3-Clause
"""What demo.sh shows, once pxgw is built. See ./demo.sh --help."""
import argparse
import glob
import json
import os
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lab.gateway import Gateway, difference  # noqa: E402
from lab.netns import Lab, LabError, run  # noqa: E402
from lab.transfer import Transfer  # noqa: E402

STATE_DIR = "/run/packetexpress-demo"
OUTSIDE, INSIDE = "10.9.0.1", "10.9.0.2"
MB = 1_000_000
SECONDS_EACH = 5  # a transfer isn't made longer than about that
LEAST_JUMBO_PCT = 95.0

_colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if _colour else text


def say(text=""):
    print(text, flush=True)


def ratio(a, b):
    return a / b if b else 0.0


# ---------------------------------------------------------------------------------- what stays up


class Demo:
    """The two hosts and the gateway. A state file names them, so that --clean finds what is left."""

    def __init__(self, pxgw):
        self.lab = Lab("pxdemo", gso=False)
        self.state = os.path.join(STATE_DIR, f"{os.getpid()}.json")
        os.makedirs(STATE_DIR, exist_ok=True)
        self.gateway = None
        try:
            self.write_state(kept=False)
            self.build(pxgw)
        except BaseException:
            self.close()
            raise

    def build(self, pxgw):
        self.outside, self.inside = self.lab.host("outside"), self.lab.host("inside")
        self.middle = self.lab.bump("gateway")
        self.lab.veth(self.outside, "eth0", self.middle, "outside", 1500)
        self.lab.veth(self.inside, "eth0", self.middle, "inside", 9000)
        self.outside.ip(f"addr add {OUTSIDE}/24 dev eth0")
        self.inside.ip(f"addr add {INSIDE}/24 dev eth0")
        # Each segment by itself, so that its own merging shows, and its counts are those of the wire.
        self.gateway = Gateway(self.middle, pxgw, offloads="{lro: off}")
        self.start_seconds = self.gateway.start()
        self.write_state(kept=False)

    def write_state(self, kept):
        pid = self.gateway.process.pid if self.gateway else 0
        with open(self.state, "w") as f:
            json.dump({"demo_pid": os.getpid(), "gateway_pid": pid, "prefix": self.lab.prefix,
                       "dir": self.lab.dir, "kept": kept}, f)

    def close(self):
        self.lab.close()
        if os.path.exists(self.state):
            os.unlink(self.state)


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read()
    except OSError:
        return ""


def clean():
    """Removes kept demos and those whose process was killed; leaves running ones alone."""
    removed = 0
    for path in glob.glob(os.path.join(STATE_DIR, "*.json")):
        with open(path) as f:
            state = json.load(f)
        if not state["kept"] and "demo.py" in command_of(state["demo_pid"]):
            continue
        pid = state["gateway_pid"]
        if pid and state["dir"] in command_of(pid):
            os.kill(pid, signal.SIGTERM)
            for _ in range(100):
                if not command_of(pid):
                    break
                time.sleep(0.05)
            else:
                os.kill(pid, signal.SIGKILL)
        for line in run("ip", "netns", "list").splitlines():
            if line.split()[0].startswith(state["prefix"] + "-"):
                run("ip", "netns", "del", line.split()[0])
        shutil.rmtree(state["dir"], ignore_errors=True)
        os.unlink(path)
        removed += 1
    say(f"Removed {removed} demo{'' if removed == 1 else 's'}.")
    return 0


# ---------------------------------------------------------------------------------- one transfer


def measure(demo, direction, size):
    """One transfer with what the gateway and the kernels of both hosts counted meanwhile."""
    before = demo.gateway.settled_stats()
    hosts = {"outside": demo.outside, "inside": demo.inside}
    links = {name: h.counters() for name, h in hosts.items()}
    result = Transfer(demo.outside, OUTSIDE, demo.inside, timeout=60,
                      **{"down" if direction == "download" else "up": size}).result()
    after = demo.gateway.settled_stats()
    d = difference(after, before)
    kernel = {name: difference(h.counters(), links[name]) for name, h in hosts.items()}
    g, e = d["gateway"], d["engine"]
    sender, receiver, way = (("outside", "inside", "inbound") if direction == "download"
                             else ("inside", "outside", "outbound"))
    came, left = (("in", "to_inside") if direction == "download" else ("out", "to_outside"))
    figures = {
        "direction": direction, "bytes": size, "seconds": result["seconds"],
        "gbps": result["mbps"] / 1000, "intact": result["intact"], "faults": result["faults"],
        "sha256": result["sha256"],
        "packets_in": g[f"{came}_pkts"], "bytes_in": g[f"{came}_bytes"],
        "packets_out": g[f"{left}_pkts"], "bytes_out": g[f"{left}_bytes"],
        "sizes": {"upper_bounds": after["sizes"]["upper_bounds"], "in": d["sizes"][way]["received"],
                  "out": d["sizes"][way]["sent"]},
        "kernel_packets_sent": kernel[sender]["tx_packets"],
        "kernel_packets_received": kernel[receiver]["rx_packets"],
        "dropped": {k: v for k, v in g.items() if k.startswith("drop_") and v},
        "split": e["split_in_pkts"], "merged": e["merge_out_merged"],
    }
    if direction == "download":
        figures["bulk_segments"] = e["merge_bulk_in"]
        figures["yield_pct"] = 100 * ratio(e["merge_bulk_full"], e["merge_bulk_in"])
        figures["jumbo_pct"] = 100 * ratio(e["merge_bulk_jumbo"], e["merge_bulk_in"])
    return figures


def bar(n, of, width=24):
    """Shares too small for a block show as a line."""
    return "█" * round(width * n / of) or "▏" if n else ""


def show(f):
    down = f["direction"] == "download"
    say()
    say(paint("1", f"{f['direction'].capitalize()}: {f['bytes'] / MB:.0f} MB in {f['seconds']:.2f} s, "
                   f"{f['gbps']:.2f} Gb/s"))
    came, left = ("outside", "inside") if down else ("inside", "outside")
    say(f"  {'packet size':>14}   {'came in ' + came:>14} {'':24}   {'left ' + left:>14}")
    bounds = f["sizes"]["upper_bounds"] + [None]
    total_in, total_out = sum(f["sizes"]["in"]), sum(f["sizes"]["out"])
    low = 0
    for upper, n_in, n_out in zip(bounds, f["sizes"]["in"], f["sizes"]["out"]):
        if n_in or n_out:
            label = f"{low} ... {upper}" if upper else f"{low} ..."
            say(f"  {label:>14}   {n_in:>14,} {paint('36', f'{bar(n_in, total_in):24}')}   "
                f"{n_out:>14,} {paint('32', bar(n_out, total_out))}")
        low = (upper or 0) + 1
    more = ratio(f["packets_in"], f["packets_out"])
    change = f"{more:.1f} became 1" if more >= 1 else f"1 became {ratio(1, more):.1f}"
    say(f"  packets   {f['packets_in']:,} in, {f['packets_out']:,} out ({change}); on average "
        f"{ratio(f['bytes_in'], f['packets_in']):.0f} B in, {ratio(f['bytes_out'], f['packets_out']):.0f} B out")
    say(f"            the hosts' kernels counted {f['kernel_packets_sent']:,} sent, "
        f"{f['kernel_packets_received']:,} received")
    if down:
        say(f"  yield     {f['yield_pct']:.2f} % of {f['bulk_segments']:,} full-size segments left in packets "
            f"that could take no more")
        say(f"            {f['jumbo_pct']:.2f} % in packets of 8000 B and more")
    say(f"  sha256    {f['sha256'][:32]}...  {'intact' if f['intact'] else 'NOT INTACT'}")
    for k, v in f["dropped"].items():
        say(f"  dropped   {v:,} ({k})")


def agree(a, b):
    return abs(a - b) <= max(10, 0.005 * max(a, b))


def verdicts(transfers):
    for f in transfers:
        name = f["direction"]
        yield f["intact"], f"{name}: every byte arrived intact" + (
            "" if f["intact"] else ": " + "; ".join(f["faults"][:3]))
        yield (agree(f["packets_in"], f["kernel_packets_sent"])
               and agree(f["packets_out"], f["kernel_packets_received"]),
               f"{name}: the gateway counted the packets that the hosts' kernels counted")
        if name == "download":
            yield (f["bulk_segments"] > 0 and f["jumbo_pct"] >= LEAST_JUMBO_PCT,
                   f"download: {f['jumbo_pct']:.1f} % of the full-size segments came in jumbos "
                   f"(at least {LEAST_JUMBO_PCT:.0f} %)")
        else:
            yield f["split"] > 0, f"upload: {f['split']:,} jumbos were split for the outside"


# ---------------------------------------------------------------------------------- the demo


def show_picture(demo):
    say()
    say("  outside host            pxgw            inside host")
    say(f"   {OUTSIDE}  ── 1500 B ──  ▒▒  ── 9000 B ──  {INSIDE}")
    say()
    say(f"Gateway up in {demo.start_seconds:.2f} s.")


def show_kept(demo, pxgw):
    say()
    say("The hosts and the gateway stay up:")
    for space, what in ((demo.outside, "the outside host"), (demo.inside, "the inside host")):
        say(f"  ip netns exec {space.name} bash".ljust(46) + f"# {what}")
    say(f"  {os.path.relpath(pxgw)} stats --watch --control {demo.gateway.control}")
    say("  ./demo.sh --clean".ljust(46) + "# removes all of it")


def present(args, demo):
    show_picture(demo)
    size = args.size * MB if args.size else 400 * MB
    trial = measure(demo, "download", 20 * MB)
    if not args.size and trial["intact"]:
        size = max(40 * MB, min(size, int(trial["gbps"] * 1e9 / 8 * SECONDS_EACH) // MB * MB))
    transfers = []
    for direction in ("download", "upload"):
        transfers.append(measure(demo, direction, size))
        show(transfers[-1])
    stats = demo.gateway.settled_stats()
    checks = list(verdicts(transfers))
    checks.append((stats["unaccounted"] == 0, "every packet is accounted for"))
    if not args.keep:
        code = demo.gateway.stop()
        checks.append((code == 0, "the gateway ended by itself, every buffer back in its pool"))
        if code != 0:
            say(demo.gateway.log(10))
    say()
    for good, text in checks:
        say(f"  {paint('32', '✓') if good else paint('31', '✗')} {text}")
    passed = all(good for good, _ in checks)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"passed": passed, "transfers": transfers,
                       "checks": [{"passed": good, "text": text} for good, text in checks],
                       "gateway_start_seconds": demo.start_seconds, "stats": stats}, f, indent=2)
            f.write("\n")
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pxgw", required=True)
    parser.add_argument("--json")
    parser.add_argument("--size", type=int)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--clean", action="store_true")
    args = parser.parse_args()
    if args.clean:
        return clean()
    if args.size is not None and not 1 <= args.size <= 4000:
        say("demo.sh: --size takes 1 to 4000 MB")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    demo, kept = None, False
    try:
        demo = Demo(args.pxgw)
        passed = present(args, demo)
        if args.keep:
            demo.write_state(kept=True)
            kept = True
            show_kept(demo, args.pxgw)
        return 0 if passed else 1
    finally:
        if demo and not kept:
            demo.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LabError, OSError) as e:
        print(f"demo.sh: {e}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

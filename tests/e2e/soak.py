# SPDX-License-Identifier: BSD-3-Clause
"""Mixed traffic while whatever can happen to a gateway happens to it, at random: configurations reread, links that
go down and up, restarts, kill -9. For as long as --seconds says (default 60)."""
import random
import time

from bed import MB, Bed, need
from frames import PMTUDISC_DONT, udp_pair
from lab.transfer import Transfer, make_blob

SCENARIOS = {}


class Soak:
    def __init__(self, bed, seconds, seed):
        self.bed, self.random = bed, random.Random(seed)
        self.begin, self.end = time.monotonic(), time.monotonic() + seconds
        self.running, self.bytes, self.transfers, self.port = [], 0, 0, 5000
        self.happened = {}
        make_blob(bed.lab, 10 * MB, 16)  # once for all: no transfer may find it being rewritten
        self.server, self.client = udp_pair(bed, 4, PMTUDISC_DONT)

    def note(self, what, detail=""):
        self.happened[what] = self.happened.get(what, 0) + 1
        print(f"  {time.monotonic() - self.begin:6.1f} s  {what} {detail}", flush=True)

    def start_traffic(self):
        """Never fewer than two transfers at a time."""
        while len(self.running) < 2:
            self.port = 5000 + (self.port - 4999) % 20000
            family, conns = self.random.choice((4, 6)), self.random.choice((1, 4, 16))
            each = self.random.randint(1, 10) * MB // conns
            direction = self.random.choice(("down", "up", "both"))
            bed = self.bed
            self.running.append(Transfer(bed.outside, bed.address[family], bed.inside, conns=conns, port=self.port,
                                         down=each if direction != "up" else 0,
                                         up=each if direction != "down" else 0, timeout=90))

    def send_datagrams(self):
        for _ in range(self.random.randint(0, 20)):
            try:
                self.client.send(bytes(self.random.randint(0, 1400)))
            except OSError:
                return  # a link is down

    def reap(self, wait=False):
        for t in list(self.running):
            if t.running() and not wait:
                continue
            result = t.result()
            need(result["intact"], "the bytes did not arrive: " + "; ".join(result["faults"][:5]))
            self.running.remove(t)
            self.transfers += 1
            self.bytes += result["bytes"]

    def check(self):
        stats = self.bed.gateway.stats()
        for worker in stats["workers"]:
            need(not worker["stalled"], f"a worker stands still: {worker}")

    def reload(self):
        keys = {"hold_us": self.random.choice((0, 10, 50, 200)),
                "safe_mtu": self.random.choice((1280, 1400)),
                "icmp": self.random.choice(("{per_second: 100}", "{per_second: 10}"))}
        self.note("reload", str(keys))
        generation = self.bed.gateway.stats()["policy_generation"]
        self.bed.gateway.reload(**keys)
        end = time.monotonic() + 5
        while self.bed.gateway.stats()["policy_generation"] == generation:
            need(time.monotonic() < end, "a configuration wasn't taken over within 5 s")
            time.sleep(0.02)

    def refused_reload(self):
        self.note("bad configuration")
        generation = self.bed.gateway.stats()["policy_generation"]
        before = self.bed.gateway.keys.get("hold_us", 50)
        self.bed.gateway.reload(hold_us="soon")
        time.sleep(0.3)
        need(self.bed.gateway.stats()["policy_generation"] == generation, "a bad configuration was taken over")
        self.bed.gateway.write_config(hold_us=before)

    def flap(self):
        side = self.random.choice(("outside", "inside"))
        self.note("link down and up", side)
        self.bed.gw.ip(f"link set dev {side} down")
        time.sleep(self.random.uniform(0.05, 0.5))
        self.bed.gw.ip(f"link set dev {side} up")

    def stop(self):
        """All that came in must be accounted for, and every buffer back."""
        code = self.bed.gateway.stop()
        need(code == 0, f"pxgw ended with {code}: a buffer was lost, or it failed\n{self.bed.gateway.log(8)}")

    def restart(self):
        self.note("restart")
        self.stop()
        self.bed.gateway.start()

    def kill(self):
        self.note("kill -9")
        self.bed.gateway.kill()
        self.bed.gateway.start()

    def run(self):
        events = (self.reload, self.reload, self.flap, self.restart, self.kill, self.refused_reload)
        at_once = list(events)  # each at least once, then at random
        while time.monotonic() < self.end:
            until = time.monotonic() + self.random.uniform(1, 4)
            while time.monotonic() < until:
                self.start_traffic()
                self.send_datagrams()
                self.reap()
                time.sleep(0.05)
            self.check()
            (at_once.pop() if at_once else self.random.choice(events))()
        self.reap(wait=True)
        stats = self.bed.gateway.settled_stats()
        need(stats["unaccounted"] == 0, f"{stats['unaccounted']} packets are unaccounted for")
        self.stop()
        print(f"  {self.transfers} transfers, {self.bytes / 1e6:.0f} MB intact; {self.happened}")
        need(self.transfers > 3, "hardly anything was transferred")


def soak(options):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"  {options.seconds} s, --seed {seed}")
    with Bed(options, ports="kernel", capture=False, gateway_keys={"workers": 2, "caravan": "{mode: observe}"}) as bed:
        Soak(bed, options.seconds, seed).run()


SCENARIOS["soak"] = soak

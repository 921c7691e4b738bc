# SPDX-License-Identifier: BSD-3-Clause
"""The right answer, whatever lies on the path."""
import re
import os

from chain import Chain, Failure, ProbeCapture, iptables, need

SCENARIOS = {}
STEP = 97
SIZES = list(range(1280, 9001, STEP)) + [9000]
LENGTHS = (2, 3, 4, 5)


def ladder():
    """The sizes on the ladder, from the protocol's description."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "docs", "fpmtud-protocol.md")) as f:
        table = f.read().split("## The ladder", 1)[1].split("\n## ", 1)[0]
    return sorted(int(m) for m in re.findall(r"^\| (\d+) \|", table, re.M))


LADDER = ladder()


def step_below(size):
    """The largest size on the ladder that a path of this MTU lets pass."""
    return max(s for s in LADDER if s <= size)


def places(whole, length):
    """(MTU, link) pairs: all, or so that each size and each link has its turn."""
    links = range(length + 1)
    if whole:
        return [(m, l) for m in SIZES for l in links]
    offset = LENGTHS.index(length) if length in LENGTHS else 0
    return [(m, (i + length) % (length + 1)) for i, m in enumerate(SIZES)][offset::6]


def judge(result, truth, family, fragments, exact):
    """What is wrong with a result; empty if nothing is."""
    mtu = result["mtu"]
    if mtu is None:
        return "no value"
    if mtu > truth:
        return "above the truth"
    if result["proven"] > truth:
        return "says that something larger passed"
    if exact:
        return "" if mtu == truth and result["exact"] else "not exact"
    if truth in LADDER:
        return "" if mtu == truth else "on the ladder, but not to the byte"
    if family == 4 and fragments:
        return "" if mtu > truth - 8 else "more than 7 bytes below"
    return "" if mtu >= step_below(truth) else "more than a step of the ladder below"


def sweep(family, *, icmp=True, fragments=True, exact=False, prepare=None, rounds=1, serve=()):
    def scenario(options):
        count, wrong = 0, []
        for length in LENGTHS:
            with Chain(options.fpmtud, length, serve) as chain:
                if not icmp:
                    chain.no_icmp()
                if prepare:
                    prepare(chain)
                capture = ProbeCapture(chain)
                seen = []
                for mtu, link in places(options.whole, length):
                    chain.set_mtu(link, mtu)
                    result = chain.probe(*(["--exact"] if exact else []), family=family)
                    fault = judge(result, chain.truth(), family, fragments, exact)
                    if fault:
                        wrong.append(f"{length} routers, link {link} of {mtu} B: {fault}: {result}")
                    seen.append((mtu, link, result))
                    chain.set_mtu(link, 9000)
                    count += 1
                taken = capture.rounds(1) if exact else capture.rounds()
                need(len(taken) == len(seen), f"{len(taken)} probings captured, {len(seen)} made")
                for n, (mtu, link, result) in zip(taken, seen):
                    if n != result["rounds"] or (rounds and n > rounds):
                        wrong.append(f"{length} routers, link {link} of {mtu} B: {n} rounds: {result}")
        print(f"{count} paths")
        if wrong:
            raise Failure(f"{len(wrong)} of {count} wrong:\n" + "\n".join(wrong[:20]))
    return scenario


def all_fragments(chain):
    chain.in_routers("-A FORWARD -m u32 --u32 4&0x3FFF=0x1:0x3FFF -j DROP")


def later_fragments(chain):
    chain.in_routers("-A FORWARD -f -j DROP")


def conntrack(chain):
    """Linux routers that reassemble, look, and cut again as it came."""
    iptables(chain.routers[-1], "-A FORWARD -m conntrack --ctstate INVALID -j DROP")
    iptables(chain.routers[-1], "-A FORWARD -m conntrack --ctstate INVALID -j DROP", family=6)


SCENARIOS.update({
    "ipv4": sweep(4),
    "ipv6": sweep(6),
    "ipv4_no_icmp": sweep(4, icmp=False),
    "ipv6_no_icmp": sweep(6, icmp=False),
    "ipv4_no_fragments": sweep(4, icmp=False, fragments=False, prepare=all_fragments),
    "ipv4_no_later_fragments": sweep(4, icmp=False, fragments=False, prepare=later_fragments),
    "ipv4_conntrack": sweep(4, icmp=False, prepare=conntrack),
    "ipv6_conntrack": sweep(6, icmp=False, prepare=conntrack),
    "ipv4_exact": sweep(4, icmp=False, exact=True, rounds=2),
    "ipv6_exact": sweep(6, exact=True, rounds=2),
    "ipv6_exact_no_icmp": sweep(6, icmp=False, exact=True, rounds=2),
    "ipv4_no_fragments_exact": sweep(4, fragments=False, exact=True, prepare=all_fragments, rounds=2),
})

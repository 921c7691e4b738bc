# SPDX-License-Identifier: BSD-3-Clause
"""Plain transfers, operation under load, and the delay that the gateway adds."""
import time

from bed import MB, Bed, Failure, need
from lab.netns import wait_for
from lab.transfer import Transfer, ping_pong

SCENARIOS = {}

# The least share of the downloaded payload that has to arrive in jumbos, by number of connections.
# What Linux sends in bursts that end in a PSH comes to 93 % at best; slow starts and a noisy machine
# take their share.
LEAST_JUMBOS = {1: 0.85, 8: 0.75, 64: 0.50}


def plain(family, direction, conns, initiator="inside"):
    def scenario(options):
        with Bed(options, family=family) as bed:
            bed.transfer(direction, conns, 40 * MB, initiator)
            least = LEAST_JUMBOS[conns] if direction == "down" else None
            stats = bed.finish(jumbos=least)
            if direction != "down":
                need(stats["engine"]["split_in_pkts"] > 100, "hardly any jumbo came to be split")
    return scenario


for _family in (4, 6):
    for _direction in ("down", "up", "both"):
        for _conns in (1, 8, 64):
            SCENARIOS[f"ipv{_family}_{_direction}_{_conns}"] = plain(_family, _direction, _conns)
    for _direction in ("down", "up"):
        SCENARIOS[f"ipv{_family}_{_direction}_outside_connects"] = plain(
            _family, _direction, 1, "outside")


def without_gso(options):
    """Segments without PSH, as from a host that makes each by itself: nearly all become jumbos."""
    with Bed(options, gso=False) as bed:
        bed.transfer("down", 1, 60 * MB)
        engine = bed.finish(jumbos=0.90)["engine"]
        share = engine["merge_bulk_jumbo"] / engine["merge_bulk_in"]
        need(share >= 0.95, f"only {100 * share:.1f} % of the full-size segments came in jumbos")


SCENARIOS["ipv4_down_without_gso"] = without_gso


def ping(options):
    """1-byte request and response: what the gateway adds to a round trip, against a bridge."""
    measured = {}
    for what in ("bridge", "gateway"):
        ports = "kernel" if what == "bridge" else None
        with Bed(options, start=what == "gateway", capture=False, ports=ports) as bed:
            if what == "bridge":
                bed.gw.ip("link add br0 type bridge", "link set dev outside master br0",
                          "link set dev inside master br0", "link set dev br0 mtu 1500 up")
            ping_pong(bed.outside, bed.address[4], bed.inside, count=200)  # warms up
            measured[what] = ping_pong(bed.outside, bed.address[4], bed.inside, count=3000, port=5002)
            m = measured[what]
            print(f"  {what}: median {m['median_us']:.0f} us, 99 % below {m['p99_us']:.0f} us")
            if what == "gateway":
                stats = bed.gateway.settled_stats()
                need(bed.gateway.stop() == 0, "pxgw lost a buffer")
                need(sum(stats["hold"]["packets"]) == 0, "packets of a ping-pong were held")
    added = measured["gateway"]["median_us"] - measured["bridge"]["median_us"]
    print(f"  added to the median round trip: {added:.0f} us")
    need(added < 1000, "the gateway adds a millisecond and more to a round trip")


SCENARIOS["ping_pong"] = ping


def start_long(bed, direction, conns=8, size=400 * MB):
    """A transfer that is well under way when this returns."""
    t = bed.start_transfer(direction, conns, size, timeout=90)
    counter = "rx_bytes" if direction == "down" else "tx_bytes"
    wait_for(lambda: bed.inside.counters()[counter] > 20 * MB, 20, "getting a transfer under way")
    return t


def killed(direction):
    def scenario(options):
        with Bed(options, capture=False) as bed:
            t = start_long(bed, direction)
            bed.gateway.kill()
            if not t.running():
                raise Failure("the transfer was over before the gateway was killed")
            time.sleep(0.3)
            print(f"  killed; up again after {bed.gateway.start():.2f} s")
            bed.finish_transfer(t)
            stats = bed.gateway.settled_stats()
            need(stats["gateway"]["pass_tcp_unknown"] + stats["engine"]["split_in_pkts"] > 0,
                 "the second gateway saw nothing of the transfer")
            # And it translates what begins now.
            bed.transfer(direction, 1, 20 * MB, port=5003)
            bed.finish()
    return scenario


def interface_made_anew(options):
    """The outside interface is deleted and made again, as when its container or virtual machine starts anew."""
    with Bed(options, ports="kernel", capture=False, gateway_keys={"workers": 2}) as bed:
        bed.transfer("down", 4, 10 * MB)
        bed.gw.ip("link del dev outside")
        wait_for(lambda: "its interface is gone" in bed.gateway.log(), 5, "noticing that the interface is gone")
        bed.lab.veth(bed.outside, "eth0", bed.gw, "outside", 1500)
        bed.outside.ip("addr add 10.9.0.1/24 dev eth0")
        bed.inside.ip("neigh flush dev eth0")  # it has another address now
        wait_for(lambda: "traffic goes on" in bed.gateway.log(), 5, "starting the port anew")
        bed.transfer("down", 4, 20 * MB, port=5001)
        bed.transfer("up", 4, 20 * MB, port=5002)
        stats = bed.gateway.settled_stats()
        need(stats["unaccounted"] == 0, f"{stats['unaccounted']} packets are unaccounted for")
        need(bed.gateway.stop() == 0, "a buffer was lost, or it failed")


SCENARIOS["interface_made_anew"] = interface_made_anew
SCENARIOS["kill_restart_down"] = killed("down")
SCENARIOS["kill_restart_up"] = killed("up")


def moved_inside(bed, least):
    """The gateway's counters, once it has sent so many bytes inside."""
    counters = bed.gateway.stats()["gateway"]
    return counters if counters["to_inside_bytes"] >= least else None


def jumbo_prefix(named):
    """After a restart the flows of hosts whose prefix is named as jumbo are merged again, others' aren't."""
    def scenario(options):
        keys = {"jumbo": "[10.9.0.2/32]"} if named else {}
        with Bed(options, capture=False, gateway_keys=keys) as bed:
            t = start_long(bed, "down")
            bed.gateway.kill()
            bed.gateway.start()
            did = wait_for(lambda: moved_inside(bed, 30 * MB), 20, "30 MB of the transfer after the restart")
            size = did["to_inside_bytes"] / max(did["to_inside_pkts"], 1)
            need(size > 4000 if named else size <= 1514, f"{size:.0f} B a packet of flows from before")
            bed.finish_transfer(t)
            bed.finish()
    return scenario


SCENARIOS["jumbo_prefix_after_restart"] = jumbo_prefix(True)
SCENARIOS["no_jumbo_prefix_after_restart"] = jumbo_prefix(False)


def two_pairs(options):
    """One gateway, two pairs of ports: traffic stays in its pair."""
    pair = ("kernel:outside2", "kernel:inside2")
    with Bed(options, ports="kernel", start=False, gateway_keys={"more_pairs": [pair], "workers": 2}) as bed:
        out, inside = bed.lab.host("out2"), bed.lab.host("in2")
        bed.lab.veth(out, "eth0", bed.gw, "outside2", 1500)
        bed.lab.veth(inside, "eth0", bed.gw, "inside2", 9000)
        out.ip("addr add 10.9.0.1/24 dev eth0")  # the same addresses: nothing may cross
        inside.ip("addr add 10.9.0.2/24 dev eth0")
        bed.gateway.start()
        both = [bed.start_transfer("both", 8, 20 * MB),
                Transfer(out, "10.9.0.1", inside, down=3 * MB, up=3 * MB, conns=6, port=5000, timeout=60)]
        for t in both:
            bed.finish_transfer(t)
        stats = bed.gateway.settled_stats()
        moved = {p["name"]: p["rx_bytes"] for p in stats["ports"]}
        need(len(moved) == 4 and min(moved.values()) > 15 * MB, f"bytes received by port: {moved}")
        bed.finish(jumbos=0.5)


SCENARIOS["two_pairs"] = two_pairs


def reload(options):
    """SIGHUP under load: good configurations are taken over, a bad one is refused whole."""
    with Bed(options, capture=False) as bed:
        t = start_long(bed, "both", size=600 * MB)
        generation = bed.gateway.stats()["policy_generation"]
        for keys in ({"hold_us": 20}, {"hold_us": 100, "exclude": "[203.0.113.0/24]"}, {"hold_us": 50}):
            bed.gateway.reload(**keys)
            generation += 1
            wait_for(lambda: bed.gateway.stats()["policy_generation"] == generation, 5,
                     "taking over a configuration")
        if not t.running():
            raise Failure("the transfer was over before the configuration was reread")
        bed.gateway.reload(hold_us="soon")
        wait_for(lambda: "hold_us" in bed.gateway.log(5), 5, "refusing a bad configuration")
        need(bed.gateway.stats()["policy_generation"] == generation, "a bad configuration was taken over")
        bed.finish_transfer(t)
        bed.finish()


SCENARIOS["reload_under_load"] = reload

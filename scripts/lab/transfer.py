# SPDX-License-Identifier: BSD-3-Clause
"""Transfers between two hosts of a lab, checked by the hashes that both ends report."""
import json
import os
import subprocess
import time

from lab.netns import PYTHON, LabError

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")
STEP = 4099


def make_blob(lab, size, conns=1):
    """A file of random bytes, long enough for `conns` connections of `size` bytes each way."""
    path = os.path.join(lab.dir, "blob")
    want = size + (2 * conns + 2) * STEP
    if not os.path.exists(path) or os.path.getsize(path) < want:
        with open(path, "wb") as f:
            left = want
            while left > 0:
                f.write(os.urandom(min(left, 1 << 24)))
                left -= 1 << 24
    return path


class Transfer:
    """Both ends of it, as two processes. `down` bytes go from the listener to the one that connects,
    `up` bytes the other way, on each connection."""

    def __init__(self, listener, address, client, *, down=0, up=0, conns=1, port=5000, timeout=60,
                 listener_options=None, client_options=None):
        self.down, self.up, self.conns, self.timeout = down, up, conns, timeout
        blob = make_blob(listener.lab, max(down, up), conns)
        common = {"addr": address, "port": port, "conns": conns, "blob": blob, "timeout": timeout}
        self.a = self._start(listener, {**common, "role": "listen", "send": down, "recv": up,
                                        **(listener_options or {})})
        line = self.a.stdout.readline().strip()
        if line != "listening":
            raise LabError(f"the listening end didn't start: {line} {self.a.stderr.read()}")
        self.begin = time.monotonic()
        self.b = self._start(client, {**common, "role": "connect", "send": up, "recv": down,
                                      **(client_options or {})})

    @staticmethod
    def _start(space, spec):
        return space.popen(PYTHON, PEER, json.dumps(spec), text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def running(self):
        return self.a.poll() is None or self.b.poll() is None

    def result(self):
        """{"intact", "faults", "seconds", "bytes", "mbps", "sha256"}; waits for the end."""
        ends, faults = [], []
        for name, p in (("listener", self.a), ("client", self.b)):
            try:
                out, err = p.communicate(timeout=self.timeout + 20)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
            try:
                end = json.loads(out.strip().splitlines()[-1])
            except (IndexError, ValueError):
                end = {"error": f"no result: {err.strip()[-300:]}", "seconds": 0, "connections": []}
            if end["error"]:
                faults.append(f"{name}: {end['error']}")
            ends.append(end)
        a, b = ({c["index"]: c for c in e["connections"]} for e in ends)
        for i in range(self.conns):
            if i not in a or i not in b:
                faults.append(f"connection {i}: not made")
                continue
            for x, y, size, way in ((a[i], b[i], self.down, "down"), (b[i], a[i], self.up, "up")):
                if x["sent"] != size or y["received"] != size:
                    faults.append(f"connection {i}, {way}: {y['received']} of {size} B arrived")
                elif x["sent_sha256"] != y["received_sha256"]:
                    faults.append(f"connection {i}, {way}: other bytes arrived than were sent")
        seconds = max(e["seconds"] for e in ends)
        total = (self.down + self.up) * self.conns
        return {"intact": not faults, "faults": faults, "seconds": seconds, "bytes": total,
                "mbps": total * 8e-6 / seconds if seconds else 0.0,
                "sha256": (b if self.down else a).get(0, {}).get("received_sha256", "")}


def ping_pong(listener, address, client, count=2000, port=5001, timeout=30):
    """Median and 99th percentile of 1-byte round trips, in us."""
    common = {"addr": address, "port": port, "timeout": timeout}
    a = Transfer._start(listener, {**common, "role": "echo"})
    if a.stdout.readline().strip() != "listening":
        raise LabError("the listening end didn't start: " + a.stderr.read())
    b = Transfer._start(client, {**common, "role": "ping", "count": count})
    out, err = b.communicate(timeout=timeout + 10)
    a.communicate(timeout=10)
    if not out.strip():
        raise LabError("ping-pong: " + err.strip()[-300:])
    result = json.loads(out)
    if result["error"]:
        raise LabError("ping-pong: " + result["error"])
    return result

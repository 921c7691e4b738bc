# SPDX-License-Identifier: BSD-3-Clause
"""A pxgw process in a namespace of a lab."""
import json
import os
import signal
import subprocess
import time

from lab.netns import LabError, cpu_seconds, run, wait_for


def config_text(outside, inside, control, outside_mtu=1500, inside_mtu=9000, more_pairs=(), offloads="{}", **keys):
    """The configuration file for two devices, and for those of `more_pairs`; `offloads`, of every port, and `keys`,
    which are further top-level keys, are YAML text."""
    def port(device, mtu):
        return f"{{device: \"{device}\", mtu: {mtu}, offloads: {offloads}}}"
    lines = ["pairs:"]
    for a, b in ((outside, inside), *more_pairs):
        lines += [f"  - outside: {port(a, outside_mtu)}", f"    inside: {port(b, inside_mtu)}"]
    lines.append(f"control: {control}")
    for key, value in {"workers": 1, "idle": "sleep", "hold_us": 50, **keys}.items():
        lines.append(f"{key}: {value}")
    return "\n".join(lines) + "\n"


class Gateway:
    def __init__(self, space, binary, outside="kernel:outside", inside="kernel:inside", name="pxgw", **keys):
        self.space, self.binary = space, os.path.abspath(binary)
        self.control = os.path.join(space.lab.dir, f"{name}.sock")
        self.config = os.path.join(space.lab.dir, f"{name}.yaml")
        self.log_path = os.path.join(space.lab.dir, f"{name}.log")
        self.ports = (outside, inside)
        self.keys = keys
        self.process = None
        self.write_config()

    def write_config(self, **keys):
        self.keys.update(keys)
        with open(self.config, "w") as f:
            f.write(config_text(*self.ports, self.control, **self.keys))

    def start(self, timeout=20):
        begin = time.monotonic()
        with open(self.log_path, "a") as log:
            # A session of its own: a closed terminal's SIGHUP isn't for it.
            self.process = self.space.popen(self.binary, "run", self.config, "--control", self.control,
                                            stdout=log, stderr=log, start_new_session=True)

        def ready():
            if self.process.poll() is not None:
                raise LabError(f"pxgw ended with {self.process.returncode}:\n{self.log(12)}")
            return self.stats(check=False) is not None
        wait_for(ready, timeout, "starting pxgw")
        return time.monotonic() - begin

    def cpu_seconds(self):
        """Of all its threads, since it started."""
        return cpu_seconds(self.process.pid)

    def stats(self, check=True):
        try:
            return json.loads(run(self.binary, "stats", "--json", "--control", self.control))
        except (LabError, ValueError) as e:
            if check:
                raise LabError(f"pxgw stats: {e}\n{self.log(12)}") from e
            return None

    def pmtu(self, *words, codes=(0, 1)):
        """What `pxgw pmtu` answers."""
        done = subprocess.run([self.binary, "pmtu", *words, "--json", "--control", self.control],
                              text=True, capture_output=True)
        if done.returncode not in codes:
            raise LabError(f"pxgw pmtu {' '.join(words)}: {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def path_to(self, address):
        """(state, MTU) of a destination outside."""
        rows = self.pmtu("show", address)["destinations"]
        return (rows[0]["state"], rows[0]["mtu"]) if rows else (None, None)

    def settled_stats(self, timeout=3):
        """The counters once nothing moves any more: workers publish them about once a millisecond."""
        end = time.monotonic() + timeout
        last = self.stats()
        while True:
            time.sleep(0.06)
            now = self.stats()
            if now["gateway"] == last["gateway"] or time.monotonic() > end:
                return now
            last = now

    def log(self, lines=40):
        try:
            with open(self.log_path) as f:
                return "".join(f.readlines()[-lines:])
        except OSError:
            return ""

    def reload(self, **keys):
        self.write_config(**keys)
        self.process.send_signal(signal.SIGHUP)

    def kill(self):
        self.space.lab.end(self.process, signal.SIGKILL)

    def stop(self):
        """Exit code: 0 where it drained and every buffer was back in its pool; None: it hung."""
        return self.space.lab.end(self.process, signal.SIGTERM)


def difference(now, before):
    """Counters that grew between two stats, in the same shape."""
    if isinstance(now, dict):
        return {k: difference(v, before.get(k)) if before else v for k, v in now.items()}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [difference(a, b) for a, b in zip(now, before)]
    if isinstance(now, int) and not isinstance(now, bool) and isinstance(before, int):
        return now - before
    return now

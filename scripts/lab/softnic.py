# SPDX-License-Identifier: BSD-3-Clause
"""A NIC in software (pxnic) whose wire ends in a namespace of a lab, and whose driver is the gateway's."""
import json
import os
import signal
import subprocess

from lab.netns import OFFLOADS, LabError


class SoftNic:
    """Makes `interface` in the space, as the far end of the NIC's wire. `options` are further ones of
    pxnic: {"lro_contexts": 4}. It is ready for the gateway when this returns."""

    def __init__(self, space, interface, binary, number, mtu, options):
        self.space, self.interface = space, interface
        self.socket = os.path.join(space.lab.dir, f"nic{number}.sock")
        queues = options.get("queues", 1)
        self.device = f"net_virtio_user{number},path={self.socket},queue_size=1024,queues={queues}"
        words = [x for k, v in options.items() for x in (f"--{k.replace('_', '-')}", v)]
        self.process = space.popen(os.path.abspath(binary), "--json", "--socket", self.socket, "--tap", interface,
                                   "--mtu", mtu, *words, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.process.stdout.readline().strip() != "ready":
            raise LabError(f"pxnic didn't start: {self.process.stderr.read().strip()}")
        if options.get("tap_offloads") != "on":
            space.run("ethtool", "-K", interface, *OFFLOADS)
        if not space.lab.gso:
            space.ip(f"link set dev {interface} gso_max_segs 1")

    def stop(self):
        """(exit code, counters, what it complained of)"""
        self.process.send_signal(signal.SIGTERM)
        try:
            out, err = self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired as e:
            raise LabError("pxnic didn't end within 10 s of SIGTERM") from e
        self.space.lab.processes.remove(self.process)
        try:
            return self.process.returncode, json.loads(out.splitlines()[-1]), err.strip()
        except (IndexError, ValueError) as e:
            raise LabError(f"pxnic ended without its counters: {err.strip()[-300:]}") from e

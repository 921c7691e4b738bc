# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces joined by veth pairs. All names carry the process id, so that labs run side by
side; close() removes what was made, whatever happened before."""
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time

PYTHON = "/usr/bin/python3"
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

# Off, each packet is a frame as a wire would carry it, with its checksum in place.
OFFLOADS = "tso off gso off gro off tx off rx off".split()


class LabError(Exception):
    pass


def run(*cmd, check=True, stdin=None):
    done = subprocess.run([str(c) for c in cmd], input=stdin, text=True, capture_output=True)
    if check and done.returncode != 0:
        words = " ".join(str(c) for c in cmd)
        raise LabError(f"{words}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def cpu_seconds(pid):
    """Of all threads of a process, since it started."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Space:
    """One namespace: a host, a router or the machine that the gateway runs on."""

    def __init__(self, lab, name):
        self.lab, self.name = lab, f"{lab.prefix}-{name}"
        run("ip", "netns", "add", self.name)
        lab.spaces.append(self)
        self.ip("link set dev lo up")

    def run(self, *cmd, check=True):
        return run("ip", "netns", "exec", self.name, *cmd, check=check)

    def ip(self, *lines):
        run("ip", "-n", self.name, "-batch", "-", stdin="\n".join(lines) + "\n")

    def ip6(self, *lines):
        run("ip", "-6", "-n", self.name, "-batch", "-", stdin="\n".join(lines) + "\n")

    def sysctl(self, **values):
        self.run("sysctl", "-qw", *[f"{k.replace('__', '.')}={v}" for k, v in values.items()])

    def popen(self, *cmd, **kwargs):
        """Starts a program in the namespace; the process has the pid of the program itself."""
        full = ["ip", "netns", "exec", self.name] + [str(c) for c in cmd]
        process = subprocess.Popen(full, **kwargs)
        self.lab.processes.append(process)
        return process

    @contextlib.contextmanager
    def entered(self):
        """Sockets opened by this thread meanwhile belong to the namespace."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            _setns(there)
            yield self
        finally:
            _setns(home)
            os.close(home)
            os.close(there)

    def counters(self, interface="eth0"):
        """What the kernel itself counted on an interface."""
        path = f"/sys/class/net/{interface}/statistics"
        names = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_dropped", "tx_dropped"]
        text = self.run("cat", *[f"{path}/{n}" for n in names])
        return dict(zip(names, map(int, text.split())))

    def mac(self, interface="eth0"):
        return self.run("cat", f"/sys/class/net/{interface}/address").strip()


def sweep(tag):
    """Removes what labs with that tag left behind whose process was killed."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        parts = name.split("-")
        if len(parts) != 3 or parts[0] != tag or not parts[1].isdigit():
            continue
        if os.path.exists(f"/proc/{parts[1]}"):
            continue
        for pid in run("ip", "netns", "pids", name, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        run("ip", "netns", "del", name, check=False)


class Lab:
    """`gso`: whether hosts' TCP makes bursts of up to 64 KB at a time, as Linux does even where the
    interface's offloads are off. It marks the end of each with PSH."""

    def __init__(self, tag, gso=True):
        self.prefix = f"{tag}-{os.getpid()}"
        self.gso = gso
        self.spaces, self.processes = [], []
        self.dir = tempfile.mkdtemp(prefix=f"{self.prefix}-")

    def space(self, name):
        return Space(self, name)

    def host(self, name):
        """A space that sends and receives itself."""
        s = self.space(name)
        s.sysctl(net__ipv4__tcp_no_metrics_save=1,
                 net__ipv6__conf__default__accept_dad=0, net__ipv6__conf__default__accept_ra=0)
        return s

    def bump(self, name):
        """A space that only carries frames: no addresses, no IPv6."""
        s = self.space(name)
        s.sysctl(net__ipv6__conf__default__disable_ipv6=1, net__ipv6__conf__all__disable_ipv6=1)
        return s

    def veth(self, a, name_a, b, name_b, mtu):
        run("ip", "link", "add", "dev", name_a, "netns", a.name, "mtu", mtu, "type", "veth",
            "peer", "name", name_b, "netns", b.name, "mtu", mtu)
        for s, name in ((a, name_a), (b, name_b)):
            s.run("ethtool", "-K", name, *OFFLOADS)
            s.ip(f"link set dev {name} {'' if self.gso else 'gso_max_segs 1'} up")

    def end(self, process, sig=signal.SIGTERM, timeout=10):
        """Ends a process that this lab started; returns its exit code."""
        if process.poll() is None:
            process.send_signal(sig)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        if process in self.processes:
            self.processes.remove(process)
        return code

    def close(self):
        for p in list(self.processes):
            with contextlib.suppress(Exception):
                self.end(p, timeout=3)
        for s in self.spaces:
            run("ip", "netns", "del", s.name, check=False)
        self.spaces.clear()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wait_for(condition, timeout, what, step=0.02):
    """The first true value of condition()."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(step)
    raise LabError(f"{what} took longer than {timeout} s")

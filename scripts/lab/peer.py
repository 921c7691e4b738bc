# SPDX-License-Identifier: BSD-3-Clause
"""One end of a TCP transfer, or of a 1-byte ping-pong: peer.py JSON. Prints a JSON result.

Both ends send and receive slices of one file of random bytes, another slice for each connection and
direction. Each reports the SHA-256 of what it sent and of what it received; whoever started both
compares. Hashes are made after the transfer, so that they don't slow it.
"""
import hashlib
import json
import mmap
import selectors
import socket
import sys
import time

CHUNK = 1 << 20
# A sender that is always ahead of the network. With a short buffer each wait for room ends with a PSH.
SEND_BUFFER = 4 << 20
SO_SNDBUFFORCE = 32
STEP = 4099  # slices begin this far apart


def slice_of(blob, index, towards_listener, size):
    begin = (2 * index + towards_listener) * STEP
    if begin + size > len(blob):
        raise ValueError(f"the file of {len(blob)} B is too short")
    return blob[begin:begin + size]


def open_socket(spec):
    s = socket.socket(socket.AF_INET6 if ":" in spec["addr"] else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Named on each socket: a namespace may set only what its machine allows to all.
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, spec.get("cc", "cubic").encode())
    s.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER)
    if spec.get("maxseg"):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, spec["maxseg"])
    return s


class Connection:
    """Sends its slice and receives the other end's, both at once, until each has closed its half."""

    def __init__(self, sock, index, spec, blob):
        self.sock, self.index = sock, index
        listener = spec["role"] == "listen"
        self.out = slice_of(blob, index, not listener, spec["send"])
        self.store = bytearray(spec["recv"] + 1)  # one more, to notice bytes too many
        self.view = memoryview(self.store)
        self.sent = self.received = 0
        self.done_sending = self.done_receiving = False
        sock.setblocking(False)

    def events(self):
        return ((0 if self.done_sending else selectors.EVENT_WRITE)
                | (0 if self.done_receiving else selectors.EVENT_READ))

    def work(self, mask):
        if mask & selectors.EVENT_WRITE and not self.done_sending:
            if self.sent < len(self.out):
                self.sent += self.sock.send(self.out[self.sent:self.sent + CHUNK])
            if self.sent == len(self.out):
                self.sock.shutdown(socket.SHUT_WR)
                self.done_sending = True
        if mask & selectors.EVENT_READ and not self.done_receiving:
            room = self.view[self.received:]
            n = self.sock.recv_into(room[:CHUNK]) if len(room) else 0
            self.received += n
            self.done_receiving = n == 0

    def result(self):
        return {"index": self.index, "sent": self.sent, "received": self.received,
                "sent_sha256": hashlib.sha256(self.out[:self.sent]).hexdigest(),
                "received_sha256": hashlib.sha256(self.view[:self.received]).hexdigest()}


def connections(spec, blob, deadline):
    made = []
    if spec["role"] == "listen":
        server = open_socket(spec)
        server.bind((spec["addr"], spec["port"]))
        server.listen(1024)
        print("listening", flush=True)
        for _ in range(spec["conns"]):
            server.settimeout(max(0.01, deadline - time.monotonic()))
            s, _ = server.accept()
            s.settimeout(max(0.01, deadline - time.monotonic()))
            index = int.from_bytes(s.recv(2, socket.MSG_WAITALL), "big")
            made.append(Connection(s, index, spec, blob))
    else:
        for index in range(spec["conns"]):
            s = open_socket(spec)
            s.settimeout(max(0.01, deadline - time.monotonic()))
            s.connect((spec["addr"], spec["port"]))
            s.sendall(index.to_bytes(2, "big"))
            made.append(Connection(s, index, spec, blob))
    return made


def transfer(spec):
    deadline = time.monotonic() + spec["timeout"]
    with open(spec["blob"], "rb") as f:
        blob = memoryview(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ))
    all_connections, error = [], None
    begin = end = time.monotonic()
    try:
        all_connections = connections(spec, blob, deadline)
        begin = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for c in all_connections:
                selector.register(c.sock, c.events(), c)
            while selector.get_map():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not done after {spec['timeout']} s")
                for key, mask in selector.select(0.5):
                    c = key.data
                    before = c.events()
                    try:
                        c.work(mask)
                    except BlockingIOError:
                        pass
                    if c.events() == 0:
                        selector.unregister(c.sock)
                    elif c.events() != before:
                        selector.modify(c.sock, c.events(), c)
        end = time.monotonic()
    except (OSError, ValueError) as e:
        end = time.monotonic()
        error = f"{type(e).__name__}: {e}"
    for c in all_connections:
        c.sock.close()
    return {"error": error, "seconds": end - begin,
            "connections": [c.result() for c in all_connections]}


def echo(spec):
    server = open_socket(spec)
    server.bind((spec["addr"], spec["port"]))
    server.listen(1)
    print("listening", flush=True)
    server.settimeout(spec["timeout"])
    s, _ = server.accept()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := s.recv(1):
        s.sendall(data)
    return {"error": None}


def ping(spec):
    s = open_socket(spec)
    s.settimeout(spec["timeout"])
    s.connect((spec["addr"], spec["port"]))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for i in range(spec["count"]):
        byte = bytes([i & 255])
        begin = time.perf_counter()
        s.sendall(byte)
        if s.recv(1) != byte:
            return {"error": "another byte came back"}
        times.append((time.perf_counter() - begin) * 1e6)
    times.sort()
    return {"error": None, "median_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100]}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    work = {"listen": transfer, "connect": transfer, "echo": echo, "ping": ping}
    print(json.dumps(work[request["role"]](request)))

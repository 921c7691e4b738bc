# SPDX-License-Identifier: BSD-3-Clause
"""The captures beside this script are those that vectors.py writes."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["vectors.pcap", "refused.pcap", "marked.pcap", "messages.pcap"]


def read(path):
    with open(path, "rb") as f:
        return f.read()


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, os.path.join(HERE, "vectors.py"), folder], check=True)
    stale = [n for n in NAMES if read(os.path.join(folder, n)) != read(os.path.join(HERE, n))]
print("not what vectors.py writes: " + ", ".join(stale) if stale else "captures are up to date")
sys.exit(1 if stale else 0)

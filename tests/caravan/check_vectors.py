# SPDX-License-Identifier: BSD-3-Clause
"""The captures beside this script are those that vectors.py writes, and so is what the format's page shows."""
import os
import re
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

sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import vectors  # noqa: E402

with open(os.path.join(HERE, "..", "..", "docs", "caravan-format.md")) as f:
    block = re.search(r"```\n(.*?)```", f.read(), re.S)[1]
shown = bytes.fromhex(re.sub(r"#.*", "", block))
smallest = next(b for b in vectors.bundles() if [len(d.udp) for d in b] == [8, 8])
if shown != vectors.caravan(smallest):
    stale.append("docs/caravan-format.md")
print("not what vectors.py writes: " + ", ".join(stale) if stale else "captures are up to date")
sys.exit(1 if stale else 0)

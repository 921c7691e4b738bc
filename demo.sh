#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds, and shows PacketExpress at work between two hosts.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  cat <<END
usage: ./demo.sh [--json FILE] [--keep] [--size MB] [--clean] [--help]

Two hosts in network namespaces, one at MTU 1500 (outside), one at MTU 9000 (inside), pxgw between
them; downloads and uploads over TCP, and what became of the packets on the way.

  --json FILE  write the same figures to FILE
  --keep       leave the hosts and the gateway up; says how to enter and how to remove them
  --size MB    bytes of each transfer (default 400)
  --clean      remove what earlier demos left up, and nothing else

Exit status: 0 all as it should be, 1 something wasn't (it says what), 2 the demo couldn't run.
END
}

needs_root() {
  [ "$(id -u)" -eq 0 ] && return
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  else
    echo "demo.sh: network namespaces need root; run it as root" >&2
    exit 2
  fi
}

args=() clean=no
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --clean) clean=yes; args+=("$1") ;;
    --keep) args+=("$1") ;;
    --json | --size)
      [ $# -ge 2 ] || { echo "demo.sh: $1 needs a value; see --help" >&2; exit 2; }
      args+=("$1" "$2"); shift ;;
    *) echo "demo.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift
done

as_root=()
needs_root
if [ "$clean" = no ]; then
  "$here/scripts/setup.sh" build demo || exit 2
  "$here/scripts/build.sh" release pxgw || { echo "demo.sh: the build failed, see above" >&2; exit 2; }
fi
# A process of its own: Ctrl-C reaches it, and it removes what it made.
exec "${as_root[@]}" /usr/bin/python3 "$here/scripts/demo.py" --pxgw "$here/build/pxgw/pxgw" \
  "${args[@]}"

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Configures and builds a preset: scripts/build.sh PRESET [TARGET...]. See CMakePresets.json.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: scripts/build.sh PRESET [TARGET...]}
shift
# A compiler takes up to 1.5 GB on the largest files.
memory_gb=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
jobs=$(nproc)
[ "$memory_gb" -ge "$jobs" ] || jobs=$((memory_gb > 1 ? memory_gb : 1))
options=()
! command -v ccache >/dev/null || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
[ -z "${FUZZ_SECONDS:-}" ] || options+=("-DPX_FUZZ_SECONDS=$FUZZ_SECONDS")

# Two builds at once would write the same files.
mkdir -p .cache
exec 9>.cache/build.lock
flock -n 9 || { echo "Another build is under way; waiting for it."; flock 9; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 9>&-; then
  cat "$log" >&2
  exit 1
fi
export NINJA_STATUS="[%f/%t, %es] "
cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"} 9>&-

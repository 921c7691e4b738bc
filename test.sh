#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds and runs the tests.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
  cat <<END
usage: ./test.sh [--quick] [--help]

Without options, as root: the release build with all tests: unit, property, golden captures, the fuzz
targets over their seeds, ports, and end to end with Linux TCP. Then what threads share, with clang's
TSan, and with its ASan and UBSan the rest but end to end, and each fuzz target for FUZZ_SECONDS (default 60).
Somewhat more than an hour on two cores.

  --quick  the part that needs no root: the release build, without end to end and ports
END
}

quick=no
for arg in "$@"; do
  case $arg in
    --quick) quick=yes ;;
    --help | -h) usage; exit 0 ;;
    *) echo "test.sh: unknown option $arg; see --help" >&2; exit 2 ;;
  esac
done
if [ "$quick" = no ] && [ "$(id -u)" -ne 0 ]; then
  echo "test.sh: the tests make network namespaces and need root; --quick runs those that don't" >&2
  exit 2
fi

export FUZZ_SECONDS=${FUZZ_SECONDS:-60}
export UBSAN_OPTIONS=print_stacktrace=1
if [ "$quick" = yes ]; then scripts/setup.sh build; else scripts/setup.sh build test; fi

closing=() failed=0
# Builds targets of a preset, or all, and runs its tests: stage TITLE PRESET TARGETS CTEST_ARGUMENT...
stage() {
  local title=$1 preset=$2 targets log line begin=$SECONDS
  read -ra targets <<<"$3"
  shift 3
  printf '\n=== %s\n' "$title"
  if ! scripts/build.sh "$preset" "${targets[@]}"; then
    closing+=("$title: the build failed") failed=1
    return
  fi
  log=$(mktemp)
  ctest --preset "$preset" "$@" 2>&1 | tee "$log" || failed=1
  line=$(grep -E 'tests? passed|No tests were found' "$log" | tail -n 1)
  closing+=("$title: ${line:-ctest failed} ($((SECONDS - begin)) s)")
  rm -f "$log"
}

if [ "$quick" = yes ]; then
  stage "release" release "" -LE 'e2e|root|bench'
else
  stage "release" release "" -LE e2e
  # Both hosts and the gateway share the machine's cores: a scenario that misses a share or a time for
  # want of them gets a second run, which the output shows.
  stage "end to end" release "" -L e2e --repeat until-pass:2
  stage "TSan" tsan thread_tests -L threads
  # clang's sanitizers find what gcc's do, and one build serves both purposes.
  stage "ASan, UBSan and $FUZZ_SECONDS s of fuzzing a target" fuzz "" -L 'unit|prop|golden|root|fuzz|threads'
fi
printf '\n'
printf '%s\n' "${closing[@]}"
exit $failed

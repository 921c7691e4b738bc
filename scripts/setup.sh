#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages that are missing: scripts/setup.sh [build] [demo] [test]
set -euo pipefail

build=(cmake ninja-build g++ pkg-config ca-certificates libdpdk-dev libpcap-dev libfmt-dev libboost-dev
  libyaml-cpp-dev libssl-dev libcli11-dev nlohmann-json3-dev catch2 librapidcheck-dev ccache python3)
demo=(iproute2 ethtool procps python3)
test=("${demo[@]}" iptables iputils-ping tcpdump tshark iperf3 dnsmasq-base bind9-dnsutils openssl gnuplot-nox user-mode-linux kmod clang-14 libclang-rt-14-dev clang-format clang-tidy)

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build demo test)
wanted=()
for group in "${groups[@]}"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    demo) wanted+=("${demo[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    *) echo "setup.sh: no group named $group; there are build, demo and test" >&2; exit 2 ;;
  esac
done

missing=()
if command -v dpkg-query >/dev/null; then
  for package in $(printf '%s\n' "${wanted[@]}" | sort -u); do
    state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing+=("$package")
  done
else
  echo "setup.sh: this isn't Debian; install what corresponds to: ${wanted[*]}" >&2
  exit 2
fi
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: packages are missing and only root can install them: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} missing packages: ${missing[*]}"
# A line a package and step is progress enough; all of apt's output is shown where it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 \
    -o DPkg::Lock::Timeout=120 "$@" 2>&1 | tee "$log" |
    sed -un -e 's/^Get:\([0-9]*\) .* \([^ ]*\) [^ ]* [^ ]* \[\(.*\)\]$/  download \1: \2 (\3)/p' \
      -e 's/^Unpacking \([^ ]*\) .*/  unpack \1/p' -e 's/^Setting up \([^ ]*\) .*/  set up \1/p' |
    show
}
# On a terminal each line takes the place of the one before.
show() {
  if [ ! -t 1 ]; then
    cat
    return
  fi
  while IFS= read -r line; do printf '\r\033[K%s' "$line"; done
  printf '\r\033[K'
}
if ! apt_get update || ! apt_get install -y --no-install-recommends "${missing[@]}"; then
  cat "$log" >&2
  echo "setup.sh: apt-get failed, see above; needed: ${missing[*]}" >&2
  exit 2
fi

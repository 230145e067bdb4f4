#!/usr/bin/env bash
# Builds for AArch64 on an x86 machine, and tests under QEMU that its update kernels (NEON) give the bits that they must,
# and what stands on them. Installs what is missing; for that it adds the architecture arm64 to dpkg's, as root.
#   tools/test_aarch64.sh [TEST...]     tests by their names for meson; default: optimizers and eps
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/install_packages.sh

folder=build-aarch64
tests=("$@")
((${#tests[@]})) || tests=(optimizers eps)
packages=(meson ninja-build pkg-config python3 g++-aarch64-linux-gnu qemu-user libcli11-dev nlohmann-json3-dev
  libtomlplusplus-dev:arm64 libxxhash-dev:arm64 libgtest-dev:arm64)

install_all() {
  if [[ $(dpkg --print-foreign-architectures) != *arm64* ]]; then
    dpkg --add-architecture arm64
    quietly apt-get update
  fi
  install_packages "${packages[@]}"
}

stage install install_all
stage configure configure "$folder" --cross-file tools/aarch64.ini -Dbuildtype=debugoptimized -Ddebug=false \
  -Dcpu=armv8-a -Dcuda=disabled -Dfault_points=enabled -Dtests=true
stage test meson test -C "$folder" --print-errorlogs --timeout-multiplier=20 "${tests[@]}"

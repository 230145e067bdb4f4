#!/usr/bin/env bash
# Builds L2L for this machine and installs it: programs, library, headers, manual pages and completions of bash and zsh.
# Installs what is missing to build it.
#   tools/install.sh PREFIX [-DOPTION=VALUE...]
# PREFIX/bin/l2l-train and so on; PREFIX may be moved later. Options are those of meson_options.txt: -Dcuda=disabled spares a
# machine that has the CUDA Toolkit but no GPU the minutes of nvcc. They are kept for the next time.
set -euo pipefail

usage() {
  echo "usage: tools/install.sh PREFIX [-DOPTION=VALUE...]" >&2
  exit 2
}

[[ $# -ge 1 && $1 != -* && -n $1 ]] || usage
prefix=$(realpath --canonicalize-missing -- "$1")
shift
for option; do
  [[ $option == -D?*=* ]] || usage
done
# Before the minutes that a build takes.
{ mkdir -p "$prefix" && [[ -w $prefix ]]; } 2>/dev/null ||
  { echo "$prefix cannot be written: name another folder, or run this as its owner" >&2; exit 2; }

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/install_packages.sh
build=build-install

stage install install_packages "${build_packages[@]}"
stage configure configure "$build" -Dbuildtype=release -Dtests=false "$@" -Dprefix="$prefix"
stage build quietly ninja -C "$build"
stage copy quietly meson install -C "$build" --no-rebuild

pkgconfig=$(dirname "$(find "$prefix" -name l2l.pc -print -quit)")
echo "installed $("$prefix/bin/l2l-train" --version | head -1) in $prefix. Put into ~/.profile:"
echo "  export PATH=$(printf %q "$prefix/bin"):\$PATH"
echo "for C++ programs that embed it:"
echo "  export PKG_CONFIG_PATH=$(printf %q "$pkgconfig"):\$PKG_CONFIG_PATH"
echo "  and link them with -Wl,-rpath,\$(pkg-config --variable=libdir l2l)"
echo "and go on with:"
echo "  $(printf %q "$prefix/bin/l2l-train") --help"

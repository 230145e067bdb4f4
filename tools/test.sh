#!/usr/bin/env bash
# Builds and runs every test. Installs what is missing. The last line is "N passed, N failed, N skipped", in test cases.
#   tools/test.sh [--sanitize=address|thread] [-- ARGUMENTS OF meson test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/install_packages.sh

usage() {
  echo "usage: tools/test.sh [--sanitize=address|thread] [-- ARGUMENTS OF meson test]" >&2
  exit 2
}

folder=build-test
# One architecture, which later GPUs run as well: half the time of the CUDA compiler.
# -g1, names and lines of functions but no variables, costs a quarter less than -g. The library's assertions: newer Meson
# switches them on by itself.
options=(-Dbuildtype=debugoptimized -Ddebug=false '-Dcpp_args=-g1 -D_GLIBCXX_ASSERTIONS=1' -Dfault_points=enabled -Dtests=true -Dgpu_arch=80)
arguments=(--print-errorlogs)
while (($#)); do
  case $1 in
    --sanitize=address)
      folder=build-asan
      options+=(-Db_sanitize=address,undefined -Db_lundef=false)
      arguments+=(--timeout-multiplier=10)
      ;;
    --sanitize=thread)  # neither oneTBB nor oneDNN's OpenMP is instrumented: their races would be false
      folder=build-tsan
      options+=(-Db_sanitize=thread -Db_lundef=false -Dtbb=disabled -Donednn=disabled)
      arguments+=(--timeout-multiplier=20)
      ;;
    --)
      shift
      arguments+=("$@")
      break
      ;;
    *) usage ;;
  esac
  shift
done

run_tests() {
  # Meson reads the results of a test program that crashed from the file of its previous run, where there is one.
  rm -f "$folder"/*.xml "$folder"/meson-logs/testlog*
  meson test -C "$folder" --no-rebuild "${arguments[@]}"
}

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
stage install install_packages "${build_packages[@]}" "${test_packages[@]}"
stage configure configure "$folder" "${options[@]}"
stage build quietly ninja -C "$folder"
status=0
stage test run_tests || status=$?
python3 tools/count_tests.py "$folder/meson-logs" || status=1
exit "$status"

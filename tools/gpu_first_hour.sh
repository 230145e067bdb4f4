#!/usr/bin/env bash
# All that is worth knowing of L2L on a GPU that it has not run on, in order of worth, in pieces of any length.
#
#   tools/gpu_first_hour.sh PROGRAMS OUT [--minutes N]
#
# PROGRAMS: what `tools/gpu_check.sh --pack` collected. Parts, each within its time, its output kept in OUT:
#   quick   suites, laws, the driver's own figure                       3 min
#   bench   tools/gpu_bench.sh: link, ops, Llama-7B, BERT-Large, depth  8 min
#   traces  where a step's time goes, visit by visit, with timelines    2 min
#   long    the same bits 100 times, compute-sanitizer                  20 min
# A part that is done is not begun again, nor one for which less than its time is left of N minutes (default 60): call it
# again for the rest. OUT/summary.md has all parts so far. Exit status 0 when all that ran holds, 77 without a GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
source tools/cuda_libraries.sh

(($# == 2 || $# == 4)) || { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
programs=$(realpath "$1") out=$2 minutes=60
[[ ${3:-} == --minutes ]] && minutes=$4
mkdir -p "$out" && out=$(realpath "$out")
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "no GPU in reach" >&2; exit 77; }

failed=0
# part NAME MINUTES COMMAND...
part() {
  local name=$1 limit=$2 status=0
  shift 2
  [[ -e $out/$name.done ]] && return
  ((SECONDS + 60 * limit <= 60 * minutes)) || { echo "$name: less than $limit minutes are left"; return; }
  echo "== $name"
  timeout $((60 * limit)) "$@" 2>&1 | tee "$out/$name.txt"
  status=${PIPESTATUS[0]}
  ((status == 0)) && touch "$out/$name.done" || failed=1
}

traces() {
  local shape bin=$programs
  export LD_LIBRARY_PATH=$bin:$(cuda_libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for shape in bert-large llama-7b; do
    python3 - "$shape" >"$out/$shape.toml" <<'PYTHON'
import dataclasses, sys
sys.path.insert(0, "tools/compare")
from shapes import SHAPES, config_of
shape = dataclasses.replace(SHAPES[sys.argv[1]], layers=min(8, SHAPES[sys.argv[1]].layers))
print(config_of(shape, "relay", {"device.kind": '"cuda"'}), end="")
PYTHON
    "$bin/l2l-bench" schedule "$out/$shape.toml" --steps 3 --trace "$out/$shape.json" || return 1
    gzip -f "$out/$shape.json"
  done
}

export OUT=$out
part quick 3 tools/gpu_check.sh --build "$programs" --quick
part bench 8 tools/gpu_bench.sh "$programs" --minutes 7.5 --json "$out/bench.json"
export -f traces cuda_libraries
export programs out
part traces 2 bash -c traces
part long 20 tools/gpu_check.sh --build "$programs"
{
  echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
  for name in quick bench traces long; do
    [[ -e $out/$name.txt ]] && printf '\n## %s\n\n```\n%s\n```\n' "$name" "$(cat "$out/$name.txt")"
  done
} >"$out/summary.md"
exit "$failed"

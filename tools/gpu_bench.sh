#!/usr/bin/env bash
# The performance table of this machine's GPU, in under eight minutes: tools/gpu_bench.sh [TOOLS] [--minutes N] [--help]
# TOOLS: build-release/tools, or what `tools/gpu_check.sh --pack` collected. Exit status 1 where the GPU does not open or a
# row failed that had to be measured (tools/compare/gpu_table.py).
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/cuda_libraries.sh"
tools=$here/../build-release/tools
[[ ${1:-} == [!-]* ]] && tools=$1 && shift
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader
fi
export LD_LIBRARY_PATH=$tools:$(cuda_libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 "$here/compare/gpu_table.py" "$tools" "$@"

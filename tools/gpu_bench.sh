#!/usr/bin/env bash
# The performance table of this machine's GPU, in under eight minutes: tools/gpu_bench.sh [TOOLS] [--minutes N] [--help]
set -euo pipefail
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader
echo "$(nproc) cores: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
exec python3 "$(dirname "${BASH_SOURCE[0]}")/compare/gpu_table.py" "$@"

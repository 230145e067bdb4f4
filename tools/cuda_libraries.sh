# shellcheck shell=bash
# Sourced by gpu_check.sh and gpu_bench.sh: where the CUDA libraries may lie beside the linker's own places (the toolkit, and
# Python's packages), as LD_LIBRARY_PATH takes it.
cuda_libraries() {
  local folders=(/usr/local/cuda/lib64) site
  site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null) && folders+=("$site"/nvidia/*/lib)
  local IFS=:
  echo "${folders[*]}"
}

#!/usr/bin/env bash
# Proves the CUDA device on this machine's GPU: suites of devices and ops, repeated bits, compute-sanitizer, laws; prints one
# table. Exit status 0 when all of it holds, 77 without a GPU.
#
#   tools/gpu_check.sh [--quick]                builds in build-gpu (std::thread workers, no oneDNN) and checks
#   tools/gpu_check.sh --pack FOLDER            only builds, and collects all that a machine without our libraries needs
#   tools/gpu_check.sh --build FOLDER [--quick] checks what --pack collected on another machine; needs the CUDA libraries there
#
# --quick leaves compute-sanitizer out. Environment: GPU_ARCH (default 90), CPU (-march; default native, x86-64-v3 for
# --pack), CUDNN_FRONTEND (folder of cudnn_frontend.h), OUT (folder for logs; default build-gpu/logs).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/cuda_libraries.sh

programs=(tools/l2l-train tools/l2l-plan tools/l2l-bench device/cuda/module/libl2l_cuda.so
  tests/conformance/device/device_conformance_cuda tests/conformance/ops/cuda-op-conformance-gpu
  tests/laws/law_constant_memory tests/laws/law_counters_and_equivalence tests/laws/law_pytorch tests/laws/law_resume)

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

build() {
  local options=(-Dbuildtype=release -Dfault_points=enabled -Dcuda=enabled "-Dgpu_arch=${GPU_ARCH:-90}" -Dtbb=disabled
    -Donednn=disabled "-Dcpu=$1" -Dtests=true ${CUDNN_FRONTEND:+-Dcudnn=enabled "-Dcudnn_frontend=$CUDNN_FRONTEND"})
  local again=()
  [[ -f build-gpu/build.ninja ]] && again=(--reconfigure)
  meson setup "${again[@]}" "${options[@]}" build-gpu ||
    { echo "a library is missing here: build elsewhere with --pack, and check with --build" >&2; return 1; }
  ninja -C build-gpu "${programs[@]}"
}

# The programs, stripped, and those of their libraries that belong neither to the system nor to CUDA.
pack() {
  local folder=$1 program library
  mkdir -p "$folder"
  for program in "${programs[@]}"; do
    cp "build-gpu/$program" "$folder/" && strip --strip-unneeded "$folder/$(basename "$program")" || return 1
    while read -r library; do
      case $(basename "$library") in
        libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux* | libcu* | libstdc++* | libgcc_s*) ;;
        *) cp -L "$library" "$folder/" ;;
      esac
    done < <(ldd "build-gpu/$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p')
  done
  cp -r tests/fixtures "$folder/"
  du -sh "$folder"
}

rows=() failed=0
# check NAME SECONDS COMMAND...: one row of the table; the output goes to a log.
check() {
  local name=$1 limit=$2 begin=$SECONDS status=0 verdict
  shift 2
  local log="$logs/${name//[^a-z0-9]/_}.log"
  timeout "$limit" "$@" >"$log" 2>&1 || status=$?
  case $status in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124) verdict="FAILED: longer than $limit s" ;;
    *) verdict="FAILED: exit status $status" ;;
  esac
  grep -qE '^\[==========\] (Running )?0 tests' "$log" && verdict='FAILED: no test ran'
  [[ $verdict == FAILED* ]] && { failed=1; tail -n 15 "$log" | sed 's/^/    /'; }
  local said
  said=$(grep -E '^\[  (PASSED|FAILED)  \] [0-9]+ test|ERROR SUMMARY|tests? ran' "$log" | tail -n 1)
  rows+=("$(printf '%-34s %-28s %5d s  %s' "$name" "$verdict" $((SECONDS - begin)) "$said")")
  echo "${rows[-1]}"
}

# The driver's own figure for used memory, read while a run is under way, at two depths: it must not grow with depth.
driver_memory() {
  local depth steps=(1000 30) used=() folder
  folder=$(mktemp -d)
  for depth in 2 384; do
    printf '[model]\nlayers = %d\nhidden = 256\nheads = 4\nsequence = 128\n[batch]\nmicro_batch = 2\nmicro_batches = 2\n[device]\nkind = "cuda"\n[transfer]\nstash = "host"\n[recompute]\npolicy = "full"\n' \
      "$depth" >"$folder/run.toml"
    "$bin/l2l-bench" step "$folder/run.toml" --steps "${steps[${#used[@]}]}" --json >"$folder/result" &
    local pid=$! most=0 now
    while kill -0 "$pid" 2>/dev/null; do
      now=$(nvidia-smi --id=0 --query-gpu=memory.used --format=csv,noheader,nounits)
      ((now > most)) && most=$now
      sleep 0.05
    done
    wait "$pid" || return 1
    used+=("$most")
    echo "$depth layers: $most MiB used by the driver's figure; $(cat "$folder/result")"
  done
  rm -r "$folder"
  # The figure is in MiB and other processes may breathe; a leak of 1 MiB per layer would be 382.
  ((used[1] - used[0] <= 8))
}

sanitize() {
  local tool=$1
  shift
  check "compute-sanitizer $tool, ops" 300 compute-sanitizer --tool "$tool" --error-exitcode 1 "$bin/cuda-op-conformance-gpu" "$@"
}

run_checks() {
  check "device conformance" 300 "$bin/device_conformance_cuda" '--gtest_filter=Devices/*:Cuda*'
  check "ops against float64" 400 "$bin/cuda-op-conformance-gpu"
  L2L_NO_CUDNN=1 check "attention without cuDNN" 200 "$bin/cuda-op-conformance-gpu" '--gtest_filter=*attention*'
  L2L_OP_REPEATS=100 check "ops, same bits 100 times" 600 "$bin/cuda-op-conformance-gpu"
  export L2L_TEST_DEVICE=cuda L2L_TEST_FIXTURES=$fixtures
  check "law: constant memory" 300 "$bin/law_constant_memory" '--gtest_filter=ConstantMemory.*'
  check "law: the driver's own figure" 120 bash -c driver_memory
  check "law: equivalence, counters" 600 "$bin/law_counters_and_equivalence" '--gtest_filter=*Equivalence.SameBits*'
  check "law: gradients, losses (PyTorch)" 120 "$bin/law_pytorch"
  check "law: resume" 300 "$bin/law_resume" '--gtest_filter=*/Resume.*'
  unset L2L_TEST_DEVICE
  ((quick)) && return
  if ! command -v compute-sanitizer >/dev/null; then
    rows+=("compute-sanitizer                  not installed")
    return
  fi
  local tool
  for tool in memcheck racecheck initcheck synccheck; do sanitize "$tool" "--gtest_filter=$small_cases"; done
}
export -f driver_memory

bin='' quick=0 action=check folder=''
while (($#)); do
  case $1 in
    --quick) quick=1 ;;
    --pack | --build) action=${1#--} folder=${2:-}; [[ -n $folder ]] || usage; shift ;;
    *) usage ;;
  esac
  shift
done

case $action in
  pack) build "${CPU:-x86-64-v3}" && pack "$folder"; exit ;;
  build) bin=$(realpath "$folder") fixtures=$bin/fixtures ;;
  check)
    build "${CPU:-native}" >&2 || exit 1
    folder=build-gpu/programs && rm -rf "$folder" && pack "$folder" >&2 || exit 1
    bin=$(realpath "$folder") fixtures=$bin/fixtures
    ;;
esac

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "no GPU in reach" >&2; exit 77; }
export LD_LIBRARY_PATH=$bin:$(cuda_libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
logs=${OUT:-build-gpu}/logs
export bin
mkdir -p "$logs"
# compute-sanitizer slows a case down a hundred times: some shapes of each op, each once.
small_cases='*Float64Reference/*_33x*:*Float64Reference/*_2x*:*Float64Reference/*x5x*'
run_checks
echo
printf '%s\n' "${rows[@]}"
exit "$failed"

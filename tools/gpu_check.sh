#!/usr/bin/env bash
# Proves the CUDA device on this machine's GPU: suites of devices and ops, repeated bits, compute-sanitizer, laws; prints one
# table. Exit status 0 when all of it holds, 77 without a GPU.
#
#   tools/gpu_check.sh [--quick]                builds in build-gpu (std::thread workers, no oneDNN) and checks
#   tools/gpu_check.sh --pack FOLDER            only builds, and collects all that a machine without our libraries needs
#   tools/gpu_check.sh --build FOLDER [--quick] checks what --pack collected on another machine; needs the CUDA libraries there
#
# --quick leaves out what takes minutes: the same bits 100 times, compute-sanitizer. Environment: GPU_ARCH (default 90),
# CPU (-march; default native, x86-64-v3 for --pack), CUDNN_FRONTEND (folder of cudnn_frontend.h), OUT (folder for logs;
# default build-gpu/logs).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/cuda_libraries.sh

programs=(tools/l2l-train tools/l2l-plan tools/l2l-bench device/cuda/module/libl2l_cuda.so
  tests/conformance/device/device_conformance_cuda tests/conformance/ops/cuda-op-conformance-gpu
  tests/laws/laws tests/laws/law_constant_memory tests/laws/law_counters_and_equivalence tests/laws/law_pytorch
  tests/laws/law_resume)
mpi_module=collectives/mpi/libl2l_mpi.so

usage() { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

build() {
  local options=(-Dbuildtype=release -Dfault_points=enabled -Dcuda=enabled "-Dgpu_arch=${GPU_ARCH:-90}" -Dtbb=disabled
    -Donednn=disabled "-Dcpu=$1" -Dtests=true ${CUDNN_FRONTEND:+-Dcudnn=enabled "-Dcudnn_frontend=$CUDNN_FRONTEND"})
  local again=()
  [[ -f build-gpu/build.ninja ]] && again=(--reconfigure)
  meson setup "${again[@]}" "${options[@]}" build-gpu ||
    { echo "a library is missing here: build elsewhere with --pack, and check with --build" >&2; return 1; }
  ninja -C build-gpu -t targets all | grep "^$mpi_module:" >/dev/null && programs+=("$mpi_module")
  ninja -C build-gpu "${programs[@]}"
}

# The programs, stripped, and those of their libraries that belong neither to the system nor to CUDA nor to MPI.
pack() {
  local folder=$1 program library
  mkdir -p "$folder"
  for program in "${programs[@]}"; do
    cp "build-gpu/$program" "$folder/" && strip --strip-unneeded "$folder/$(basename "$program")" || return 1
    while read -r library; do
      case $(basename "$library") in
        libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux* | libcu* | libstdc++* | libgcc_s* | libmpi* | libopen-*) ;;
        *) cp -L "$library" "$folder/" ;;
      esac
    done < <(ldd "build-gpu/$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p')
  done
  cp -r tests/fixtures "$folder/"
  du -sh "$folder"
}

names=() logs_of=()
# check NAME SECONDS COMMAND...: starts one row of the table; the output goes to a log, and beside it the exit status.
check() {
  local name=$1 limit=$2 log="$logs/${1//[^a-z0-9]/_}.log"
  shift 2
  names+=("$name") logs_of+=("$log")
  (
    begin=$SECONDS status=0
    timeout "$limit" "$@" >"$log" 2>&1 || status=$?
    echo "$status $((SECONDS - begin)) $limit" >"$log.status"
  ) &
}

# shards COUNT NAME SECONDS COMMAND...: a suite of Google Test in COUNT processes.
shards() {
  local count=$1 name=$2 limit=$3 shard
  shift 3
  for ((shard = 0; shard < count; ++shard)); do
    GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$shard check "$name $((shard + 1))/$count" "$limit" "$@"
  done
}

rows=() failed=0
# Waits for the checks that were started, and prints their rows.
finish() {
  local i status seconds limit verdict said log
  wait
  for i in "${!names[@]}"; do
    log=${logs_of[i]}
    read -r status seconds limit <"$log.status"
    case $status in
      0) verdict=ok ;;
      77) verdict=skipped ;;
      124) verdict="FAILED: longer than $limit s" ;;
      *) verdict="FAILED: exit status $status" ;;
    esac
    grep -qE '^\[==========\] (Running )?0 tests' "$log" && verdict='FAILED: no test ran'
    [[ $verdict == FAILED* ]] && { failed=1; grep -E '^\[  FAILED  \]|rror' "$log" | head -n 12 | cut -c 1-300 | sed 's/^/    /'; }
    said=$(grep -E '^\[  (PASSED|FAILED)  \] [0-9]+ test|ERROR SUMMARY|tests? ran' "$log" | tail -n 1)
    rows+=("$(printf '%-34s %-28s %5d s  %s' "${names[i]}" "$verdict" "$seconds" "$said")")
    echo "${rows[-1]}"
  done
  names=() logs_of=()
}

# The driver's own figure for used memory, read while a run is under way, at two depths: it must not grow with depth. Both
# are deep enough that every buffer, and so every CUDA graph, has been used.
driver_memory() {
  local depth steps=(200 30) used=() folder
  folder=$(mktemp -d)
  for depth in 48 384; do
    printf '[model]\nlayers = %d\nhidden = 256\nheads = 4\nsequence = 128\n[batch]\nmicro_batch = 2\nmicro_batches = 2\n[precision]\ncompute = "fp32"\n[device]\nkind = "cuda"\n[transfer]\nstash = "host"\n[recompute]\npolicy = "full"\n' \
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
  # The figure is in MiB and other processes may breathe; a leak of 1 MiB per layer would be 336.
  ((used[1] - used[0] <= 8))
}

# All that share nothing but the GPU run side by side; the driver's own figure is read with nothing beside.
run_checks() {
  check "device conformance" 300 "$bin/device_conformance_cuda" '--gtest_filter=Devices/*:Cuda*'
  shards 6 "ops against float64" 400 "$bin/cuda-op-conformance-gpu"
  export L2L_TEST_DEVICE=cuda L2L_TEST_FIXTURES=$fixtures
  check "law: constant memory" 300 "$bin/law_constant_memory" '--gtest_filter=ConstantMemory.*'
  shards 2 "law: equivalence, counters" 400 "$bin/law_counters_and_equivalence" '--gtest_filter=*Equivalence.SameBits*'
  check "law: gradients, losses (PyTorch)" 120 "$bin/law_pytorch"
  check "law: resume" 300 "$bin/law_resume" '--gtest_filter=*/Resume.*'
  shards 3 "laws of families and own layers" 300 "$bin/laws" "--gtest_filter=-$not_for_one_gpu"
  if command -v mpirun >/dev/null && [[ -e $bin/libl2l_mpi.so ]]; then
    check "ranks that share the GPU" 300 python3 tests/tools/ranks_test.py "$bin" mpirun - \
      Ranks.test_parts_give_the_same_bits_on_any_number_of_devices_and_ranks \
      Ranks.test_parts_go_on_on_any_number_of_ranks Ranks.test_a_rank_that_dies_ends_all_and_what_was_saved_goes_on
  fi
  unset L2L_TEST_DEVICE
  L2L_NO_CUDNN=1 check "attention without cuDNN" 200 "$bin/cuda-op-conformance-gpu" '--gtest_filter=*attention*'
  finish
  check "law: the driver's own figure" 120 bash -c driver_memory
  finish
  ((quick)) && return
  L2L_OP_REPEATS=100 shards 8 "ops, same bits 100 times" 600 "$bin/cuda-op-conformance-gpu"
  finish
  if ! command -v compute-sanitizer >/dev/null; then
    rows+=("compute-sanitizer                  not installed")
    return
  fi
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
    shards 3 "compute-sanitizer $tool, ops" 300 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$bin/cuda-op-conformance-gpu" "--gtest_filter=$small_cases"
  done
  finish
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
# Laws that need two devices, or compare the run's device with a host device of their own, or its throttled link.
not_for_one_gpu='*Devices*:*DeviceSums*:*DeviceFamilies*:*Feed*:*Ranks*:*Buckets*:Contract*:*DeviceAndPinnedBytes*:ReversibleNegativeControl*:'
not_for_one_gpu+='*OneKnobDecides*:*AStreamThatLeavesItsRange*:StepReport.StallsLieWithinTheStep'
# compute-sanitizer slows a case down a hundred times: some shapes of each op, each once.
small_cases='*Float64Reference/*_33x*:*Float64Reference/*_2x*:*Float64Reference/*x5x*'
run_checks
echo
printf '%s\n' "${rows[@]}"
exit "$failed"

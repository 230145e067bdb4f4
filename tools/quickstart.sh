#!/usr/bin/env bash
# Builds L2L, trains a byte-level GPT for a few minutes and shows what came of it. Installs what is missing.
#   tools/quickstart.sh [--seconds N] [FILE...]
# Text: the licences every Debian and Ubuntu has, Apache-2.0 held out for validation; or FILEs, the last tenth of each
# held out. Training takes at most N seconds (default 270). Everything is written to runs/quickstart, afresh.
set -euo pipefail

usage() {
  echo "usage: tools/quickstart.sh [--seconds N] [FILE...]" >&2
  exit 2
}

seconds=270
files=()
while (($#)); do
  case $1 in
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage
      seconds=$2
      shift
      ;;
    -*) usage ;;
    *)
      [[ -f $1 && -r $1 ]] || { echo "$1 is not a file that can be read" >&2; exit 2; }
      files+=("$(realpath "$1")")
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/install_packages.sh
build=build-release
run=runs/quickstart
config=$run/config.toml
calibration_steps=60

select_licences() {
  local folder=/usr/share/common-licenses
  [[ -r $folder/Apache-2.0 ]] || { echo "$folder is not here: name text files to train on" >&2; return 1; }
  cp "$folder/Apache-2.0" "$run/data/validation/"
  # The other names are links to some of these.
  find "$folder" -type f ! -name Apache-2.0 -exec cp -t "$run/data/train/" {} +
  prompt='You may '
}

select_files() {
  local file size number=0
  for file; do
    number=$((number + 1))
    size=$(stat --format=%s "$file")
    head --bytes=$((size - size / 10)) "$file" >"$run/data/train/$number"
    tail --bytes=$((size / 10)) "$file" >"$run/data/validation/$number"
  done
  prompt=$(head --bytes=32 "$run/data/validation/1" | tr -d '\0')
}

select_text() {
  rm -rf "$run"
  mkdir -p "$run"/data/{train,validation}
  if (($#)); then select_files "$@"; else select_licences; fi
  echo "text: $(cat "$run"/data/train/* | wc -c) bytes to train on, $(cat "$run"/data/validation/* | wc -c) held out:"
  (cd "$run/data" && ls -1 train/* validation/*) | sed 's/^/  /'
}

write_config() {
  local steps=$1
  cat >"$config" <<EOF
[model]
architecture = "gpt2"
layers = 8
hidden = 160
heads = 5
sequence = 128
dropout = 0.0

[data]
format = "text"
train = ["data/train/*"]
validation = ["data/validation/*"]

[batch]
micro_batch = 2
micro_batches = 2

[optimizer]
name = "adamw"
learning_rate = 1e-3
betas = [0.9, 0.95]
weight_decay = 0.1
clip = "global"
max_norm = 1.0

[schedule]
kind = "cosine"
warmup_steps = $((steps / 20 + 1))
minimum = 1e-4

[checkpoint]
directory = "$run/checkpoints"
keep = 1

[run]
steps = $steps
EOF
}

# Measures a few steps and writes the config for as many as fit into $seconds.
calibrate() {
  write_config "$calibration_steps"
  local scratch milliseconds
  scratch=$(mktemp -d)
  "$build/tools/l2l-train" "$config" --quiet --metrics "$scratch/metrics.jsonl" --set "data.validation=[]" \
    --set "checkpoint.directory=$scratch/checkpoints" >/dev/null
  # The first steps also bring memory and caches to life.
  milliseconds=$(awk -F'"step_ms": *' 'NF > 1 && NR > 10 { sum += $2 + 0; n++ } END { print sum / n }' "$scratch/metrics.jsonl")
  rm -rf "$scratch"
  steps=$(awk -v s="$seconds" -v ms="$milliseconds" 'BEGIN {
    n = int(s * 1000 / ms); print (n < 1 ? 1 : n > 6000 ? 6000 : n) }')
  write_config "$steps"
  echo "$milliseconds ms a step: $steps steps"
}

# Should the machine turn out slower than it was measured, the time limit ends the run early.
train() {
  result=$("$build/tools/l2l-train" "$config" --set "run.seconds=$((seconds + 20))" \
    --metrics "$run/metrics.jsonl" --trace "$run/trace.json")
  result=${result##*$'\n'}
}

field() {
  python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$result" "$1"
}

report() {
  local bytes packed checkpoint
  bytes=$(cat "$run"/data/validation/* | wc -c)
  packed=$(cat "$run"/data/validation/* | gzip -9 | wc -c)
  checkpoint=$(field checkpoint)
  echo
  [[ $(field validation_loss) != None ]] || { echo "interrupted before validation; checkpoint $checkpoint"; return; }
  awk -v loss="$(field validation_loss)" -v bytes="$bytes" -v packed="$packed" 'BEGIN {
    printf "held-out text: %.3f bits per byte; gzip -9 needs %.3f\n", loss / log(2), packed * 8 / bytes }'
  echo
  echo "300 bytes that continue \"$prompt\":"
  "$build/tools/l2l-sample" "$checkpoint" "--prompt=$prompt" --tokens 300
  echo
  echo "checkpoint  $checkpoint"
  echo "metrics     $run/metrics.jsonl"
  echo "trace       $run/trace.json (open it in https://ui.perfetto.dev)"
  echo "config      $config"
}

stage install install_packages "${build_packages[@]}"
# On the CPU: the CUDA module takes longer to build than all the rest.
stage configure configure "$build" -Dbuildtype=release -Dtests=false -Dcuda=disabled
stage build quietly ninja -C "$build" tools/l2l-train tools/l2l-sample
select_text "${files[@]}"
stage calibrate calibrate
stage train train
stage report report

#!/usr/bin/env bash
# Installs the build as packagers do, moves what was installed, runs the tools from there, compiles the examples
# against nothing but that, by pkg-config and by CMake, and runs them.
#   test_embed.sh SOURCE_ROOT BUILD_ROOT PREFIX SANITIZE RELOCATABLE MANUALS COMPILER...
# RELOCATABLE: whether pkg-config finds moved files (the option pkgconfig.relocatable); MANUALS: whether there are any.
set -euo pipefail
source_root=$1 build_root=$2 prefix=$3 sanitize=$4 relocatable=$5 manuals=$6
shift 6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

meson install -C "$build_root" --no-rebuild --destdir "$folder" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
installed=$folder/elsewhere
mv "$folder$prefix" "$installed"
headers=$(cd "$installed/include" && find . -type f | sort | tr '\n' ' ')
[[ $headers == "$(printf './l2l/%s.h ' allocator choose custom_op data errors export graph l2l log model_files options revbifpn run testing tokenizer trainer version)" ]] || fail "headers: $headers"
unset LD_LIBRARY_PATH
for tool in train plan sample eval export report tokenize bench; do
  "$installed/bin/l2l-$tool" --version >"$folder/version" || fail "l2l-$tool does not run from another place"
  [[ $(head -1 "$folder/version") == "l2l-$tool "* ]] || fail "l2l-$tool --version: $(head -1 "$folder/version")"
  if [[ $manuals == true ]]; then
    for file in "man/man1/l2l-$tool.1" "bash-completion/completions/l2l-$tool.bash" "zsh/site-functions/_l2l-$tool"; do
      [[ -s $installed/share/$file ]] || fail "share/$file is not installed"
    done
  fi
done

for _ in {1..200}; do printf 'to be or not to be, that is the question: '; done >"$folder/text"
cat >"$folder/tiny.toml" <<EOF
model = {layers = 2, hidden = 16, heads = 2, sequence = 16}
data = {train = ["$folder/text"]}
checkpoint = {directory = "$folder/tiny"}
run = {steps = 2}
EOF
"$installed/bin/l2l-train" "$folder/tiny.toml" --quiet >"$folder/result" || fail "no training from another place"
grep -q '"steps": *2\b' "$folder/result" || fail "not two steps: $(cat "$folder/result")"

# Tools find the CUDA module of the place that they were moved to: an empty one is no module, or lacks a driver.
library=$(find "$installed" -name libl2l.so)
module=$(dirname "$library")/libl2l_cuda.so
[[ -e $module ]] || touch "$module"
for tool in plan train; do
  status=0
  L2L_CUDA_MODULE='' "$installed/bin/l2l-$tool" "$folder/tiny.toml" --set device.kind=cuda --set device.index=999 \
    2>"$folder/error" >/dev/null || status=$?
  [[ $status == 2 ]] || fail "l2l-$tool with a device that is not there: exit status $status"
  ! grep -q 'no CUDA module' "$folder/error" || fail "the moved CUDA module was not found: $(cat "$folder/error")"
done

PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name l2l.pc)")
export PKG_CONFIG_PATH
[[ $relocatable == true ]] && where=() || where=(--define-variable=prefix="$installed")
read -ra flags < <(pkg-config "${where[@]}" --cflags --libs l2l)
[[ $sanitize == none ]] || flags+=("-fsanitize=$sanitize")
"$@" -Wall -Wextra "$source_root/examples/embed.cpp" -o "$folder/embed" "${flags[@]}"
! ldd "$folder/embed" | grep -q jemalloc || fail "the library chooses malloc() for the programs that embed it"
for example in own_data own_layer own_op vision pyramid stochastic_depth growth search; do
  "$@" -Wall -Wextra "$source_root/examples/$example.cpp" -o "$folder/$example" "${flags[@]}"
done

# The same by CMake, which finds what was moved in any case.
if command -v cmake >/dev/null; then
  mkdir "$folder/by_cmake"
  cat >"$folder/by_cmake/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.18)
project(by_cmake CXX)
find_package(l2l $(pkg-config --modversion l2l) REQUIRED)
add_executable(by_cmake $source_root/examples/embed.cpp)
target_link_libraries(by_cmake PRIVATE l2l::l2l)
EOF
  [[ $sanitize == none ]] || export CXXFLAGS="-fsanitize=$sanitize"
  cmake -S "$folder/by_cmake" -B "$folder/by_cmake/build" -DCMAKE_PREFIX_PATH="$installed" >"$folder/cmake.log" 2>&1 &&
    cmake --build "$folder/by_cmake/build" >>"$folder/cmake.log" 2>&1 || { cat "$folder/cmake.log"; fail "no build by CMake"; }
  unset CXXFLAGS
  "$folder/by_cmake/build/by_cmake" "$folder/text" "$folder/cmade" >"$folder/by_cmake/output"
  grep -q '^step 30, loss' "$folder/by_cmake/output" || fail "what CMake built does not train"
  sed -i 's/find_package(l2l [0-9.]*/find_package(l2l 0.0.1/' "$folder/by_cmake/CMakeLists.txt"
  ! cmake -S "$folder/by_cmake" -B "$folder/by_cmake/other" -DCMAKE_PREFIX_PATH="$installed" >"$folder/cmake.log" 2>&1 ||
    fail "another version was found"
else
  echo "no cmake: that way to build was not tried"
fi

LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
"$folder/embed" "$folder/text" "$folder/checkpoints" >"$folder/output"
cat "$folder/output"
[[ $(head -1 "$folder/output") == "L2L $(pkg-config --modversion l2l)" ]] || fail "another version"
status=0
"$folder/embed" "$folder/missing" "$folder/checkpoints" 2>"$folder/error" || status=$?
[[ $status == 2 ]] && grep -q missing "$folder/error" || fail "an l2l::BadInput was not caught as one"

"$folder/own_data" 500 >"$folder/sums"
awk '/^step 100,/ { first = $4 } /^step 500,/ { last = $4 } END { exit !(first > 0 && last < first / 2) }' "$folder/sums" ||
  fail "sums were not learnt"

grep -q '^[0-9]* parameters, [0-9]* device bytes$' "$folder/output" || fail "no contract"
[[ $(grep -c '^step [0-9]*, loss ' "$folder/output") == 30 ]] || fail "not 30 steps"
# Untrained, every byte is as likely as any other: ln 256 = 5.5 nats. The text repeats itself.
awk '/^step 1,/ { first = $4 } /^step 30,/ { last = $4 } END { exit !(first > 5 && last < 3.2) }' "$folder/output" ||
  fail "the loss did not fall"
grep -q '^the ..' "$folder/output" || fail "nothing generated"
checkpoint=$(sed -n 's/^checkpoint //p' "$folder/output")
[[ -n $checkpoint && -e $checkpoint ]] || fail "no checkpoint"

"$folder/own_op" "$folder/text" >"$folder/bent"
cat "$folder/bent"
awk '/^gradient:/ { off = $4 } /^before:/ { before = $3 } /^after:/ { after = $3 }
  END { exit !(off < 0.01 && after > 0 && after < before - 1) }' "$folder/bent" || fail "an op of its own did not learn"

# Images with a bright line, whose place is the class.
awk 'BEGIN { for (i = 0; i < 400; ++i) { class = i * 7 % 8
  for (pixel = 0; pixel < 64; ++pixel) printf "%d,", (int(pixel / 8) == class ? 12 : 3) + (i * 31 + pixel * 17) % 5
  print class } }' >"$folder/lines.csv"
"$folder/vision" "$folder/lines.csv" 40 >"$folder/seen"
cat "$folder/seen"
awk '/^right:/ { right = $2; all = $4 } END { exit !(all == 80 && right >= 76) }' "$folder/seen" || fail "no lines were seen"

# Images in a color of their class, 32 pixels wide, which are classified after a few steps by a pyramid; what rebuilds its
# inputs needs less device memory.
python3 -c 'import sys
for i in range(160):
    label = i * 7 % 10
    planes = [[(40 + 20 * (label >> color & 1) * 5 + (i * 31 + pixel * 17) % 9) for pixel in range(1024)] for color in range(3)]
    planes[2] = [value + 80 * (label > 7) for value in planes[2]]
    sys.stdout.buffer.write(bytes([label] + sum(planes, [])))' >"$folder/colors.bin"
for kind in float none; do
  "$folder/pyramid" "$folder/colors.bin" "$folder/colors.bin" 60 $kind >"$folder/pyramid.$kind"
  cat "$folder/pyramid.$kind"
  awk '/^right:/ { right = $2; all = $4 } END { exit !(all == 160 && right >= 128) }' "$folder/pyramid.$kind" || fail "no colors were seen"
done
awk '/^device memory:/ { bytes[NR] = $3; last = NR } END { exit !(bytes[3] > 0 && bytes[3] < bytes[last]) }' \
  "$folder/pyramid.float" "$folder/pyramid.none" || fail "nothing was rebuilt"

# Layers that are exchanged. A model that has grown goes on from about the loss that it had.
"$folder/stochastic_depth" "$folder/text" 40 >"$folder/drawn"
cat "$folder/drawn"
awk '/ of 12 blocks/ { blocks = $1 } /^validation loss/ { loss = $NF } END { exit !(blocks > 6 && blocks < 12 && loss < 4) }' \
  "$folder/drawn" || fail "no stochastic depth"
"$folder/growth" "$folder/text" "$folder/grown" 15 >"$folder/grows"
cat "$folder/grows"
awk '/blocks: .* ms a step/ { last = $NF; device[$(NF - 7)] = 1 } END { exit !(last < 4 && length(device) == 1) }' "$folder/grows" ||
  fail "a model did not grow"
"$folder/search" "$folder/text" 40 12 >"$folder/searched"
cat "$folder/searched"
[[ $(grep -c ', 12 candidates: validation loss [0-3][.]' "$folder/searched") == 2 ]] || fail "nothing was found"

# The checkpoint is a Hugging Face model directory, to which layers are added.
"$folder/own_layer" "$checkpoint" "$folder/text" "$folder/adapters" >"$folder/adapted"
cat "$folder/adapted"
awk '/^before:/ { before = $3 } /^after:/ { after = $3 } END { exit !(after > 0 && after < before) }' "$folder/adapted" ||
  fail "adapters did not learn"

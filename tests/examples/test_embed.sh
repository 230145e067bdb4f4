#!/usr/bin/env bash
# Installs the build into a folder of its own, compiles examples/embed.cpp against nothing but that, and runs it.
#   test_embed.sh SOURCE_ROOT BUILD_ROOT PREFIX SANITIZE COMPILER...
set -euo pipefail
source_root=$1 build_root=$2 prefix=$3 sanitize=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

meson install -C "$build_root" --no-rebuild --destdir "$folder" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
installed=$folder$prefix
headers=$(cd "$installed/include" && find . -type f | sort | tr '\n' ' ')
[[ $headers == "$(printf './l2l/%s.h ' choose errors export l2l log model_files options trainer version)" ]] || fail "headers: $headers"
for tool in train plan sample eval export bench; do
  "$installed/bin/l2l-$tool" --help >"$folder/help" || fail "l2l-$tool does not run from $prefix"
done

PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name l2l.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --define-variable=prefix="$installed" --cflags --libs l2l)
[[ $sanitize == none ]] || flags+=("-fsanitize=$sanitize")
"$@" -std=c++20 -Wall -Wextra "$source_root/examples/embed.cpp" -o "$folder/embed" "${flags[@]}"

for _ in {1..200}; do printf 'to be or not to be, that is the question: '; done >"$folder/text"
LD_LIBRARY_PATH=$(dirname "$(find "$installed" -name libl2l.so)")
export LD_LIBRARY_PATH
"$folder/embed" "$folder/text" "$folder/checkpoints" >"$folder/output"
cat "$folder/output"
[[ $(head -1 "$folder/output") == "L2L $(pkg-config --modversion l2l)" ]] || fail "another version"
status=0
"$folder/embed" "$folder/missing" "$folder/checkpoints" 2>"$folder/error" || status=$?
[[ $status == 2 ]] && grep -q missing "$folder/error" || fail "an l2l::BadInput was not caught as one"

grep -q '^[0-9]* parameters, [0-9]* device bytes$' "$folder/output" || fail "no contract"
[[ $(grep -c '^step [0-9]*, loss ' "$folder/output") == 30 ]] || fail "not 30 steps"
# Untrained, every byte is as likely as any other: ln 256 = 5.5 nats. The text repeats itself.
awk '/^step 1,/ { first = $4 } /^step 30,/ { last = $4 } END { exit !(first > 5 && last < 3.2) }' "$folder/output" ||
  fail "the loss did not fall"
grep -q '^the ..' "$folder/output" || fail "nothing generated"
checkpoint=$(sed -n 's/^checkpoint //p' "$folder/output")
[[ -n $checkpoint && -e $checkpoint ]] || fail "no checkpoint"

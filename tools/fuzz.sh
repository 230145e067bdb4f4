#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz, all at once, under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, from their seeds.
#   tools/fuzz.sh [SECONDS OF EACH]      (needs clang with its runtime: Debian's clang and libclang-rt-dev)
# What is found lies in build-fuzz/found; put it into tests/fuzz/seeds when it is mended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-600}
folder=build-fuzz
if [[ ! -f $folder/build.ninja ]]; then
  CC=clang CXX=clang++ meson setup "$folder" -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false \
    -Dcpp_args=-fsanitize=fuzzer-no-link -Dcuda=disabled -Dtests=true -Dfault_points=enabled >/dev/null
fi
mapfile -t archives < <(ninja -C "$folder" -t targets all | sed -n 's,^\([a-z/]*libl2l-[a-z0-9-]*\.a\):.*,\1,p' | grep -v -E '^(tools|tests)/')
ninja -C "$folder" "${archives[@]}" >/dev/null
mkdir -p "$folder/found"
rm -f "$folder/failed"
for source in tests/fuzz/*_fuzz.cpp; do
  name=$(basename "$source" _fuzz.cpp)
  mkdir -p "$folder/corpus-$name"
  # shellcheck disable=SC2046
  clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude "$source" -Wl,--start-group "${archives[@]/#/$folder/}" -Wl,--end-group \
    $(pkg-config --libs libpcre2-8 icu-uc sentencepiece libzstd zlib tbb hwloc libxxhash tomlplusplus 2>/dev/null) -ldnnl -lgomp -ldl -lpthread \
    -o "$folder/fuzz-$name"
  ("$folder/fuzz-$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=16384 -artifact_prefix="$folder/found/$name-" \
    -print_final_stats=1 "$folder/corpus-$name" "tests/fuzz/seeds/$name" \
    >"$folder/$name.log" 2>&1 || touch "$folder/failed") &
done
wait
tail -n 12 "$folder"/*.log
[[ ! -e $folder/failed ]]

#!/usr/bin/env bash
# The reference of the public headers is made without a warning, and has what their comments say; a comment that refers
# to nothing is noticed.
#   test_reference.sh SOURCE_ROOT
set -euo pipefail
command -v doxygen >/dev/null || { echo "no doxygen here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
mkdir "$folder/include"
cp -r "$1/include/l2l" "$folder/include/l2l"
cp -r "$1/docs" "$folder/docs"
cd "$folder"

doxygen docs/Doxyfile || fail "there are warnings"
grep -q 'A window that slides over the height' reference/html/structl2l_1_1Window.html || fail "no comment before a type"
grep -q 'elements of 0 on both sides' reference/html/structl2l_1_1Window.html || fail "no comment behind a member"
! grep -rq 'LayerBuilder::Implementation' reference/html/*.html || fail "what is not public is shown"

printf '// \\ref nothing_there\ninline int documented = 0;\n' >>include/l2l/graph.h
! doxygen docs/Doxyfile 2>"$folder/warnings" || fail "a reference to nothing went unnoticed"
grep -q nothing_there "$folder/warnings" || fail "another warning: $(cat "$folder/warnings")"

#!/bin/sh
# reference.sh SOURCE_DIR - the C API as pages: Doxygen reads the public headers without a warning, and every public function has an entry.
set -eu
cd "$1"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
OUT=$out doxygen tools/doxygen/Doxyfile > "$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
[ ! -s "$out/log" ] || { cat "$out/log" >&2; exit 1; }
awk -f tools/public_functions.awk include/lockstep/*.h | sort -u | while read -r name; do
    grep -qF ">$name</a>" "$out"/html/*.html || { echo "the pages have no entry for $name" >&2; exit 1; }
done

#!/bin/bash
# fuzz.sh FOLDER [SECONDS [WORD]] - runs every libFuzzer program of a build (make build-fuzz) for so many seconds each, from its corpus, in parallel on all cores
# but never two of one kind; with WORD only those with it in their names. What crashes stays in FOLDER/found with the input. Status 1: something was found.
set -u
folder=$1 seconds=${2:-60} word=${3:-} corpus=$(dirname "$(realpath "$0")")/../tests/fuzz/corpus
found=$(realpath "$folder")/found work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-fuzz-XXXXXX")
trap 'rm -rf "$work"' EXIT
one() { # PROGRAM
    local name=${1##*/fuzz_}
    mkdir -p "$work/$name" "$found"
    if "$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$found/$name-" "$work/$name" "$corpus/$name" >"$work/$name.log" 2>&1; then
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log") inputs in $seconds s, nothing found"
    else
        cp "$work/$name.log" "$found/"
        echo "$name: FOUND, see $found/$name.log"
    fi
}
export -f one; export seconds corpus found work
programs=$(find "$folder/tests/fuzz" -maxdepth 1 -type f -executable -name "fuzz_*$word*" | sort)
[ -n "$programs" ] || { echo "fuzz.sh: no fuzz programs in $folder/tests/fuzz: make build-fuzz" >&2; exit 2; }
echo "$programs" | xargs -P "$(nproc)" -I {} bash -c 'one {}' | tee "$work/result"
rmdir "$found" 2>/dev/null
! grep -q FOUND "$work/result"

#!/bin/bash
# figures.sh SOURCE_DIR COMMAND - what pages show of `lockstep plan`, `explain` and `inspect` is what the command prints: each block that begins with
# "$ lockstep ..." is run, and every line of it must be a line of the output. White space counts as one space, "..." as any text; a line of "..." alone is none.
# Memory of a plan depends on the instruction set and on the number of threads: the pages' figures are those of level avx2 on one thread.
set -eu
grep -qw avx2 /proc/cpuinfo || { echo "skipped: figures of plans: they are those of level avx2"; exit 77; }
source=$1 command=$2 status=0
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-figures-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export LOCKSTEP_CACHE=$work/cache LOCKSTEP_ISA=avx2 NO_COLOR=1
lockstep() { "$command" "$@"; }
for page in "$source"/README.md "$source"/docs/*.md "$source"/docs/*/*.md; do
    rm -f block-*
    awk '/^```/ { if (open) { close(file); open = 0 } else { open = 1; first = 1 } next }
         open && first && /^\$ lockstep (plan|explain|inspect)/ { file = sprintf("block-%06d", FNR); taken = 1; print substr($0, 3) >file; first = 0; next }
         open && first { first = 0; taken = 0 }
         open && taken { print >file }' "$page"
    for block in block-*; do
        [ -f "$block" ] || continue
        rm -f words lines; touch lines
        grep -q 'lockstep [a-z]* RECIPE' "$block" && continue # of any recipe: a pattern
        line=$((10#${block#block-})) shown=${page#"$source"/}
        awk 'more || NR == 1 { more = sub(/\\$/, ""); printf "%s ", $0 >"words"; next } { print >"lines" }' "$block"
        if ! eval "$(cat words) --set threads=1" >out 2>err; then
            echo "$shown:$line: the command fails: $(head -n 1 err)"; status=1; continue
        fi
        cat err >>out
        awk -v where="$shown:$line" '
            function plain(s) { gsub(/[ \t]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }
            function matches(text, pattern,   part, n, i, at) { # "..." is any text
                n = split(pattern, part, / ?\.\.\. ?/)
                if (n == 1) return text == pattern
                if (index(text, part[1]) != 1) return 0
                text = substr(text, length(part[1]) + 1)
                for (i = 2; i <= n; i++) {
                    if (part[i] == "") continue
                    if (!(at = index(text, part[i]))) return 0
                    text = substr(text, at + length(part[i]))
                }
                return part[n] == "" || text == ""
            }
            FNR == NR { got[n++] = plain($0); next }
            { want = plain($0); if (want == "" || want == "...") next
              for (i = 0; i < n && !matches(got[i], want); i++) {}
              if (i == n) { print where ": the command does not print: " want; bad = 1 } }
            END { exit bad }' out lines || status=1
    done
done
exit $status

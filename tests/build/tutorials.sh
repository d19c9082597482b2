#!/bin/sh
# tutorials.sh SOURCE_DIR - the commands of each page in docs/tutorials are those of the script of its name in tests/cli/tutorials: every line of the page's blocks
# of commands is a line of the script, in the same order. Indentation and comments do not count; blocks of another language (```c, ```yaml) are none of commands.
set -eu
cd "$1"
status=0
for page in docs/tutorials/*.md; do
    script=tests/cli/tutorials/$(basename "$page" .md).sh
    [ -f "$script" ] || { echo "$page has no $script"; status=1; continue; }
    awk -v page="$page" '
    function bare(line) { sub(/^[ \t]+/, "", line); sub(/^#.*/, "", line); sub(/[ \t]+#[ \t].*$/, "", line); sub(/[ \t]+$/, "", line); return line }
    FNR == NR { if (bare($0) != "") script[n++] = bare($0); next }
    /^```/ { fence = fence ? 0 : $0 ~ /^```(sh|bash)?$/ ? 1 : 2; next }
    fence == 1 || (!fence && /^    /) {
        line = bare($0)
        if (line == "") next
        commands++
        for (i = at; i < n && script[i] != line; i++) {}
        if (i == n) { print page ":" FNR ": not in the script, or not in this order: " line; failed = 1 } else at = i + 1
    }
    END { if (!commands) { print page ": no commands"; failed = 1 } exit failed }' "$script" "$page" || status=1
done
for script in tests/cli/tutorials/*-*.sh; do
    [ -f "docs/tutorials/$(basename "$script" .sh).md" ] || { echo "$script has no page"; status=1; }
done
exit $status

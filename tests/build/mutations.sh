#!/bin/sh
# Every entry of tools/mutations.txt still applies, and tools/mutate --check finds one that does not.
# Usage: mutations.sh SOURCE_DIR
set -eu
"$1/tools/mutate" --check
root=$1 list=$(mktemp)
trap 'rm -f "$list"' EXIT
check() { # STATUS FILE TEXT
    printf '# an entry\nfile: %s\nfind: %s\nwith:\ntest: ^base\n' "$2" "$3" > "$list"
    status=0
    "$root/tools/mutate" --check --list "$list" > /dev/null || status=$?
    [ $status -eq "$1" ] || { echo "$3 in $2: status $status instead of $1" >&2; exit 1; }
}
check 0 tools/mutations.txt '# mutations.txt - small mistakes'
check 1 tools/mutations.txt 'file: src/' # more than once
check 1 src/base/str.c 'this text is not there'
check 1 src/base/nowhere.c 'int'

#!/bin/sh
# tools/check_circles finds circles of files and names what closes them, and accepts the circles that are listed.
# Usage: circles.sh SOURCE_DIR CC
set -eu
checker=$1/tools/check_circles cc=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
objects=$root/build/part.dir/src/base
mkdir -p "$root/src/base" "$root/tools" "$objects"

file() { # NAME, FUNCTIONS IT USES...: src/base/NAME.c with the function NAME
    name=$1; shift
    source=$root/src/base/$name.c
    for used in "$@"; do echo "int $used(void);"; done > "$source"
    printf 'int %s(void) { return 0' "$name" >> "$source"
    for used in "$@"; do printf ' + %s()' "$used"; done >> "$source"
    echo '; }' >> "$source"
    "$cc" -c "$source" -o "$objects/$name.c.o"
}
found() { # STATUS TEXT: the check ends with this status and prints this text
    status=0
    output=$("$checker" "$root/build" "$root") || status=$?
    case "$status $output" in
        "$1 "*"$2"*) ;;
        *) printf 'expected status %s and "%s", got status %s:\n%s\n' "$1" "$2" "$status" "$output" >&2; exit 1 ;;
    esac
}
file a b
file b c d
file c
file d c
found 0 ''
file d a
found 1 'circle: src/base/a.c src/base/b.c src/base/d.c'
found 1 'src/base/d.c uses a of src/base/a.c'
echo 'base/a.c base/b.c base/d.c: for this test' > "$root/tools/circles.txt"
found 0 ''
file c b # the accepted circle grows
found 1 'circle: src/base/a.c src/base/b.c src/base/c.c src/base/d.c'
file c
file d
found 1 'not a circle any more: base/a.c base/b.c base/d.c'
rm "$root/tools/circles.txt"
file d a
rm "$root/src/base/d.c" # its object is left over
found 0 ''

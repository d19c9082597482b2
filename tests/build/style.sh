#!/bin/sh
# tools/check_style finds tables and examples in comments that were wrapped as text, static functions of many files that have
# the same name, and types of two files that have; it accepts what is right. Usage: style.sh SOURCE_DIR
set -eu
checker=$1/tools/check_style
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for folder in src include bindings tests bench examples; do mkdir "$root/$folder"; done
echo '# A page' >"$root/page.md"

table='/* loops.h - a table, and text with "two  spaces"
 * in quotes:
 *
 *     b..      with another letter than r
 *              (a second line)
 *     f!       is never split
 *
 * Text. */
int a;  /* a field  */
'
printf '%s' "$table" >"$root/src/loops.h"
"$checker" "$root" || { echo "a table is refused" >&2; exit 1; }

found() { # TEXT: what check_style says begins so
    said=$("$checker" "$root") && { echo "not found: $1" >&2; exit 1; }
    case $said in
    "$1"*) ;;
    *) echo "not '$1': $said" >&2; exit 1 ;;
    esac
}
printf '%s' "$table" | sed 's/^ \*     f!/ * is never f!/' >"$root/src/loops.h"
found "src/loops.h:6: a row of a table in a comment is indented"
printf '/* Opens it. Local. ls_open(&set, "x.npy") Errors: none. */\nint a;\n' >"$root/src/loops.h"
found "src/loops.h:1: an example in a comment is indented"
printf '/* Opens it:\n *\n *     ls_open(&set, "x.npy")\n */\nint a;\n' >"$root/src/loops.h"

for file in a b c d e; do echo "static int run(int x) { return x; }" >"$root/src/$file.c"; done
"$checker" "$root" || { echo "five files with one name are refused" >&2; exit 1; }
cp "$root/src/a.c" "$root/src/f.c"
found "static run() is in 6 files: begin it with what the file is about: src/a.c src/b.c"
rm "$root"/src/?.c

for file in a b; do printf 'typedef struct ls_job {\n    int n;\n} ls_%s;\n' $file >"$root/src/$file.h"; done
found "type ls_job is defined in 2 files: give one of them another name: src/a.h src/b.h"
printf 'struct ls_job;\ntypedef struct ls_job ls_b;\n' >"$root/src/b.h"
"$checker" "$root" || { echo "a type that is only declared in a second file is refused" >&2; exit 1; }
rm "$root"/src/?.h

# clang-format leaves a table alone, however wide it is
command -v clang-format >/dev/null || { echo "skipped: style.sh: no clang-format here (Debian: clang-format)"; exit 77; }
cp "$1/.clang-format" "$root"
cat >"$root/src/wide.h" <<'END'
/* wide.h - a table whose first row is too long, so that a formatter that takes it for text joins the rows:
 *
 *     r..      any number of dimensions, each with a loop of its own; row-wise: all of them together may also be one
 *              (a second line)
 *     b..      with another letter than r
 *   (1)  after the wait for a later collective on the same axis, if that collective is not settled and was started
 *   (2)  when the fence returns
 * This text is too long, and it is wrapped: the formatter has to find it as text although it stands behind a table. */
END
clang-format "$root/src/wide.h" >"$root/wide.h"
head -n 7 "$root/src/wide.h" >"$root/before"
head -n 7 "$root/wide.h" >"$root/after"
cmp "$root/before" "$root/after" || { echo "clang-format wrapped a table:" >&2; cat "$root/wide.h" >&2; exit 1; }
[ "$(wc -l <"$root/wide.h")" -eq 9 ] || { echo "clang-format did not wrap text" >&2; exit 1; }

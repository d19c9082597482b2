#!/bin/sh
# Every macro of the public headers compiles in C++17 and C++20, and those with options in C17, without a warning; macros.cc names each.
# functions.cc, which needs no macro, is strict C++17 and C++20. Each compiler that is there tries: g++ and clang++, gcc and clang.
# Usage: macros.sh CC CXX ROOT
set -eu
cc=$1 cxx=$2 root=$3
here=$root/tests/build
status=0
fails() { echo "$1" >&2; status=1; }
there() { for name in "$@"; do ! command -v "$name" > /dev/null || echo "$name"; done | sort -u; }

compilers=$(there "$cxx" g++ clang++)
for compiler in $compilers; do
    for standard in c++17 c++20; do
        try() { "$compiler" -std=$standard -Wall -Wextra "$@" -Werror -I"$root/include" -fsyntax-only; }
        try -Wno-missing-field-initializers "$here/macros.cc" || fails "macros.cc does not compile as $standard with $compiler"
        try -pedantic "$here/functions.cc" || fails "functions.cc does not compile as $standard with $compiler"
        all=$(cd "$root/include" && printf '#include "%s"\n' lockstep/*.h) # (tools/check_headers has them one by one)
        echo "$all" | try -pedantic -DLS_WARN_IN_HEADERS -x c++ - || fails "the headers do not compile as $standard with $compiler"
    done
done
compilers=$(there "$cc" gcc clang)
for compiler in $compilers; do
    "$compiler" -std=c17 -Wall -Wextra -pedantic -Werror -I"$root/include" -fsyntax-only "$here/macros.c" || fails "macros.c does not compile as C17 with $compiler"
done
# the others are parts of these
for name in $(sed -n 's/^#define \([A-Za-z_0-9]*\).*/\1/p' "$root"/include/lockstep/*.h | sort -u | grep -vE '^LS_(LIST|QUIETLY|SCOPE_JOIN|SCOPE_NAME)$'); do
    grep -qw "$name" "$here/macros.cc" || fails "macros.cc does not use $name"
done
for name in $(sed -n 's/^LS_API .*\b\(ls_[a-z0-9_]*_default\)(void);/\1/p' "$root"/include/lockstep/*.h); do
    grep -qw "$name" "$here/macros.cc" || fails "macros.cc does not use $name"
done
for name in $(sed -n 's/^LS_API .*\b\(ls_[a-z0-9_]*_with\)(.*/\1/p' "$root"/include/lockstep/*.h); do
    grep -qw "$name" "$here/functions.cc" "$here/macros.cc" || fails "functions.cc does not call $name with NULL"
done
[ $status = 0 ] || exit $status
for compiler in g++ clang++ gcc clang; do
    command -v $compiler > /dev/null || { echo "skipped: macros.sh: no $compiler here (Debian: build-essential, clang)"; status=77; }
done
exit $status

#!/bin/sh
# Every macro of the public headers compiles in C++17 and C++20, and those with options in C17, without a warning under -Wall -Wextra -pedantic; macros.cc names each.
# Usage: macros.sh CC CXX ROOT
set -eu
cc=$1 cxx=$2 root=$3
here=$root/tests/build
status=0
for standard in c++17 c++20; do
    "$cxx" -std=$standard -Wall -Wextra -Wno-missing-field-initializers -Werror -I"$root/include" -fsyntax-only "$here/macros.cc" || { echo "macros.cc does not compile as $standard" >&2; status=1; }
done
"$cc" -std=c17 -Wall -Wextra -pedantic -Werror -I"$root/include" -fsyntax-only "$here/macros.c" || { echo "macros.c does not compile as C17" >&2; status=1; }
# the others are parts of these
for name in $(sed -n 's/^#define \([A-Za-z_0-9]*\).*/\1/p' "$root"/include/lockstep/*.h | sort -u | grep -vE '^LS_(LIST|QUIETLY|SCOPE_JOIN|SCOPE_NAME)$'); do
    grep -qw "$name" "$here/macros.cc" || { echo "macros.cc does not use $name" >&2; status=1; }
done
for name in $(sed -n 's/^LS_API .*\b\(ls_[a-z0-9_]*_default\)(void);/\1/p' "$root"/include/lockstep/*.h); do
    grep -qw "$name" "$here/macros.cc" || { echo "macros.cc does not use $name" >&2; status=1; }
done
exit $status

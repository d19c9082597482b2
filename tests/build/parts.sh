#!/bin/sh
# parts.sh SOURCE_DIR CC - the optional parts: what is missing is named with its package when CMake configures, without cmocka the suite is an error, and
# what was installed since is found by the next configuring of the same folder. Compilers of Fortran and some libraries are hidden by a PATH and a
# pkg-config path of links to all others.
set -eu
source=$1 cc=$(command -v "$2") # (another path of the compiler would empty the cache)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fails() { echo "parts.sh: $1"; cat "$root/log" "$root/build/generated/parts.txt"; exit 1; }

mkdir "$root/bin" "$root/pc"
for folder in $(echo "$PATH" | tr : ' '); do
    for program in "$folder"/*; do
        case ${program##*/} in *fortran* | f77 | f95) ;; *) [ -e "$root/bin/${program##*/}" ] || ln -s "$program" "$root/bin/" 2> /dev/null || true ;; esac
    done
done
for folder in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
    for file in "$folder"/*.pc; do
        case ${file##*/} in cmocka* | hdf5* | hwloc*) ;; *) [ ! -e "$file" ] || ln -sf "$file" "$root/pc/" ;; esac
    done
done
configure() { cmake -G Ninja -S "$source" -B "$root/build" -DCMAKE_C_COMPILER="$cc" -DLS_LEVELS=generic "$@" > "$root/log" 2>&1; }
hidden() { PATH=$root/bin PKG_CONFIG_LIBDIR=$root/pc "$@"; }
is() { grep -qE "$1" "$root/build/generated/parts.txt" || fails "$1 is not in the list"; }

! hidden configure -DLS_TESTS=ON || fails "without cmocka the suite must be an error"
grep -q 'the test suite needs cmocka.*libcmocka-dev' "$root/log" || fails "the package of cmocka is not named"
hidden configure -DLS_TESTS=auto || fails "without the optional parts it does not configure"
for package in fortran:gfortran hdf5:libhdf5-dev hwloc:libhwloc-dev suite:libcmocka-dev; do
    is "^left out: ${package%%:*} \(.*\): install ${package#*:}"
done
configure -DLS_TESTS=auto || fails "with all parts it does not configure"
! command -v gfortran > /dev/null || is "^optional parts:.* fortran( |$)"
for part in suite:cmocka hdf5:hdf5 hwloc:hwloc; do
    ! pkg-config --exists "${part#*:}" || is "^optional parts:.* ${part%%:*}( |$)"
done

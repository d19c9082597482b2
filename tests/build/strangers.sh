#!/bin/sh
# Programs of people who have an installed copy alone: with its headers, its module and pkg-config, the regression program in C, C++,
# Fortran and Python compiles without a warning, runs, prints the same numbers and saves the same weights.
# Usage: strangers.sh BUILD_DIR CC [CXX] [FC] [PYTHON]  ("": there is none, and the test ends as skipped; PYTHON has numpy)
set -eu
build=$1 cc=$2 cxx=${3:-} fc=${4:-} python=${5:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset DESTDIR
cmake --install "$build" --prefix "$root/prefix" > "$root/log" || { cat "$root/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$root/prefix" -name lockstep.pc)")
export PKG_CONFIG_PATH
examples=$root/prefix/share/doc/lockstep/examples
cd "$root"

same() { # PROGRAM: runs it and compares it with the first one
    ./"$1" "$1.safetensors" > "$1.txt" || { echo "$1 failed" >&2; cat "$1.txt"; exit 1; }
    [ -f first.txt ] || { cp "$1.txt" first.txt; cp "$1.safetensors" first.safetensors; }
    diff first.txt "$1.txt" >&2 || { echo "$1 prints other numbers (>) than the program in C (<)" >&2; exit 1; }
    cmp first.safetensors "$1.safetensors" || { echo "$1 saves other weights than the program in C" >&2; exit 1; }
}
# shellcheck disable=SC2046 # flags are words
{
    "$cc" -std=c17 -Wall -Wextra -pedantic -Werror "$examples/regression.c" $(pkg-config --cflags --libs lockstep) -o in_c
    same in_c
    for standard in c++17 c++20; do
        [ -n "$cxx" ] || continue
        "$cxx" -std=$standard -Wall -Wextra -pedantic -Werror "$examples/regression.cc" $(pkg-config --cflags --libs lockstep) -o in_$standard
        same in_$standard
    done
    if [ -n "$fc" ]; then
        "$fc" -std=f2018 -O2 -Wall -Wextra -pedantic -Werror "$examples/regression.f90" $(pkg-config --cflags --libs lockstep-fortran) -o in_fortran
        same in_fortran
    fi
}
if [ -n "$python" ]; then
    printf '#!/bin/sh\nexec "%s" "%s/regression.py" "$@"\n' "$python" "$examples" > in_python
    chmod +x in_python
    library=$(find "$root/prefix" -name liblockstep.so)
    export PYTHONPATH="$root/prefix/share/lockstep/bindings/python" LOCKSTEP_LIBRARY="$library" PYTHONDONTWRITEBYTECODE=1
    same in_python
fi
# 1,000 samples in steps of 64, of which the last has 40: the loss falls below a thousandth of the variance.
grep -q '^epoch 40  loss 0\.000' first.txt || { echo "the loss does not fall" >&2; cat first.txt; exit 1; }
"$root/prefix/bin/lockstep" inspect first.safetensors | grep -q '226 *elements in 4 tensors' || { "$root/prefix/bin/lockstep" inspect first.safetensors; exit 1; }
[ -n "$cxx" ] || { echo "skipped: strangers.sh: no C++ compiler here (Debian: build-essential)"; exit 77; }
[ -n "$python" ] || { echo "skipped: strangers.sh: no Python with numpy here (Debian: python3-numpy)"; exit 77; }
[ -n "$fc" ] || { echo "skipped: strangers.sh: no Fortran compiler here (Debian: gfortran)"; exit 77; }

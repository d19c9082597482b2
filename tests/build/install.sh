#!/bin/sh
# Installs into a fresh prefix and builds a program against it the two ways that people do: pkg-config and find_package(lockstep).
# And a C++ program with a run of its own. Usage: install.sh SOURCE_DIR BUILD_DIR CC [CXX] [FC]
set -eu
source=$1 build=$2 cc=$3 cxx=${4:-} fc=${5:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset DESTDIR
if grep -q '^LS_DEV:BOOL=ON' "$build/CMakeCache.txt"; then # it says that it installs nothing
    ! cmake --install "$build" --prefix "$root/prefix" > "$root/log" 2>&1 || { echo "a build for debugging was installed" >&2; exit 1; }
    grep -q 'this build is for debugging' "$root/log" || { cat "$root/log"; exit 1; }
    exit 0
fi
cmake --install "$build" --prefix "$root/prefix" > "$root/log" || { cat "$root/log"; exit 1; }

cat > "$root/main.c" << 'END'
#include <lockstep/types.h>
#include <stdio.h>
int main(void) {
    ls_type t = LS_TYPE(LS_F32, 64, 17, 128);
    printf("%lld elements, %s\n", (long long)ls_type_count(&t), ls_status_name(ls_fail(LS_E_SHAPE, "x")));
    return 0;
}
END
expected="139264 elements, shapes do not fit"

pc=$(find "$root/prefix" -name lockstep.pc)
lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")"
# shellcheck disable=SC2046 # flags are words
"$cc" "$root/main.c" -o "$root/by_pkg_config" $(pkg-config --cflags --libs lockstep)
[ "$("$root/by_pkg_config")" = "$expected" ] || { echo "the program of the documented line does not start" >&2; exit 1; }
readelf -d "$root/by_pkg_config" | grep -q 'NEEDED.*\[liblockstep\.so\.0\.1\]' || { echo "the program does not ask for the soname" >&2; exit 1; }

cat > "$root/run.cpp" << 'END'
#include <lockstep/lockstep.h>
#include <cstdio>
#include <string>
int main(int, char **argv) {
    double field[3] = { 1, 2, 3 };
    ls_shard shard = {};
    shard.name = "field", shard.count = 3, shard.data = field;
    shard.type.dtype = LS_F64, shard.type.ndim = 1, shard.type.dims[0] = 3;
    ls_run_contents contents = {};
    contents.shards = &shard, contents.n = 1, contents.text = "from C++";
    ls_run_opts options = {};
    options.config = "", options.keep = 1;
    const ls_metric loss = { "loss", 0.5 };
    const ls_report_opts next = { -1, -1, nullptr };
    ls_run *run = nullptr;
    ls_result *result = nullptr;
    ls_status s = ls_run_open_with(&run, argv[1], "cpp", nullptr, &options);
    if (s == LS_OK)
        s = ls_run_finish(&run, ls_report_with(run, &loss, 1, &contents, &next), &result);
    if (s != LS_OK)
        return std::puts(ls_error_message()), 1;
    std::printf("%s %g\n", std::string(result->state).c_str(), result->latest->metrics[0].value);
    ls_result_free(&result);
}
END
if [ -n "$cxx" ]; then
    # shellcheck disable=SC2046 # flags are words
    "$cxx" -std=c++11 -Wall -Wextra "$root/run.cpp" -o "$root/run" $(pkg-config --cflags --libs lockstep)
    [ "$("$root/run" "$root/runs")" = "finished 0.5" ] || { echo "a C++ program has no run" >&2; exit 1; }
fi

# An installed example, as the page has it; pages are there, too.
"$cc" "$root/prefix/share/doc/lockstep/examples/own_model.c" -o "$root/own_model" $(pkg-config --cflags --libs lockstep)
[ -f "$root/prefix/share/doc/lockstep/docs/library.md" ]

# Programs with -Wextra and -pedantic, and C++; headers and library are of one version.
"$cc" -std=gnu17 -Wall -Wextra -pedantic -Werror "$source/tests/build/macros.c" -o "$root/program" $(pkg-config --cflags --libs lockstep)
[ "$("$root/program")" = "0.1.0 0.1.0" ]
if [ -n "$cxx" ]; then
    "$cxx" -std=c++17 "$source/tests/build/macros.cc" -o "$root/program" $(pkg-config --cflags --libs lockstep)
    [ "$("$root/program")" = "0.1.0 0.1.0 3 24 1" ] || { echo "macros.cc: $("$root/program")" >&2; exit 1; }
    "$cxx" -std=c++17 -Wall -Wextra -pedantic -Werror "$source/tests/build/functions.cc" -o "$root/program" $(pkg-config --cflags --libs lockstep)
    [ "$("$root/program")" = "trained" ] || { echo "functions.cc: $("$root/program")" >&2; exit 1; }
fi

# The static library: --static names what it needs. (Builds for debugging have none.)
if [ -f "$lib/liblockstep.a" ]; then
    "$cc" "$root/main.c" -o "$root/static" $(pkg-config --static --cflags --libs lockstep | sed 's/-llockstep/-l:liblockstep.a/')
    [ "$("$root/static")" = "$expected" ]
    "$cc" "$root/prefix/share/doc/lockstep/examples/own_model.c" -o "$root/own_static" $(pkg-config --static --cflags --libs lockstep | sed 's/-llockstep/-l:liblockstep.a/')
    ! readelf -d "$root/static" | grep -q 'NEEDED.*liblockstep' || { echo "the static program asks for the shared library" >&2; exit 1; }
fi

mkdir "$root/project"
cat > "$root/project/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.24)
project(user C)
find_package(lockstep 0.1 REQUIRED)
add_executable(user ../main.c)
target_link_libraries(user lockstep::lockstep)
END
cmake -S "$root/project" -B "$root/out" -DCMAKE_PREFIX_PATH="$root/prefix" -DCMAKE_C_COMPILER="$cc" > "$root/log" 2>&1 &&
    cmake --build "$root/out" >> "$root/log" 2>&1 || { cat "$root/log"; exit 1; }
[ "$("$root/out/user")" = "$expected" ]

if [ -n "$fc" ]; then
    cat > "$root/project/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.24)
project(user C Fortran)
find_package(lockstep 0.1 REQUIRED)
add_executable(user regression.f90)
target_link_libraries(user lockstep::fortran)
END
    cp "$source/examples/regression.f90" "$root/project"
    cmake -S "$root/project" -B "$root/fortran" -DCMAKE_PREFIX_PATH="$root/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_Fortran_COMPILER="$fc" > "$root/log" 2>&1 &&
        cmake --build "$root/fortran" >> "$root/log" 2>&1 || { cat "$root/log"; exit 1; }
    (cd "$root" && fortran/user | grep -q '^epoch 40') || { echo "the program in Fortran does not run" >&2; exit 1; }
fi

# Paths are written as people write them; `module load` names folders that are there.
for name in lockstep ${fc:+lockstep-fortran}; do
    ! pkg-config --cflags --libs "$name" | grep -F '..' || { echo "$name.pc has a path with .." >&2; exit 1; }
done
for folder in $(sed -n 's/^prepend-path [A-Z_]* //p' "$root/prefix/share/modulefiles/lockstep/0.1.0"); do
    case $folder in "$root/prefix"*) ;; *) echo "the module file names $folder" >&2; exit 1 ;; esac
    [ -d "$folder" ] || { echo "the module file names $folder, which is not there" >&2; exit 1; }
done

# What it exports is what the headers declare.
awk -f "$source/tools/public_functions.awk" "$root"/prefix/include/lockstep/*.h | sort > "$root/declared"
nm -D --defined-only "$lib/liblockstep.so" | awk '$2 != "A" { print $3 }' | grep -vE '^_(init|fini)$' | sort > "$root/exported"
sed 's/$/@@LOCKSTEP_0.1/' "$root/declared" | diff - "$root/exported" || { echo "what liblockstep.so exports (>) is not what its headers declare (<)" >&2; exit 1; }
# A program that asks for another interface does not start (docs/abi.md).
sed 's/LOCKSTEP_0[.]1/LOCKSTEP_9.8/' "$root/by_pkg_config" > "$root/other_version"
chmod +x "$root/other_version"
if "$root/other_version" > "$root/log" 2>&1; then echo "a program of another interface starts" >&2; exit 1; fi
grep -q "LOCKSTEP_9.8' not found" "$root/log" || { cat "$root/log" >&2; exit 1; }

# Large libraries are opened when they are needed: everything else works without them, and a message says which one is missing.
command=$root/prefix/bin/lockstep
! readelf -d "$lib/liblockstep.so" "$command" | grep -E 'NEEDED.*curl' || { echo "liblockstep.so is linked with libcurl" >&2; exit 1; }
mkdir "$root/damaged" "$root/cache"
for name in libcurl.so.4 libcurl-gnutls.so.4; do : > "$root/damaged/$name"; done
without() { LD_LIBRARY_PATH=$root/damaged XDG_CACHE_HOME=$root/cache LOCKSTEP_DATA= "$command" "$@"; }
without plan mlp-mnist > /dev/null
if (cd "$root" && without train mlp-mnist --set data.fallback=false --set data.mirror="file://$root") > "$root/log" 2>&1; then exit 1; fi
grep -qE 'needs libcurl.*libcurl.so|this build has no libcurl' "$root/log" || { cat "$root/log" >&2; exit 1; }

# A model of one's own, with the installed headers and command; linked with the library all the same it works, too. A copy of the library inside is refused.
cd "$root"
"$command" new mine > /dev/null
cd mine
make -s CC="$cc"
"$command" train recipe.yaml -q --no-progress > "$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }
"$command" predict recipe.yaml --out y.csv -q
[ "$(wc -l < y.csv)" -eq 514 ] || { echo "a model of one's own predicts $(wc -l < y.csv) lines" >&2; exit 1; }
"$cc" -shared -fPIC model.c -o model.so $(pkg-config --cflags --libs lockstep) -lm
"$command" plan recipe.yaml > "$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }
if [ -f "$lib/liblockstep.a" ]; then
    "$cc" -shared -fPIC -Wl,-Bsymbolic model.c -o model.so $(pkg-config --static --cflags --libs lockstep | sed 's/-llockstep/-l:liblockstep.a/') -lm
    if "$command" plan recipe.yaml > "$root/log" 2>&1; then echo "a module brings a second library" >&2; exit 1; fi
    grep -q 'has a copy of the library of its own' "$root/log" || { cat "$root/log" >&2; exit 1; }
fi
cd "$source"

# The library shows ls_ names only, and the command, its page and its completion are there.
nm -D --defined-only "$lib/liblockstep.so" | awk '$2 != "A" && $3 !~ /^ls_/ && $3 !~ /^_(init|fini)$/ { print "not ours: " $3; bad = 1 } END { exit bad }'
"$root/prefix/bin/lockstep" --version | grep -q '0\.1\.0'
for page in lockstep lockstep-train; do
    man -l "$root/prefix/share/man/man1/$page.1" > /dev/null 2>&1 || ! command -v man > /dev/null
done
[ -f "$root/prefix/share/zsh/site-functions/_lockstep" ]
[ -f "$root/prefix/share/fish/vendor_completions.d/lockstep.fish" ]
bash -c '. "$1" && complete -p lockstep' - "$root/prefix/share/bash-completion/completions/lockstep" > /dev/null
[ -n "$cxx" ] || { echo "skipped: install.sh: no C++ compiler here (Debian: build-essential)"; exit 77; }

#!/bin/sh
# make test: installs the packages that are missing, then the release build and its whole suite. A test that cannot run here counts as skipped.
# make test-all (test.sh all): first dev, asan and tsan, without the slow tests (label release). The three have the same
# assertions and guard pages, so dev runs only the tests of the command, which the sanitizers leave out. Release then leaves these out, but for the tutorials.
# Before the last, ARM's tests that are quick under qemu (tools/aarch64.sh); ONE=aarch64 make test runs all of them.
# Many tests wait for ranks and hosts, so the builds are made meanwhile, one after the other, with what the tests leave of the machine
# (build-ahead/PRESET.log says how far each is).
# It stops at the first build that fails. ONE=asan make test runs one of the builds.
set -eu
cd "$(dirname "$0")/.."
of_command='^(cli|tutorial|build|examples|fortran)[.]' # its tests

# Compiles what the tests of a preset need; of aarch64, also runs its tests, which only compute.
build() {
    target= # dev builds what its tests need
    [ "${ONE:-all} $1" != "all dev" ] || target=ls_command_tests
    if [ "$1" = aarch64 ]; then
        # shellcheck disable=SC2046 # a word, or none
        tools/aarch64.sh $([ -n "${ONE-}" ] || echo brief)
    else
        make --no-print-directory "build-$1" TESTS=ON TARGET=$target
    fi
}

# test.sh ahead PRESETS: builds them; build-ahead/PRESET.log is what was printed, and PRESET.status, written last, the exit status
if [ "${1-}" = ahead ]; then
    shift
    for preset; do
        status=0
        (build "$preset") > "build-ahead/$preset.log" 2>&1 || status=$?
        echo $status > build-ahead/status
        mv build-ahead/status "build-ahead/$preset.status"
        [ $status = 0 ] || [ $status = 77 ] || exit 1
    done
    exit
fi

case ${1:-} in
    all) presets="dev asan tsan aarch64 release" ;;
    *) presets=release ;;
esac
presets=${ONE:-$presets}
jobs=${JOBS:-$(($(nproc) + 2))} # more than cores: many tests wait
tools/deps.sh test
rm -rf build-ahead
if [ "${presets#* }" != "$presets" ]; then # several
    mkdir build-ahead
    # shellcheck disable=SC2086 # a list
    setsid nice -n 19 tools/test.sh ahead $presets < /dev/null & # a group of processes of its own, so that all of it can be ended
    builder=$!
    trap 'kill -- -$builder 2> /dev/null || true' EXIT
    trap 'exit 130' HUP INT TERM
fi

# Waits until `preset` is built, and prints what its build printed.
await_build() {
    while [ ! -e "build-ahead/$preset.status" ]; do
        sleep 1
        kill -0 "$builder" 2> /dev/null || [ -e "build-ahead/$preset.status" ] || { echo "test.sh: the build was killed: see build-ahead" >&2; return 1; }
    done
    cat "build-ahead/$preset.log"
    return "$(cat "build-ahead/$preset.status")"
}
for preset in $presets; do
    echo "== $preset"
    status=0
    if [ -n "${builder-}" ]; then await_build || status=$?; else build "$preset" || status=$?; fi
    [ "$preset $status" != "aarch64 77" ] || status=0 # skipped
    [ $status = 0 ] || exit $status
    case "${ONE:-all} $preset" in
        *" aarch64") continue ;;
        "all dev") ctest --preset dev --no-tests=error --parallel "$jobs" --tests-regex "$of_command" ;;
        "all release")
            in_dev=
            [ "${1-}" != all ] || in_dev=$(ctest --test-dir build-dev --show-only --label-exclude release --tests-regex "$of_command" --exclude-regex '^tutorial' |
                sed -n 's/^ *Test *#[0-9]*: //p' | tr '\n' '|')
            ctest --preset release --no-tests=error --parallel "$jobs" --exclude-regex "^(${in_dev}none)\$" ;;
        *) ctest --preset "$preset" --no-tests=error --parallel "$jobs" ;;
    esac
    folder=build
    [ "$preset" = release ] || folder=build-$preset
    sed -n 's/^skipped: /  /p' $folder/Testing/Temporary/LastTest.log | sort -u > $folder/skipped.txt
    [ ! -s $folder/skipped.txt ] || { echo "Why tests were skipped:"; cat $folder/skipped.txt; }
done

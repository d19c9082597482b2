#!/bin/sh
# make test: installs the packages that are missing, then the release build and its whole suite. A test that cannot run here counts as skipped.
# make test-all (test.sh all): first dev, asan and tsan, without the slow tests (label release). The three have the same
# assertions and guard pages, so dev runs only the tests of the command, which the sanitizers leave out. Release then leaves these out, but for the tutorials.
# Before the last, ARM's tests that are quick under qemu (tools/aarch64.sh); ONE=aarch64 make test runs all of them.
# It stops at the first build that fails. ONE=asan make test runs one of the builds.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(($(nproc) + 1))} # one more than cores: many tests wait for ranks and hosts

case ${1:-} in
    all) presets="dev asan tsan aarch64 release" ;;
    *) presets=release ;;
esac
tools/deps.sh test
of_command='^(cli|tutorial|build|examples|fortran)[.]' # its tests
for preset in ${ONE:-$presets}; do
    echo "== $preset"
    if [ "$preset" = aarch64 ]; then
        status=0
        # shellcheck disable=SC2046 # a word, or none
        tools/aarch64.sh $([ -n "${ONE-}" ] || echo brief) || status=$?
        [ $status = 0 ] || [ $status = 77 ] || exit $status
        continue
    fi
    target= # dev builds what its tests need
    [ "${ONE:-all} $preset" != "all dev" ] || target=ls_command_tests
    make --no-print-directory "build-$preset" TESTS=ON TARGET=$target
    case "${ONE:-all} $preset" in
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

#!/bin/sh
# make test: the release build and its whole suite. make test-all (test.sh all): before it the suite under the sanitizers,
# with assertions and guarded memory, without what is slow there; and the tests of the command, which the sanitizers leave
# out, with assertions and guarded memory alone. Stops at the first build that fails. ONE=asan make test runs one of them.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(($(nproc) + 1))} # one more than cores: many tests wait for ranks and hosts

case ${1:-} in
    all) presets="dev asan tsan release" ;;
    *) presets=release ;;
esac
for preset in ${ONE:-$presets}; do
    echo "== $preset"
    make --no-print-directory "build-$preset"
    case "${ONE:-all} $preset" in
        "all dev") ctest --preset dev --parallel "$jobs" --tests-regex '^(cli|tutorial|build|examples|fortran)[.]' ;;
        *) ctest --preset "$preset" --parallel "$jobs" ;;
    esac
done

#!/bin/sh
# make test: the release build and its whole suite.
# make test-all (test.sh all): first dev, asan and tsan, without the slow tests (label release). The three have the same
# assertions and guard pages, so dev runs only the tests of the command, which the sanitizers leave out.
# It stops at the first build that fails. ONE=asan make test runs one of the builds.
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

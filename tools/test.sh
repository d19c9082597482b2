#!/bin/sh
# Everything that must hold: the suite under the sanitizers and with guarded memory (what is slow there is left to the release
# build), then all of it as users run it. Stops at the first build that fails. ONE=asan make test runs one of them.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

for preset in ${ONE:-dev asan tsan release}; do
    echo "== $preset"
    make --no-print-directory "build-$preset"
    ctest --preset "$preset" --parallel "$jobs"
done

#!/bin/sh
# The tour: build, train a small vision transformer for about a minute, evaluate it, predict, and say where the report is.
set -eu
cd "$(dirname "$0")/.."
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

tools/deps.sh
say "Building"
make --no-print-directory
folder=runs/demo

# An interrupted demo begins anew; a finished one is only shown again.
grep -qs '"state":"finished"' "$folder/result.json" || rm -rf "$folder"
say "Training a vision transformer on Fashion-MNIST"
run build/lockstep train vit-fashion-mnist --set run.name=demo --set train.epochs=2

say "The loss and accuracy on the test images, every one counted once"
run build/lockstep eval "$folder"

say "What it says about ten of them"
run build/lockstep predict "$folder" --out "$folder/predictions.svg"

say "Look at"
echo "  $PWD/$folder/report.html        curves, memory, plan against measured"
echo "  $PWD/$folder/predictions.svg    images with their predictions"

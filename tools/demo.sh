#!/bin/sh
# The tour: build, train for about a minute, evaluate, predict, and say where the report is. demo.sh [vit|resnet]
set -eu
cd "$(dirname "$0")/.."
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
case ${1-vit} in
vit)
    what="Training a vision transformer on Fashion-MNIST" recipe=vit-fashion-mnist name=demo count=10 picture=predictions.svg
    set -- train.epochs=2 ;;
resnet)
    what="Training ResNet18 on MNIST on two ranks: 150 steps from 1e-3 down to 0, where the recipe has two epochs at 1e-5"
    recipe=resnet18-mnist name=demo-resnet count=9 picture=predictions.png
    set -- train.steps=150 optimizer.lr=1e-3 schedule.type=cosine workers=2 log.every=10 ;;
*)
    echo "usage: tools/demo.sh [vit|resnet]" >&2
    exit 2 ;;
esac

tools/deps.sh
say "Building"
make --no-print-directory TARGET=lockstep_command # the tests are not built
folder=runs/$name

# An interrupted demo begins anew; a finished one is only shown again.
grep -qs '"state":"finished"' "$folder/result.json" || rm -rf "$folder"
for key; do
    set -- "$@" --set "$key"
    shift
done
say "$what"
run build/lockstep train "$recipe" --set "run.name=$name" "$@"

# Where training did not find the data set, the following commands do not search again, and the reason is printed once.
set --
! grep -qs '"builtin_data":true' "$folder/result.json" || set -- -q --set data.download=false

say "The loss and accuracy on the test images, every one counted once"
run build/lockstep eval "$folder" "$@"

say "Predictions for $count test images"
run build/lockstep predict "$folder" "$@" --count "$count" --out "$folder/$picture"

say "Look at"
echo "  $PWD/$folder/report.html        curves, memory, plan against measured"
echo "  $PWD/$folder/$picture    images with their predictions"

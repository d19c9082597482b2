#!/bin/sh
# The tour: build, train for about a minute, evaluate, predict, and say where the report is. demo.sh [vit|resnet]
set -eu
cd "$(dirname "$0")/.."
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
case ${1-vit} in
vit)
    what="Training a vision transformer on Fashion-MNIST" recipe=vit-fashion-mnist name=demo count=5 picture=predictions.svg
    set -- train.epochs=1 log.every=100 ;;
resnet)
    what="Training ResNet18 on MNIST on two ranks: 150 steps from 1e-3 down to 0, where the recipe has two epochs at 1e-5"
    recipe=resnet18-mnist name=demo-resnet count=9 picture=predictions.png
    set -- train.steps=150 optimizer.lr=1e-3 schedule.type=cosine workers=2 log.every=10 ;;
*)
    echo "usage: tools/demo.sh [vit|resnet]" >&2
    exit 2 ;;
esac

started=$(date +%s)
tools/deps.sh build
say "Building build/lockstep (the tests are not built)"
if [ -t 1 ]; then # ninja shows its progress in one line
    make --no-print-directory TARGET=lockstep_command
else
    make --no-print-directory TARGET=lockstep_command > .build-demo.log 2>&1 || { cat .build-demo.log; exit 1; }
    rm -f .build-demo.log
fi
folder=runs/$name

# finished true|false: there is a finished demo on the built-in shapes, or on the real data
finished() { grep -qs '"state":"finished"' "$folder/result.json" && grep -qs "\"builtin_data\":$1" "$folder/result.json"; }

# Looks for the data once, and downloads it. Where that fails, all commands use the built-in shapes, and leave a demo on the real data alone.
data=
build/lockstep data "$recipe" --samples 1 --set data.fallback=false > /dev/null || {
    [ $? != 75 ] || exit 75 # Ctrl-C
    ! finished false || name=$name-shapes
    folder=runs/$name
    echo "The demo goes on with the built-in shapes, whose results say nothing about these data."
    data=data.type=shapes
    set -- "$@" "$data"
}

# An interrupted demo starts from the beginning, and so does one with other data. A finished one is only shown again.
finished "$([ -z "$data" ] && echo false || echo true)" || rm -rf "$folder"
for key; do
    set -- "$@" --set "$key"
    shift
done
say "$what"
run build/lockstep train "$recipe" --set "run.name=$name" "$@"

say "Loss and accuracy on the test images"
run build/lockstep eval "$folder"

say "Predictions for $count test images"
run build/lockstep predict "$folder" --count "$count" --out "$folder/$picture"

say "Done in $(($(date +%s) - started)) s. Next:"
next() { printf '  %-34s %s\n' "$1" "$2"; }
next "$folder/report.html" "open it in a browser: curves, memory, plan and measurement"
next "$folder/$picture" "test images with their predictions"
next "build/lockstep watch $name" "the same run on the terminal; it works while a run trains, too"
next docs/start/quickstart.md "your own CSV file or images in ten minutes, and on to PyTorch"

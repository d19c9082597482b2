#!/usr/bin/env bash
# unet.sh COMMAND - segmentation from arrays with the bundled recipe: trained, evaluated, predicted, exported; the same bits on 1 and 2 ranks and after a kill;
# bilinear interpolation; pixels that do not count; a mask of numbers with bce; what does not fit is refused with its key.
source "$(dirname "$0")/common.sh"

# npy SHAPE [TYPE], with octal escapes of its bytes on stdin: an array, of u8 unless TYPE says otherwise
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '${2:-|u1}', 'fortran_order': False, 'shape': ($1), }"
    printf "$(cat)"
}
# draw IMAGE|MASK N SEED: on noise a disk (class 1) or a square (class 2), 32 x 32
draw() {
    awk -v what="$1" -v n="$2" -v seed="$3" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) {
            kind = rand() < 0.5 ? 1 : 2; r = 4 + 4 * rand(); cx = 8 + 16 * rand(); cy = 8 + 16 * rand()
            for (y = 0; y < 32; y++) for (x = 0; x < 32; x++) {
                dx = x - cx; dy = y - cy; dx = dx < 0 ? -dx : dx; dy = dy < 0 ? -dy : dy
                here = kind == 1 ? dx * dx + dy * dy < r * r : dx < r && dy < r
                noise = rand()
                printf "\\%03o", what == "IMAGE" ? int(120 * here + 100 * noise) : here * kind
            }
        }
    }'
}
for split in train:160:1 eval:32:2; do
    IFS=: read -r name n seed <<<"$split"
    draw IMAGE $n $seed | npy "$n, 1, 32, 32" >${name}_image.npy
    draw MASK $n $seed | npy "$n, 32, 32" >${name}_mask.npy
done

try 0 train unet-segmentation
try 0 eval runs/unet-segmentation
has out 'accuracy 9[0-9]\.|accuracy 0\.9'
try 0 predict runs/unet-segmentation --out mask.npy
head -c 128 mask.npy | grep -aq "'shape': (32, 32, 32, 3)" || bad "mask.npy begins with $(head -c 128 mask.npy)"
try 0 inspect runs/unet-segmentation/checkpoints/latest
has out 'maxpool_conv'
has runs/unet-segmentation/checkpoints/latest/config.json '"type": ?"unet".*"levels": ?2'
try 0 export runs/unet-segmentation --to unet.pt

# ---- the same bits on 1 and 2 ranks, killed and resumed; with synchronized batch norm only in layouts of as many ranks
run=(train unet-segmentation -q --set train.micro_batch=4 --set train.epochs=1 --set checkpoint.every_steps=3)
try 0 "${run[@]}" --set run.name=whole
try 0 "${run[@]}" --set run.name=two --workers 2
same two
try 0 "${run[@]}" --set run.name=sync --set parallel.sync_batch_norm=true --workers 2
cmp -s runs/whole/checkpoints/latest/model.safetensors runs/sync/checkpoints/latest/model.safetensors && bad "synchronized batch norm changed nothing"
"$lockstep" "${run[@]}" --set run.name=killed --workers 2 >out 2>err &
until_true test -e runs/killed/checkpoints/latest
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
until_true free killed
try 0 "${run[@]}" --set run.name=killed --workers 2
same killed

# ---- bilinear interpolation: fewer parameters, and another model to a checkpoint of the other
try 0 train unet-segmentation --set run.name=bilinear --set model.up=bilinear
try 0 eval runs/bilinear
has out 'accuracy 9[0-9]\.|accuracy 0\.9'
try 0 inspect runs/bilinear/checkpoints/latest
has runs/bilinear/checkpoints/latest/config.json '"up": ?"bilinear"'
grep -q 'up1\.up' out && bad "bilinear interpolation has parameters"
refused 1 'unexpected: up1.up.weight' train unet-segmentation --set run.name=other --set model.up=bilinear --set model.init=unet.pt

# ---- pixels of -100, here those of squares, do not count: nothing learns class 2
for split in train:160:1 eval:32:2; do
    IFS=: read -r name n seed <<<"$split"
    draw MASK $n $seed | sed 's/\\00\([01]\)/\\00\1\\000\\000\\000/g; s/\\002/\\234\\377\\377\\377/g' | npy "$n, 32, 32" '<i4' >${name}_some.npy
done
try 0 train unet-segmentation --set run.name=some --set "data.train={image: train_image.npy, mask: train_some.npy}" --set "data.eval={image: eval_image.npy, mask: eval_some.npy}"
try 0 eval runs/some
has out 'accuracy (9[0-9]\.|100)|accuracy (0\.9|1)'
try 0 eval runs/some --set "data.eval={image: eval_image.npy, mask: eval_mask.npy}"
mv out all
try 0 eval runs/unet-segmentation
cmp -s all out && bad "a model that never saw class 2 says what the other does"

# ---- a mask of numbers
for split in train:160:1 eval:32:2; do
    IFS=: read -r name n seed <<<"$split"
    draw MASK $n $seed | sed 's/\\002/\\001/g' | npy "$n, 32, 32" >${name}_inside.npy
done
cat >inside.yaml <<END
model: {type: unet, inputs: {image: [1, 32, 32]}, outputs: {inside: [32, 32]}, channels: 4, levels: 3}
data: {type: arrays, train: {image: train_image.npy, inside: train_inside.npy}, eval: {image: eval_image.npy, inside: eval_inside.npy}}
loss: {type: bce, of: inside}
train: {epochs: 3, global_batch: 8}
optimizer: {type: adamw, lr: 1e-2}
schedule: {type: cosine}
END
try 0 train inside.yaml
try 0 eval runs/inside
has out 'accuracy 9[0-9]\.|accuracy 0\.9'

# ---- what does not fit
refused 2 'inside.yaml:1: model.inputs: .*32 x 32 must be multiples of 64' train inside.yaml --set model.levels=6
refused 2 'output inside must be \[channels, height, width\] or \[height, width\]' train inside.yaml --set 'model.outputs={inside: [16, 16]}'
refused 2 'a unet has one input, one output and a loss' train inside.yaml --set 'model.inputs={image: [1, 32, 32], more: [1, 32, 32]}'
refused 2 'cross_entropy' train inside.yaml --set 'loss=[{type: bce, of: inside}, {type: cross_entropy, of: inside}]'
refused 2 'model.channels: this key is for model.type unet' train inside.yaml --set model.type=mlp
finish

#!/usr/bin/env bash
# masks.sh COMMAND MAKE_MASK - segmentation from a folder of pictures and masks: trained, evaluated, predicted; the bits of arrays of the same pixels; with crops,
# flips and changes of colour the same bits on 1, 2 and 4 ranks, with other threads and after a kill; pixels that do not count; what is wrong is named.
source "$(dirname "$0")/common.sh"
make_mask=$2

# npy SHAPE, with octal escapes of its bytes on stdin: an array of u8
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
    printf "$(cat)"
}
# draw IMAGE|MASK N SEED WIDTH HEIGHT: on noise a disk (class 1) or a square (class 2), a line for each picture
draw() {
    awk -v what="$1" -v n="$2" -v seed="$3" -v w="$4" -v h="$5" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) {
            kind = rand() < 0.5 ? 1 : 2; r = 4 + 4 * rand(); cx = w / 4 + w / 2 * rand(); cy = h / 4 + h / 2 * rand()
            for (y = 0; y < h; y++) for (x = 0; x < w; x++) {
                dx = x - cx; dy = y - cy; dx = dx < 0 ? -dx : dx; dy = dy < 0 ? -dy : dy
                here = kind == 1 ? dx * dx + dy * dy < r * r : dx < r && dy < r
                noise = rand()
                printf "\\%03o", what == "IMAGE" ? int(120 * here + 100 * noise) : here * kind
            }
            print ""
        }
    }'
}
# folder FOLDER N SEED WIDTH HEIGHT [KIND]: FOLDER/images/000.pgm, FOLDER/masks/000.png, ...
folder() {
    local i line
    mkdir -p "$1/images" "$1/masks"
    i=0
    while read -r line; do
        { printf 'P5 %d %d 255\n' "$4" "$5"; printf "$line"; } >"$1/images/$(printf %03d $i).pgm"
        i=$((i + 1))
    done < <(draw IMAGE "${@:2:4}")
    i=0
    while read -r line; do
        printf "$line" | "$make_mask" "$4" "$5" ${6-} >"$1/masks/$(printf %03d $i).png"
        i=$((i + 1))
    done < <(draw MASK "${@:2:4}")
}
folder set/train 160 1 32 32
folder set/val 32 2 32 32 palette
for split in train:160:1 val:32:2; do
    IFS=: read -r name n seed <<<"$split"
    draw IMAGE $n $seed 32 32 | tr -d '\n' | npy "$n, 1, 32, 32" >${name}_image.npy
    draw MASK $n $seed 32 32 | tr -d '\n' | npy "$n, 32, 32" >${name}_mask.npy
done
cat >shapes.yaml <<END
model: {type: unet, inputs: {image: [1, 32, 32]}, outputs: {mask: [32, 32, 3]}, channels: 8, levels: 2}
data: {type: images, path: set, resize: 32}
loss: {type: cross_entropy, of: mask}
train: {epochs: 5, global_batch: 8}
optimizer: {type: adamw, lr: 1e-2}
schedule: {type: cosine}
END
sed 's/^data:.*/data: {type: arrays, train: {image: train_image.npy, mask: train_mask.npy}, eval: {image: val_image.npy, mask: val_mask.npy}}/' shapes.yaml >arrays.yaml

# ---- trained, evaluated, predicted; the bits of arrays of the same pixels
try 0 train shapes.yaml -q --set run.name=whole
try 0 eval runs/whole
has out 'accuracy 0\.9'
mv out folder.txt
try 0 predict runs/whole --out p.jsonl --first 3 --count 1
has p.jsonl '^\{"sample":3,"file":"val/images/003.pgm","mask":\[\[\['
try 0 predict runs/whole --out p.npy
try 0 predict runs/whole set/val/images/003.pgm set/val/images/000.pgm --out two.npy # files are read as those of the split
size=$((32 * 32 * 3 * 4))
tail -c $((2 * size)) two.npy | cmp - <(tail -c $((29 * size)) p.npy | head -c $size; tail -c $((32 * size)) p.npy | head -c $size) || bad "files are predicted otherwise"
head -c 128 p.npy | grep -aq "'shape': (32, 32, 32, 3)" || bad "p.npy begins with $(head -c 128 p.npy)"
try 0 train arrays.yaml -q
same arrays
try 0 eval runs/arrays
diff <(grep -o 'accuracy.*)' out) <(grep -o 'accuracy.*)' folder.txt) || bad "the evaluation of the folder differs from that of the arrays"
try 0 predict runs/arrays --out q.npy
cmp p.npy q.npy || bad "the predictions of the folder differ from those of the arrays"
try 0 eval runs/whole/checkpoints/latest --set data.path=set --set data.resize=32
diff <(grep -o 'accuracy.*)' out) <(grep -o 'accuracy.*)' folder.txt) || bad "the evaluation of the checkpoint differs from that of the run"

# ---- crops, flips and colours: other samples in each epoch, the same on any ranks, threads and after a kill
folder wide/train 24 3 52 40
folder wide/val 8 4 40 48
augment=(--set data.path=wide --set 'data.augment={crop: resized, crop_scale: [0.4, 1], flip: 0.5, randaugment: {ops: 2}, jitter: {brightness: 0.3}}' --set train.micro_batch=2 --set train.epochs=4)
try 0 train shapes.yaml -q --set run.name=still --set data.path=wide --set train.micro_batch=2 --set train.epochs=4
rm -r runs/whole
try 0 train shapes.yaml -q --set run.name=whole "${augment[@]}"
cmp -s runs/whole/checkpoints/latest/model.safetensors runs/still/checkpoints/latest/model.safetensors && bad "crops change nothing"
for ranks in 2 4; do
    try 0 train shapes.yaml -q --set run.name=on$ranks "${augment[@]}" --workers $ranks --set data.threads=$((ranks - 1))
    same on$ranks
done
"$lockstep" train shapes.yaml -q --set run.name=killed "${augment[@]}" --set checkpoint.every_steps=1 --workers 2 >out 2>err &
until_true test -e runs/killed/checkpoints/step-00000004 # in the middle of an epoch of 3 steps
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
until_true free killed
try 0 train shapes.yaml -q --set run.name=killed "${augment[@]}" --set checkpoint.every_steps=1
same killed

# ---- what the model will see: each image and its mask as they are changed, and unchanged
try 0 data shapes.yaml "${augment[@]}" --samples 3 --out page.html
[ "$(grep -o '<img alt="sample [0-9]*, as the model gets it"' page.html | wc -l)" = 3 ] || bad "page.html does not show 3 images"
[ "$(grep -o '<img alt="sample [0-9]*, mask\(, unchanged\)*"' page.html | wc -l)" = 6 ] || bad "page.html does not show 6 masks"
try 0 data shapes.yaml "${augment[@]}" --samples 3
has out '^mask +i32 \[32, 32\] +[0-2] +[1-2] '
has out 'crop, '
try 0 data shapes.yaml --split eval --samples 2 --out page.html
[ "$(grep -o '<img' page.html | wc -l)" = 4 ] || bad "page.html does not show 2 images and 2 masks"

# ---- a value that does not count: with all squares ignored nothing learns class 2
cp -r set some
for split in train:160:1 val:32:2; do
    IFS=: read -r name n seed <<<"$split"
    i=0
    while read -r line; do
        printf "$line" | "$make_mask" 32 32 >some/$name/masks/$(printf %03d $i).png
        i=$((i + 1))
    done < <(draw MASK $n $seed 32 32 | sed 's/\\002/\\377/g')
done
wrong() { # STATUS MESSAGE ARGS...: a new run is refused
    rm -rf runs/bad
    refused "$1" "$2" train shapes.yaml -q --set run.name=bad "${@:3}"
}
wrong 1 'some/train/masks/[0-9]*.png: the pixel \([0-9]+, [0-9]+\) has the value 255, and with 3 classes values are 0 to 2: .*name 255 as the value to ignore' --set data.path=some
try 0 train shapes.yaml -q --set run.name=some --set data.path=some --set data.ignore=255
for split in train:160:1 val:32:2; do
    IFS=: read -r name n seed <<<"$split"
    draw MASK $n $seed 32 32 | tr -d '\n' | sed 's/\\00\([01]\)/\\00\1\\000\\000\\000/g; s/\\002/\\234\\377\\377\\377/g' | npy "$n, 32, 32" | sed '1s/|u1/<i4/' >${name}_some.npy
done
try 0 train arrays.yaml -q --set run.name=some-arrays --set 'data.train={image: train_image.npy, mask: train_some.npy}' --set 'data.eval={image: val_image.npy, mask: val_some.npy}'
cmp runs/some/checkpoints/latest/model.safetensors runs/some-arrays/checkpoints/latest/model.safetensors || bad "255 in a mask is not -100 in an array"
has runs/some/checkpoints/latest/config.json '"ignore": ?255'

# ---- broken pictures and masks are named, and skipped alike on any number of ranks
cp -r wide holes
head -c 60 wide/train/masks/003.png >holes/train/masks/003.png
head -c 300 wide/train/images/007.pgm >holes/train/images/007.pgm
cp set/val/masks/001.png holes/val/masks/001.png
holes=("${augment[@]}" --set data.path=holes)
wrong 1 'holes/train/(masks/003.png: PNG truncated|images/007.pgm: truncated)' "${holes[@]}"
try 0 train shapes.yaml --set run.name=holes "${holes[@]}" --set data.on_error=skip
once err 'holes/train/masks/003.png: PNG truncated.*; the picture is skipped'
once err 'holes/train/images/007.pgm: truncated.*; the picture is skipped'
once err 'holes/val/masks/001.png: the mask has 32 x 32 pixels \(width, height\), and its picture has 40 x 48.*; the picture is skipped'
has runs/holes/metrics.jsonl '"kind":"epoch","epoch":3,.*"replaced":2'
try 0 train shapes.yaml -q --set run.name=holes2 "${holes[@]}" --set data.on_error=skip --workers 2
cmp runs/holes/checkpoints/latest/model.safetensors runs/holes2/checkpoints/latest/model.safetensors || bad "skipping differs on 2 ranks"

# ---- what is wrong is named
cp -r wide other
rm other/train/masks/005.png
wrong 2 'other/train/masks/005.png: no such mask, and other/train/images/005.pgm needs one' --set data.path=other
head -c 6240 /dev/zero | "$make_mask" 52 40 colour >other/train/masks/005.png
wrong 1 'other/train/masks/005.png: a PNG with colours, an alpha channel or 16 bits' --set data.path=other --set data.shuffle=false
cp other/train/images/005.pgm other/train/masks/005.png
wrong 1 'other/train/masks/005.png: a mask is a PNG file, and this is none' --set data.path=other --set data.shuffle=false
rm -r other/train/masks
wrong 2 'other/train/masks: no such folder. Pictures are in PATH/train/images' --set data.path=other
wrong 2 'nowhere/images: no such folder' --set data.path=nowhere
wrong 2 'data.path: pictures need a folder' --set data.path=
echo path,label >list.csv
wrong 2 'list.csv: pictures with masks are in folders' --set data.path= --set data.train_images=list.csv --set data.eval_images=list.csv
wrong 2 'data.augment.mixup: samples with masks cannot be mixed' --set data.augment.mixup=0.2
wrong 2 'data.augment.cutmix: samples with masks cannot be mixed' --set data.augment.cutmix=1
wrong 2 'data.augment.erase: pictures with masks cannot be erased' --set data.augment.erase=0.2
wrong 2 'data.mean: has no effect with model.inputs' --set data.mean=0.4
wrong 2 'data.size: has no effect with model.inputs' --set data.size=32
wrong 2 'data.resize: the shorter side becomes 20, and 32 x 32 are cut out' --set data.resize=20
wrong 2 'loss: masks are classes' --set 'model.outputs={mask: [32, 32]}' --set 'loss={type: bce, of: mask}'
wrong 2 'model.inputs: data.type images gives one input, a square image' --set 'model.inputs={image: [1, 32, 64]}' --set 'model.outputs={mask: [32, 64, 3]}'
wrong 2 'model.inputs: data.type images gives one input, a square image' --set 'model.inputs={image: [2, 32, 32]}'

# ---- weights of classes: counted as they are in arrays; a class of pixels that do not count has none
weighed=(--set train.steps=2 --set loss.class_weights=balanced)
try 0 train shapes.yaml --set run.name=weighed "${weighed[@]}"
has err 'cross_entropy_unweighted [0-9.]+  accuracy [0-9.]+% \([0-9]+ of 32768\)'
try 0 train arrays.yaml --set run.name=weighed-arrays "${weighed[@]}"
cmp runs/weighed/checkpoints/latest/model.safetensors runs/weighed-arrays/checkpoints/latest/model.safetensors || bad "$what: other weights"
try 0 train shapes.yaml --set run.name=ignored-class "${weighed[@]}" --set data.ignore=2
has err 'class 2 does not occur in the training split and has weight 0'
refused 2 'balanced needs one class for each sample' train shapes.yaml --set run.name=x --set data.sampler=balanced
finish

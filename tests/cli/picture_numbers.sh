#!/usr/bin/env bash
# picture_numbers.sh COMMAND - numbers of pictures from columns of a CSV file: trained, evaluated and predicted with vit and resnet18; the loss is that of the
# predictions and the columns; the same bits on 1, 2 and 4 ranks; weights; broken pictures; what cannot be is refused with its reason.
source "$(dirname "$0")/common.sh"

# pictures of 20 x 16 whose red and blue grow with two numbers, which the list has beside other columns
make_split() { # SPLIT N
    mkdir -p set/"$1"
    echo "name,path,red,blue,weight" >set/"$1".csv
    for ((i = 0; i < $2; i++)); do
        awk -v r=$((i * 37 % 100)) -v b=$((i * 61 % 100)) 'BEGIN {
            print "P3 20 16 255"
            for (k = 0; k < 320; k++) { d = k * 7 % 11; print 2 * r + d, 90 + d, 2 * b + d }
        }' >set/"$1"/$i.ppm
        echo "\"picture, $i\",$1/$i.ppm,0.$(printf %02d $((i * 37 % 100))),0.$(printf %02d $((i * 61 % 100))),$((i % 3))" >>set/"$1".csv
    done
}
make_split train 64
make_split eval 19
cat >numbers.yaml <<'END'
run: {name: numbers}
model: {type: vit, in_channels: 3, patch_size: 8, layers: 1, heads: 2, hidden_size: 16, mlp_size: 32, outputs: {red: [], blue: []}}
data: {type: images, train_images: set/train.csv, eval_images: set/eval.csv, size: 16}
loss: [{type: mse, of: red}, {type: huber, of: blue, delta: 0.3, weight: weight}]
optimizer: {lr: 3e-3}
train: {epochs: 40, global_batch: 16, micro_batch: 4}
END
run=(train numbers.yaml -q)

# ---- trained; the pictures are told apart, so the numbers are learned and not their mean (r2 of the mean is 0)
try 0 train numbers.yaml -q
try 0 eval runs/numbers --json
awk -F'"r2_red":' '{ exit !($2 + 0 > 0.9) }' out || bad "$what: r2 of red is not above 0.9: $(cat out)"
awk -F'"r2_blue":' '{ exit !($2 + 0 > 0.8) }' out || bad "$what: r2 of blue is not above 0.8: $(cat out)"

# ---- the loss is that of the predictions and of the file's columns, row by row
try 0 eval runs/numbers --json
cp out eval.json
try 0 predict runs/numbers --out targets.csv
[ "$(head -n 1 targets.csv)" = sample,file,red,blue,target.red,target.blue ] || bad "targets.csv begins with $(head -n 1 targets.csv)"
cut -d, -f1-4 targets.csv >all.csv
[ "$(head -n 1 all.csv)" = sample,file,red,blue ] || bad "all.csv begins with $(head -n 1 all.csv)"
paste -d, all.csv <(sed 's/^"[^"]*"/x/' set/eval.csv) | awk -F, 'NR > 1 {
    if ($2 != $6) exit 1
    e = $3 - $7; mse += e * e; n++
    e = $4 - $8; e = e < 0 ? -e : e; huber += $9 * (e < 0.3 ? e * e / 2 : 0.3 * (e - 0.15)); w += $9
} END { printf "%.9g %.9g\n", mse / n, huber / w }' >want
read -r mse huber <want
near() { # NAME VALUE: in eval.json
    awk -F"\"$1\":" -v want="$2" '{ d = $2 - want; exit !((d < 0 ? -d : d) <= 2e-6 * want + 1e-9) }' eval.json || bad "$1 is not $2: $(cat eval.json)"
}
near mse_red "$mse"
near huber_blue "$huber"

# ---- a few of the split, and files
try 0 predict runs/numbers --count 2
has out '^sample +red +blue +target.red +target.blue$'
has out "^eval 1 +$(sed -n '3s/^1,[^,]*,\([^,]*\),\(.*\)/\1 +\2/p' all.csv) +$(sed -n '3s/.*,\([^,]*\),\([^,]*\)$/\1 +\2/p' targets.csv)\$"
try 0 predict runs/numbers set/eval/3.ppm set/eval/1.ppm
has out "^3.ppm +$(sed -n '5s/^3,[^,]*,\([^,]*\),\(.*\)/\1 +\2/p' all.csv)\$"
try 0 predict runs/numbers set/eval/1.ppm --json
has out "^\[\{\"sample\":\"1.ppm\",\"red\":$(sed -n '3s/^1,[^,]*,\([^,]*\),\(.*\)/\1,"blue":\2/p' all.csv)\}\]"
mkdir again && cp set/eval/1.ppm again
try 0 predict runs/numbers set/eval/1.ppm again/1.ppm
has out '^set/eval/1.ppm +'; has out '^again/1.ppm +'
refused 2 'nowhere.ppm: no such image file' predict runs/numbers nowhere.ppm
refused 2 'this model computes numbers: leave out --show' predict runs/numbers --show
has runs/numbers/checkpoints/latest/config.json '"outputs": ?\{"?red"?: \[\], "?blue"?: \[\]\}'
try 0 inspect runs/numbers/checkpoints/latest
has out 'weight +32 +F32 \[2, 16\]'

# ---- the same bits on 2 and 4 ranks, with random crops and threads; a resnet
augment=(--set train.epochs=2 --set 'data.augment={crop: resized, flip: 0.5}')
try 0 "${run[@]}" "${augment[@]}" --set run.name=whole
for ranks in 2 4; do
    try 0 "${run[@]}" "${augment[@]}" --set run.name=on$ranks --workers $ranks --set data.threads=$ranks
    same on$ranks
done
sed 's/^model:.*/model: {type: resnet18, in_channels: 3, outputs: {red: []}}/; s/^loss:.*/loss: {type: mae, of: red}/' numbers.yaml >resnet.yaml
try 0 train resnet.yaml -q --set run.name=resnet --set train.steps=2
try 0 data numbers.yaml --samples 3
has out '^red +f32'

# ---- a broken picture is replaced in training together with its numbers; an evaluation needs them all
cp -r set holes
head -c 100 set/train/5.ppm >holes/train/5.ppm
skip=(--set data.on_error=skip --set train.epochs=1 --set data.train_images=holes/train.csv)
try 0 train numbers.yaml --set run.name=holes "${skip[@]}"
has err 'holes/train/5.ppm: truncated.*; the picture is skipped'
cp holes/train/5.ppm holes/eval/5.ppm
refused 1 'holes/eval/5.ppm: truncated' "${run[@]}" --set run.name=holes2 "${skip[@]}" --set data.eval_images=holes/eval.csv

# ---- refused with the reason
bad_run=("${run[@]}" --set run.name=bad)
refused 2 'numbers of pictures need both model.outputs and loss, .*; loss is missing' "${bad_run[@]}" --set loss='{}'
refused 2 'red: an output of vit is one number' "${bad_run[@]}" --set 'model.outputs={red: [3], blue: []}'
sed 's/^data:.*/data: {type: shapes}/; s/in_channels: 3/in_channels: 1, image_size: 16/' numbers.yaml >shapes.yaml
refused 2 'numbers of pictures are columns of a CSV file: they need data.type images' train shapes.yaml
refused 2 'mixup and cutmix mix the labels of classes' "${bad_run[@]}" --set data.augment.mixup=0.2
refused 2 'model.classes: .*model.outputs' "${bad_run[@]}" --set model.classes=3
refused 2 'train.label_smoothing: no effect: no loss is of type cross_entropy' "${bad_run[@]}" --set train.label_smoothing=0.1
sed 's/^model:.*/model: {type: mlp, in_channels: 3, outputs: {red: []}}/; s/^loss:.*/loss: {type: mse, of: red}/' numbers.yaml >mlp.yaml
refused 2 'mlp of fields has model.inputs' train mlp.yaml
refused 2 'set/train: "red" is a number of each picture: list the pictures in a CSV file with the columns path and red' "${bad_run[@]}" --set data.train_images=set/train
refused 2 'no column "rad"; is it "red"' "${bad_run[@]}" --set 'loss=[{type: mse, of: red, target: rad}, {type: mse, of: blue}]'
sed '4s/,0\.[0-9]*,/,,/' set/train.csv >set/gap.csv
refused 1 'set/gap.csv.*NaN' "${bad_run[@]}" --set data.train_images=set/gap.csv
sed '4s/,0\.[0-9]*,/,tall,/' set/train.csv >set/word.csv
refused 1 'set/word.csv line 4, column "red": "tall" is not a number' "${bad_run[@]}" --set data.train_images=set/word.csv
sed '1s/path/file/' set/train.csv >set/file.csv
refused 2 'names no column "path": a list of pictures has the columns path and label, or path and the fields' "${bad_run[@]}" --set data.train_images=set/file.csv
finish

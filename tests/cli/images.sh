#!/usr/bin/env bash
# images.sh COMMAND [MAKE_JPEG] - pictures in folders, in a CSV list and in tar shards: trained, the same bits of all three and on 1, 2 and 4 ranks, killed and
# resumed; predictions of files; what is wrong with the data is refused with the name of the file. MAKE_JPEG is there if the command reads JPEG.
source "$(dirname "$0")/common.sh"
jpeg=${2-}

# picture FILE WIDTH HEIGHT RED GREEN BLUE: of about that colour
picture() {
    awk -v w="$2" -v h="$3" -v r="$4" -v g="$5" -v b="$6" 'BEGIN {
        print "P3", w, h, 255
        for (y = 0; y < h; y++) for (x = 0; x < w; x++) { d = (x * 7 + y * 3) % 23; print r + d, g + d, b + d }
    }' >"$1"
}
for split in train val; do
    mkdir -p set/$split/ant set/$split/bee set/$split/cat
    for i in 0 1 2 3 4 5 6 7; do
        [ $split = val ] && [ $i -gt 3 ] && continue
        picture set/$split/ant/$i.ppm $((40 + i)) 30 $((180 + 3 * i)) 60 40
        picture set/$split/bee/$i.PPM 30 $((37 + i)) 50 $((180 + 3 * i)) 50
        if [ "$jpeg" ]; then
            kind=$([ $i = 1 ] && echo progressive; [ $i = 2 ] && echo cmyk)
            "$jpeg" $((300 + i)) 200 40 60 $((180 + 3 * i)) $kind >set/$split/cat/$i.jpg
        else
            picture set/$split/cat/$i.ppm 33 33 40 60 $((180 + 3 * i))
        fi
    done
done
cat >small.yaml <<EOF
model: {type: vit, in_channels: 3, patch_size: 8, layers: 1, heads: 2, hidden_size: 16, mlp_size: 16, classes: 3}
data: {type: images, path: set, size: 24, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
train: {epochs: 8, global_batch: 8, micro_batch: 2}
EOF

# ---- a folder: trained, evaluated, predicted
try 0 train small.yaml -q --set run.name=whole
try 0 eval runs/whole
has out 'accuracy 1.0000'
try 0 predict runs/whole --set data.path=set
has out '^eval 0 +ant +ant '
cat_file=$(ls set/val/cat/0.*)
try 0 predict runs/whole "$cat_file" set/val/bee/1.PPM --json
has out "\"sample\":\"${cat_file##*/}\",\"predicted\":2,\"class\":\"cat\".*\"class\":\"bee\""
mkdir again && cp set/val/bee/1.PPM again
try 0 predict runs/whole again/1.PPM set/val/bee/1.PPM --json # of one name: the paths
has out '"sample":"again/1.PPM",.*"sample":"set/val/bee/1.PPM",'
try 0 plan small.yaml --set data.path=nowhere
has out 'loader has read ahead'

# ---- the defaults are those of MNIST: images in files are hardly meant to lose size and colours
grep -v '^model' small.yaml | sed 's/data: .*/data: {type: images, path: set}/' >plain.yaml
echo 'model: {type: vit, layers: 1, heads: 2, hidden_size: 16, mlp_size: 16, classes: 3}' >>plain.yaml
warned='warning: plain.yaml: model.'
try 0 train plain.yaml --dry-run; has err "${warned}image_size \(default\): the model sees images of 28 x 28 without colours; data.size: 224 and model.in_channels: 3 are usual"
try 0 train plain.yaml --dry-run --set data.size=14; has err "${warned}in_channels \(default\): the model sees images of 14 x 14 without colours; model.in_channels: 3 is usual"
try 0 train plain.yaml --dry-run --set data.size=14 --set model.in_channels=3; times 0 err 'warning'

# ---- the numbers of channels are the model's: a list of equal numbers is one number
try 0 train small.yaml -q --set run.name=one --set train.steps=3 --set data.mean=0.5 --set data.std=0.25
try 0 train small.yaml -q --set run.name=three --set train.steps=3 --set data.mean='[0.5, 0.5, 0.5]' --set data.std='[0.25, 0.25, 0.25]'
cmp runs/one/checkpoints/latest/model.safetensors runs/three/checkpoints/latest/model.safetensors || bad "three equal numbers are not one"
has runs/whole/checkpoints/latest/config.json '"mean":\[0.485, 0.456, 0.406\]'

# ---- the same bits from a list and from shards, on 2 and 4 ranks, killed and resumed
for split in train val; do
    { echo path,label; (cd set && for f in $split/*/*; do echo "$f,$(basename "$(dirname "$f")")"; done); } >set/$split.csv
    mkdir -p tars/$split
    n=0
    for f in set/$split/*/*; do
        ending=${f##*.}
        cp "$f" tars/$split/"$(printf %04d $n)".${ending,,}
        case $f in */ant/*) echo 0 ;; */bee/*) echo 1 ;; *) echo 2 ;; esac >tars/$split/"$(printf %04d $n)".cls
        n=$((n + 1))
    done
    (cd tars/$split && tar --format=pax -cf ../$split-000.tar 000[0-5].* && tar --format=ustar -cf ../$split-001.tar 000[6-9].* && tar --format=gnu -cf ../$split-002.tar 00[1-9]?.*)
done
try 0 train small.yaml -q --set run.name=list --set data.path= --set data.train_images=set/train.csv --set data.eval_images=set/val.csv
same list
sed -n '2,$s/,.*//p' set/val.csv >names # of a folder: below data.path; of a list: as it says
try 0 predict runs/whole --out p.csv
head -n 1 p.csv | grep -q '^sample,file,class,probability.ant,probability.bee,probability.cat$' || bad "p.csv begins with $(head -n 1 p.csv)"
tail -n +2 p.csv | cut -d, -f1,2 | cmp - <(awk '{ print NR - 1 "," $0 }' names) || bad "p.csv names other files: $(head -n 3 p.csv)"
cp -r set odd # a name that a file may have: control characters as tables show them, the rest as CSV has it
mv "$(ls odd/val/ant/* | head -n 1)" odd/val/ant/$'0\e[2J,\n"x".ppm'
try 0 predict runs/whole --set data.path=odd --out odd.csv
once odd.csv '^0,"val/ant/0\\x1b\[2J,\\n""x"".ppm",'; times "$(wc -l <p.csv)" odd.csv ''
try 0 predict runs/whole --out p.jsonl --output predicted --first 2 --count 1
has p.jsonl "^\{\"sample\":2,\"file\":\"$(sed -n 3p names)\",\"predicted\":0\}$"
try 0 predict runs/whole --split train --out p.csv --output predicted --count 1
has p.csv '^0,train/ant/0.ppm,0$'
try 0 predict runs/whole set/val/bee/1.PPM "$cat_file" --out p.csv --output predicted
[ "$(tail -n +2 p.csv)" = "0,set/val/bee/1.PPM,1
1,$cat_file,2" ] || bad "p.csv is not of the files: $(cat p.csv)"
# a folder stands for its images, in the order of their names
mkdir folder; cp set/val/bee/1.PPM folder/b.ppm; cp set/val/cat/0.jpg folder/a.jpg; echo >folder/notes.txt
try 0 predict runs/whole folder --out p.csv --output predicted
[ "$(tail -n +2 p.csv)" = "0,folder/a.jpg,2
1,folder/b.ppm,1" ] || bad "p.csv is not of the folder: $(cat p.csv)"
try 0 predict runs/whole folder; has out '^a.jpg +cat '; has out '^b.ppm +bee '
rm folder/*; refused 2 'folder: a folder without images' predict runs/whole folder
refused 2 'nowhere.ppm: no such image file' predict runs/whole nowhere.ppm --out p.csv
try 0 predict runs/list --out p.csv --output predicted
tail -n +2 p.csv | cut -d, -f2 | cmp - names || bad "p.csv names other files than the list: $(head -n 3 p.csv)"
cp set/val/bee/1.PPM 'set/val/1, "b".ppm'
printf 'path,label\n"val/1, ""b"".ppm",bee\n' >set/quoted.csv # names with commas and quotes
try 0 predict runs/list --set data.eval_images=set/quoted.csv --out p.csv --output predicted
[ "$(tail -n 1 p.csv)" = '0,"val/1, ""b"".ppm",1' ] || bad "a name is not quoted: $(tail -n 1 p.csv)"
rm 'set/val/1, "b".ppm'
try 0 train small.yaml -q --set run.name=tar --set data.path= --set data.train_images='tars/train-{000..002}.tar' --set data.eval_images='tars/val-*.tar'
same tar
try 0 predict runs/tar --out p.csv --output predicted --count 2
[ "$(sed -n 3p p.csv)" = 1,0001.ppm,0 ] || bad "p.csv does not name the member: $(sed -n 3p p.csv)"
for ranks in 2 4; do
    try 0 train small.yaml -q --set run.name=on$ranks --workers $ranks
    same on$ranks
done
"$lockstep" train small.yaml -q --set run.name=killed --set checkpoint.every_steps=1 --workers 2 >out 2>err &
until_true test -e runs/killed/checkpoints/step-00000004
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
until_true free killed
try 0 train small.yaml -q --set run.name=killed --set checkpoint.every_steps=1 --workers 4
same killed

# ---- threads of the loader change no bit
try 0 train small.yaml -q --set run.name=threads --set data.threads=5
same threads

# ---- random crops of the pictures themselves: other samples in each epoch, the same on any ranks, threads and after a kill
augment=(--set 'data.augment={crop: resized, crop_scale: [0.3, 1], flip: 0.5, randaugment: {ops: 1}, erase: 0.25, mixup: 0.4, cutmix: 1}' --set train.label_smoothing=0.1)
try 0 train small.yaml -q --set run.name=drawn "${augment[@]}"
cmp -s runs/drawn/checkpoints/latest/model.safetensors runs/whole/checkpoints/latest/model.safetensors && bad "crops change nothing"
drawn() { cmp runs/drawn/checkpoints/latest/model.safetensors "runs/$1/checkpoints/latest/model.safetensors" || bad "what is drawn differs: $1"; }
for ranks in 2 4; do
    try 0 train small.yaml -q --set run.name=drawn$ranks "${augment[@]}" --workers $ranks --set data.threads=$((ranks + 1))
    drawn drawn$ranks
done
for from in 1 2 4; do # killed in the middle of an epoch of 3 steps, resumed on other ranks with other threads
    "$lockstep" train small.yaml -q --set run.name=cut$from "${augment[@]}" --set checkpoint.every_steps=1 --workers $from --set data.threads=2 >out 2>err &
    until_true test -e runs/cut$from/checkpoints/step-00000004
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    until_true free cut$from
    try 0 train small.yaml -q --set run.name=cut$from "${augment[@]}" --set checkpoint.every_steps=1 --workers $((4 / from)) --set data.threads=3
    drawn cut$from
done

# ---- broken pictures are named, counted and skipped, alike on any number of ranks
cp -r set holes
head -c 400 set/train/bee/3.PPM >holes/train/bee/3.PPM
head -c 400 set/val/ant/1.ppm >holes/val/ant/1.ppm
echo nothing >holes/train/ant/5.ppm
refused 1 'loading epoch 0, step [0-9]: holes/train/(bee/3.PPM: truncated|ant/5.ppm: unknown)' train small.yaml --set run.name=holes --set data.path=holes
try 0 train small.yaml --set run.name=holes --set data.path=holes --set data.on_error=skip
once err 'holes/train/bee/3.PPM: truncated at offset 400.*; the picture is skipped'
once err 'holes/train/ant/5.ppm: unknown image format.*; the picture is skipped'
once err 'holes/val/ant/1.ppm: truncated.*; the picture is skipped'
has err 'epoch 0: 2 broken pictures were replaced by others'
has runs/holes/metrics.jsonl '"kind":"epoch","epoch":7,.*"replaced":2'
has runs/holes/report.html '2 in epoch 7.*broken images replaced|broken images replaced.*2 in epoch 7'
has runs/holes/metrics.jsonl '"kind":"epoch","epoch":7,.*"data_seconds":[0-9.e-]+,"replaced":2'
try 0 eval runs/holes
has out '\(11 of 11\)'
try 0 train small.yaml -q --set run.name=holes2 --set data.path=holes --set data.on_error=skip --workers 2 --set data.threads=2
cmp runs/holes/checkpoints/latest/model.safetensors runs/holes2/checkpoints/latest/model.safetensors || bad "skipping differs on 2 ranks"
has runs/holes2/metrics.jsonl '"kind":"epoch","epoch":7,.*"replaced":2'
cp set/train/ant/5.ppm holes/train/ant/5.ppm
try 0 train small.yaml --set run.name=hole --set data.path=holes --set data.on_error=skip --set train.epochs=1
has err 'epoch 0: 1 broken picture was replaced by another$'
# a broken picture has no prediction
try 0 predict runs/holes --out h.csv; once h.csv '^1,val/ant/1.ppm,,,,$'; times 13 h.csv ''
try 0 predict runs/holes --out h.jsonl; once h.jsonl '"file":"val/ant/1.ppm","class":null,"probability":null\}$'
try 0 predict runs/holes --out h.npy; [ "$(od -An -v -tf4 -w12 -j128 h.npy | grep -n nan | tr -s ' ' | tr -d -)" = '2: nan nan nan' ] || bad "$what: other rows are NaN"
try 0 predict runs/holes --split train --out h.csv; once h.csv '^[0-9]+,train/bee/3.PPM,,,,$'
try 0 predict runs/holes --split train --wrong --out w.html; has out ' mistakes, of 23 samples$'
try 0 predict runs/holes; times 0 out '^eval 1 '; has out '^9 of 9 right'
try 0 predict runs/holes holes/val/ant/?.ppm; times 0 out '^1.ppm'; times 3 out '^[023].ppm +ant '
has err 'holes/val/ant/1.ppm: truncated at offset 400.*; the image is left out'
try 0 predict runs/holes holes/val/ant/?.ppm --out h.csv; once h.csv '^1,holes/val/ant/1.ppm,,,,$'
refused 1 'none of the 1 images can be read' predict runs/holes holes/val/ant/1.ppm
refused 1 'none of the 1 samples can be read' predict runs/holes --first 1 --count 1
refused 1 'loading.*3.PPM: truncated.*; mend or remove the file, or leave broken images out .on_error: skip' train small.yaml --set run.name=stops --set data.path=holes
refused 1 'holes/val/ant/1.ppm: truncated.*data.on_error=skip' predict runs/whole holes/val/ant/1.ppm
# letters of two bytes take one column
cp set/val/bee/1.PPM 'Grün 1.ppm'; try 0 predict runs/whole 'Grün 1.ppm' set/val/bee/1.PPM; times 2 out '^(Grün 1.ppm|1.PPM     )  bee '
cp set/val/bee/1.PPM $'Gru\u0308n 1.ppm'; try 0 predict runs/whole $'Gru\u0308n 1.ppm' 'Grün 1.ppm'; times 2 out $'^Gr(ü|u\u0308)n 1.ppm  bee '

# ---- what is wrong is named
run=(train small.yaml --set train.steps=1 --set run.name=bad)
refused 2 'data.path: pictures need a folder' "${run[@]}" --set data.path=
refused 2 'nowhere: cannot list this folder: .*; images are in PATH/CLASS, or in PATH/train/CLASS and PATH/val/CLASS' "${run[@]}" --set data.path=nowhere
refused 2 'data.size: 24, and model.image_size is 32' "${run[@]}" --set model.image_size=32
refused 2 'data.resize: the shorter side becomes 20' "${run[@]}" --set data.resize=20
refused 2 'model.classes: set/train has 3 folders of classes, the model has 2; set it to 3' "${run[@]}" --set model.classes=2
refused 2 'data.mean: 3 numbers, and model.in_channels is 1' "${run[@]}" --set model.in_channels=1
cp -r set other
mkdir other/train/dog
refused 2 'other/train/dog: an empty class' "${run[@]}" --set data.path=other
cp other/train/ant/0.ppm other/train/dog
refused 2 'other/val: the class dog of other/train has no folder here' "${run[@]}" --set data.path=other --set model.classes=4
rm -r other/train/dog
mkdir other/val/bat
refused 2 'other/val/bat: other/train has no class of this name' "${run[@]}" --set data.path=other
rm -r other/val/bat
head -c 400 set/train/bee/3.PPM >other/train/bee/3.PPM
refused 1 'loading epoch 0, step [0-9]: other/train/bee/3.PPM: truncated at offset 400' "${run[@]}" --set train.steps=0 --set data.path=other
printf 'P6 60000 60000 255 ' >other/train/bee/3.PPM
refused 1 'other/train/bee/3.PPM: truncated' "${run[@]}" --set train.steps=0 --set data.path=other
sed '4s/,.*/,bat/' set/val.csv >set/bat.csv
refused 2 'set/bat.csv line 4: set/train.csv has no class "bat"' "${run[@]}" --set data.path= --set data.train_images=set/train.csv --set data.eval_images=set/bat.csv
sed '4s/,.*//' set/val.csv >set/bat.csv
refused 1 'set/bat.csv line 4: the line has 1 columns, but the first line has 2' "${run[@]}" --set data.path= --set data.train_images=set/train.csv --set data.eval_images=set/bat.csv
sed '/,ant$/d' set/val.csv >set/two.csv
list=("${run[@]}" --set data.path= --set data.train_images=set/train.csv --set data.eval_images=set/two.csv)
try 0 "${list[@]}" --set run.name=two
has err 'set/two.csv: no picture of class ant, which set/train.csv has: evaluations do not measure it'
sed 's/,ant$/,0/; s/,bee$/,1/; s/,cat$/,2/' set/val.csv >set/numbers.csv
grep -v ',ant$' set/train.csv | sed 's/,bee$/,1/; s/,cat$/,2/' >set/untrained.csv
refused 2 'set/numbers.csv: it has pictures of class 0, and set/untrained.csv has none' "${run[@]}" --set data.path= --set data.train_images=set/untrained.csv --set data.eval_images=set/numbers.csv
(cd tars/val && tar -cf ../two.tar 000[4-9].* 001?.*)
try 0 "${run[@]}" --set run.name=two-tar --set data.path= --set data.train_images='tars/train-*.tar' --set data.eval_images=tars/two.tar
has err 'tars/two.tar: no picture of class 0'
(cd tars/train && tar -cf ../untrained.tar 0008.* 0009.* 001?.* 002?.*)
refused 2 'tars/val-\*.tar: it has pictures of class 0, and tars/untrained.tar has none' "${run[@]}" --set data.path= --set data.train_images=tars/untrained.tar --set data.eval_images='tars/val-*.tar'
head -c 3000 tars/train-001.tar >tars/cut.tar
refused 1 'tars/cut.tar: truncated at offset 3000: the file at offset' "${run[@]}" --set data.path= --set data.train_images=tars/cut.tar --set data.eval_images='tars/val-*.tar'
head -c 2048 tars/train-001.tar >tars/cut.tar
refused 1 'tars/cut.tar: truncated at offset 2048' "${run[@]}" --set data.path= --set data.train_images=tars/cut.tar --set data.eval_images='tars/val-*.tar'
{ cat set/train.csv; echo "$(sed -n 2p set/train.csv | cut -d, -f1),-1"; } >set/odd.csv
refused 1 'set/odd.csv line 26: the label "-1" is ' "${run[@]}" --set data.path= --set data.train_images=set/odd.csv --set data.eval_images=set/val.csv
mkfifo set/fifo.ppm && sed 's/^train[^,]*/fifo.ppm/' set/train.csv >set/fifo.csv # opening it would wait for ever
refused 1 'set/fifo.ppm: cannot read: it is a pipe, not a regular file' "${run[@]}" --set run.name=fifo --set data.path= --set data.train_images=set/fifo.csv --set data.eval_images=set/val.csv
refused 2 'train-.000..004..tar: names 5 shards, and 3 of them are there' "${run[@]}" --set data.path= --set data.train_images='tars/train-{000..004}.tar' --set data.eval_images='tars/val-*.tar'
refused 2 'has label 2, and with 2 classes labels are 0 to 1' "${run[@]}" --set data.path= --set data.train_images='tars/train-*.tar' --set data.eval_images='tars/val-*.tar' --set model.classes=2
if [ "$jpeg" ]; then
    cp set/train/bee/3.PPM other/train/bee/
    head -c 900 set/train/cat/0.jpg >other/train/cat/0.jpg
    refused 1 'other/train/cat/0.jpg: damaged JPEG of 900 bytes: Premature end of JPEG file' "${run[@]}" --set train.steps=0 --set data.path=other
else
    left_out "JPEG images (Debian: libjpeg-dev)"
fi
finish

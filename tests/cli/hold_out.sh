#!/usr/bin/env bash
# hold_out.sh COMMAND - one folder of pictures, one list, one table: a part is held out for evaluation, each class its share, the same one in every verb and on any number of
# ranks; a run does not continue with another part; what looks like a split, or a fraction without effect, is refused.
source "$(dirname "$0")/common.sh"

picture() { awk -v c="$2" 'BEGIN { print "P2 8 8 255"; for (k = 0; k < 64; k++) print c + k % 17 }' >"$1"; }
mkdir -p pics/dark pics/light pics/rare
for i in $(seq 20); do picture pics/dark/$i.pgm $((10 + i)); [ "$i" -gt 10 ] || picture pics/light/$i.pgm $((180 + i)); done
picture pics/rare/1.pgm 100
cat >small.yaml <<EOF
model: {type: mlp, image_size: 8, in_channels: 1, hidden: [8], classes: 3}
data: {type: images, path: pics, eval_fraction: 0.2}
train: {epochs: 2, global_batch: 8, micro_batch: 2}
EOF

# ---- pictures: 4 of 20, 2 of 10, none of 1; training and evaluation have all of them, each once
try 0 data small.yaml --samples 25 --set train.drop_last=false
has out '^images, training split: 25 samples; pics \(25 of 31 pictures\)$'
cp out train.txt
try 0 data small.yaml --samples 6 --split eval
has out '^images, evaluation split: 6 samples; pics \(6 of 31 pictures\)$'
has out '^dark +4 '; has out '^light +2 '; has out '^rare +0 '
cat train.txt out | grep -o '[a-z]*/[0-9]*\.pgm$' | sort | cmp - <(cd pics && ls */* | LC_ALL=C sort) || bad "the splits are not a partition of the pictures"
grep -o '[a-z]*/[0-9]*\.pgm$' out >held.txt
echo >pics/dark/notes.txt; echo >pics/light/Thumbs.db
try 0 train small.yaml -q --set run.name=whole
has err 'no picture of class rare'
once err '^warning: pics/dark/notes.txt is left out: pictures end in .jpg, .jpeg, .png, .pgm or .ppm$' # both splits read the folder
echo >pics/light/notes.txt; try 0 data small.yaml; once err 'pics/dark/notes.txt and 1 other file are left out'
rm pics/*/notes.txt pics/light/Thumbs.db
try 0 data small.yaml --out d.html --samples 25; has d.html '<br/>light/[0-9]+.pgm</figcaption>'
try 0 train small.yaml -q --set run.name=on2 --workers 2
same on2
try 0 eval runs/whole
has out '\([0-9] of 6\)'
try 0 predict runs/whole --out p.csv
tail -n +2 p.csv | cut -d, -f2 | sort | cmp - <(sort held.txt) || bad "predict has other pictures than data"
refused 2 'data.eval_fraction: 0.3 here, 0.2 there .*25 there' train small.yaml --set run.name=whole --set train.epochs=3 --set data.eval_fraction=0.3

# ---- another folder, or one more picture, moves no others
mv pics moved
picture moved/light/new.pgm 190
try 0 data small.yaml --samples 9 --split eval --set data.path=moved
[ "$(grep -cFf held.txt out)" -ge 5 ] || bad "one more picture changed the split: $(cat out)"
rm moved/light/new.pgm

# ---- a folder train without val is divided, too; a folder test beside it is not touched
mkdir set && mv moved set/train && mkdir set/test
try 0 data small.yaml --samples 6 --split eval --set data.path=set
grep -o 'train/[a-z]*/[0-9]*\.pgm$' out | cut -c 7- | cmp - held.txt || bad "set/train is divided in another way"
mkdir set/valid; refused 2 'data.path: set/valid: looks like a split, and splits are called train and val' data small.yaml --set data.path=set; rmdir set/valid
mv set/train/* . ; rmdir set/train; mkdir box; mv dark light rare box; mkdir box/test
refused 2 'data.path: box/test: looks like a split' data small.yaml --set data.path=box; rmdir box/test

# ---- a list and a shard are divided by the same rule; a picture that is listed twice is in one split
{ echo path,label; for f in box/*/*; do l=${f%/*}; echo "$f,${l#*/}"; echo "$f,${l#*/}"; done; } >list.csv
try 0 data small.yaml --samples 99 --split eval --set data.path= --set data.train_images=list.csv
has out 'evaluation split: 12 samples; list.csv \(12 of 62 pictures\)'
[ "$(grep -o 'box/.*pgm$' out | sort | uniq -c | awk '{ print $1 }' | sort -u)" = 2 ] || bad "a picture is in both splits"
mkdir tar; n=10; for f in box/dark/* box/light/*; do cp "$f" tar/$n.pgm; case $f in */dark/*) echo 0 ;; *) echo 1 ;; esac >tar/$n.cls; n=$((n + 1)); done
(cd tar && tar -cf ../all.tar ./*)
try 0 data small.yaml --split eval --set data.path= --set data.train_images=all.tar
has out 'evaluation split: 6 samples; all.tar \(6 of 30 pictures\)'
has out '^0 +4 '

# ---- where nothing is evaluated, all are trained on
refused 2 'data.eval_fraction: has no effect: with eval.every_epochs -1' data small.yaml --set data.path=box --set eval.every_epochs=-1
sed -i 's/, eval_fraction: 0.2//' small.yaml
refused 2 'data.eval_fraction: has no effect with data.eval_images list.csv' data small.yaml --set data.path= --set data.train_images=list.csv --set data.eval_images=list.csv --set data.eval_fraction=0.3

# ---- a table: rows; with a class in each row each class gives its share, and means are those of the training rows
awk 'BEGIN { OFS = ","; print "a,b,y,kind"; for (i = 0; i < 40; i++) print i, 2 * i, 3 * i, (i % 10 == 0) }' >t.csv
cat >table.yaml <<EOF
model: {type: mlp, inputs: {x: [2]}, outputs: {y: []}, hidden: [8]}
data: {type: arrays, train: {x: "t.csv:a,b", y: t.csv}, eval_fraction: 0.25}
loss: {type: mse, of: y}
train: {epochs: 1, global_batch: 8, drop_last: false, micro_batch: 2}
EOF
try 0 train table.yaml -q
try 0 train table.yaml -q --set run.name=t2 --workers 2
cmp runs/table/checkpoints/latest/model.safetensors runs/t2/checkpoints/latest/model.safetensors || bad "2 ranks divide the rows in another way"
try 0 predict runs/table --out q.csv
[ "$(head -n 1 q.csv)" = sample,row,y,target.y ] || bad "q.csv begins with $(head -n 1 q.csv)"
tail -n +2 q.csv | cut -d, -f2 >rows.txt
[ "$(wc -l <rows.txt)" = 10 ] || bad "not 10 of 40 rows"
try 0 predict runs/table --split train --out r.csv
cut -d, -f2 r.csv | tail -n +2 | sort -n - rows.txt | cmp - <(seq 0 39) || bad "the splits are not a partition of the rows"
# f32 FILE TENSOR: the first number of it
f32() {
    local header=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    local at=$(head -c $((8 + header)) "$1" | tail -c +9 | grep -o "\"$2\":{[^}]*}" | sed 's/.*offsets":\[\([0-9]*\).*/\1/')
    tail -c +$((9 + header + at)) "$1" | od -An -t f4 -N 4
}
cut -d, -f2 r.csv | awk -v mean="$(f32 runs/table/checkpoints/latest/model.safetensors scaling.x.mean)" \
    'NR > 1 { s += $1; n++ } END { d = s / n - mean; exit !(n == 30 && d * d < 1e-8) }' || bad "the mean is not that of the training rows"
sed -e 's/outputs: {y: \[\]}/outputs: {kind: [2]}/' -e 's/y: t.csv/kind: t.csv/' -e 's/type: mse, of: y/type: cross_entropy, of: kind/' table.yaml >kind.yaml
try 0 train kind.yaml -q
try 0 predict runs/kind --out q.csv
cut -d, -f2 q.csv | awk 'NR > 1 { n[$1 % 10 == 0]++ } END { exit !(n[0] == 9 && n[1] == 1) }' || bad "classes of a table do not give their share"
try 0 data kind.yaml --set loss.class_weights=balanced --samples 1
has out '^ *step +sample +label +row$'
try 0 predict runs/table --out q.jsonl --count 1
has q.jsonl '^\{"sample":0,"row":[0-9]+,"y":'

# ---- columns by range and pattern: the run has names, as the table of the training has them; another table may have them in another order
awk 'BEGIN { OFS = ","; print "id,c0,c1,c2,y"; for (i = 0; i < 40; i++) print i, i, i * i, 40 - i, 3 * i }' >w.csv
awk -F, 'BEGIN { OFS = "," } { print $5, $4, $3, $2, $1 }' w.csv >back.csv
cat >names.yaml <<EOF
model: {type: mlp, inputs: {x: [3]}, outputs: {z: []}, hidden: [8]}
data: {type: arrays, train: {x: "w.csv:c0,c1,c2", z: "w.csv:y"}, eval: {x: "back.csv:c0,c1,c2", z: "back.csv:y"}}
loss: {type: mse, of: z}
train: {epochs: 1, global_batch: 8, drop_last: false, micro_batch: 2}
EOF
try 0 train names.yaml -q
try 0 eval runs/names
tail -n 1 out | sed 's/  [0-9.]* s$//' >names.txt
for list in c0-c2 '*,!id,!y'; do
    sed "s/train: {x: \"[^\"]*\"/train: {x: \"w.csv:$list\"/; s/back.csv:[^\"]*/back.csv/g" names.yaml >pattern.yaml
    rm -rf runs/pattern
    try 0 train pattern.yaml -q
    cmp runs/names/checkpoints/latest/model.safetensors runs/pattern/checkpoints/latest/model.safetensors || bad "$list: other weights than with names"
    has runs/pattern/recipe.yaml 'train: \{x: "w.csv:c0,c1,c2", z: "w.csv:y"\}'
    has runs/pattern/recipe.yaml 'eval: \{x: "back.csv:c0,c1,c2", z: "back.csv:y"\}'
    try 0 eval runs/pattern
    tail -n 1 out | sed 's/  [0-9.]* s$//' | cmp - names.txt || bad "$list: another evaluation: $(cat out)"
    try 0 eval runs/pattern --set 'data.eval={x: "back.csv:c0-c2", z: back.csv}'
    tail -n 1 out | sed 's/  [0-9.]* s$//' | cmp - names.txt || bad "c0-c2 in the order of back.csv: $(cat out)"
done
try 0 train names.yaml -q --set run.name=pattern --set train.epochs=2 # a list is the same data as a pattern
mv w.csv gone.csv                                                     # new rows need no table of the training
try 0 predict runs/pattern back.csv --out p.csv
mv gone.csv w.csv
try 0 predict runs/pattern w.csv --out q.csv
cmp p.csv q.csv || bad "other predictions of the same rows in another table"
mkdir '${HOME}' && cp w.csv '${HOME}'
try 0 train pattern.yaml -q --set run.name=dollar --set 'data.train.x=$${HOME}/w.csv:c0-c2'
has runs/dollar/recipe.yaml 'HOME.*w.csv:c0,c1,c2'
sed -i.bak 's/w.csv:[*][^"]*/w.csv:d*/' pattern.yaml
refused 2 'pattern.yaml:2: data.train: .*w.csv: "d\*" names none of its columns: id, c0, c1, c2, y' train pattern.yaml -q
mv pattern.yaml.bak pattern.yaml
sed 's/z: "w.csv:y"/y: "w.csv:c0"/; s/ z: / y: /; s/{z:/{y:/; s/of: z/of: y/' pattern.yaml >other.yaml
refused 2 'other.yaml:2:? data.eval: back.csv: data.train names the columns "c0" for field "y", and this table also has a column "y"' train other.yaml -q
finish

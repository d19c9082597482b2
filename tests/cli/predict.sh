#!/bin/bash
# predict.sh COMMAND - every prediction of a split in a file: .npy, .csv and .jsonl hold the same numbers, those of the table, whatever the batch, the threads
# and the ranks that trained; a file is whole or not there; what does not fit is refused.
source "$(dirname "$0")/common.sh"

idx_data data 48 37 6
cat >small.yaml <<END
model: {type: mlp, image_size: 6, hidden: [7], classes: 10}
data: {type: mnist, path: data}
train: {steps: 6, global_batch: 16, micro_batch: 4}
eval: {every_epochs: 0}
optimizer: {lr: 1e-2}
threads: 1
END
try 0 train small.yaml --set run.name=one
try 0 train small.yaml --set run.name=two --workers 2
cmp runs/one/checkpoints/latest/model.safetensors runs/two/checkpoints/latest/model.safetensors || bad "ranks change the weights"

# ---- one order, one set of numbers
try 0 predict runs/one --out p.npy; has err "37 samples in p.npy"
[ "$(tail -c $((37 * 10 * 4)) p.npy | wc -c)" = 1480 ] && head -c 128 p.npy | grep -q "'descr': '<f4', 'fortran_order': False, 'shape': (37, 10)" || bad "p.npy is another array"
try 0 predict runs/one --out p.csv
[ "$(head -n 1 p.csv)" = sample,class,probability.0,probability.1,probability.2,probability.3,probability.4,probability.5,probability.6,probability.7,probability.8,probability.9 ] || bad "p.csv begins with $(head -n 1 p.csv)"
[ "$(cut -d, -f1 p.csv | tail -n +2 | tr '\n' ' ')" = "$(seq -s ' ' 0 36) " ] || bad "p.csv has other samples"
try 0 predict runs/one --out p.jsonl
sed -E 's/\{"sample":([0-9]*),"class":"([0-9])","probability":\{(.*)\}\}/\1,\2,\3/; s/"[0-9]"://g' p.jsonl | cmp - <(tail -n +2 p.csv) || bad "p.jsonl and p.csv differ"
tail -c 1480 p.npy | od -An -v -tf4 -w40 | awk '{ for (i = 1; i <= 10; i++) s += $i } END { exit !(s > 36.999 && s < 37.001) }' || bad "the probabilities of p.npy add up to another number"
# the first number of p.npy is the first of p.csv
[ "$(tail -c 1480 p.npy | head -c 4 | od -An -tf4 | awk '{ printf "%.6f", $1 }')" = "$(sed -n 2p p.csv | cut -d, -f3 | awk '{ printf "%.6f", $1 }')" ] || bad "p.npy and p.csv differ"
try 0 predict runs/one --out classes.csv --output predicted,logits
head -n 1 classes.csv | grep -q '^sample,predicted,logits.0,' || bad "classes.csv begins with $(head -n 1 classes.csv)"
cut -d, -f2 p.csv | tail -n +2 | cmp - <(tail -n +2 classes.csv | cut -d, -f2) || bad "p.csv has other classes than its probabilities"
try 0 predict runs/one --count 37; grep '^eval' out | awk '{ print $4 }' | cmp - <(tail -n +2 classes.csv | cut -d, -f2) || bad "the table predicts other classes"
for other in "runs/one --set train.micro_batch=2" "runs/one --set train.micro_batch=16" "runs/one --set threads=2" "runs/two" "runs/two/checkpoints/latest"; do
    try 0 predict $other --out q.npy
    cmp q.npy p.npy || bad "$what: other predictions"
done
try 0 predict runs/one --out part.csv --first 30 --count 100
[ "$(tail -n +2 part.csv)" = "$(tail -n 7 p.csv)" ] || bad "part.csv is not part of p.csv"
try 0 predict runs/one --split train --out train.jsonl --output predicted; [ "$(wc -l <train.jsonl)" = 48 ] || bad "train.jsonl has $(wc -l <train.jsonl) lines"
has train.jsonl '^\{"sample":0,"predicted":[0-9]\}$'

# ---- random samples: none twice, those of the seed alone, with the numbers that they have in order
try 0 predict runs/one --random 12 --seed 3 --out random.csv; tail -n +2 random.csv | cut -d, -f1 >drawn
[ "$(sort -u drawn | wc -l)" = 12 ] || bad "$what: $(tr '\n' ' ' <drawn)"
sort -n -c drawn 2>/dev/null && bad "$what: in order"
while read -r line; do grep -qxF "$line" p.csv || bad "$what: not in p.csv: $line"; done <random.csv
try 0 predict runs/two --random 12 --seed 3 --out again.csv --set train.micro_batch=16; cmp again.csv random.csv || bad "$what: other samples"
try 0 predict runs/one --random 12 --seed 3; sed -nE 's/^eval ([0-9]+) .*/\1/p' out | cmp - drawn || bad "$what: other samples in the table"
try 0 predict runs/one --random 12 --seed 3 --out random.svg; grep '^eval' out | head -n 1 | grep -q "^eval $(head -n 1 drawn) " || bad "$what: other samples"
try 0 predict runs/one --random 12 --seed 4 --out other.csv; cmp -s other.csv random.csv && bad "$what: the samples of another seed"
try 0 predict runs/one --random 100 --out whole.csv; has err "37 samples: the split has no more"; cmp <(sort whole.csv) <(sort p.csv) || bad "$what: not the whole split"

# ---- whole or not there
sleep 3; try 0 predict runs/one --out p.csv # the digest of data older than 2 s is remembered: a write less
cp p.csv before.csv
for point in write@0 sync@0 name@0; do
    LOCKSTEP_FAIL=$point try 1 predict runs/one --out before.csv; has err "^error: before.csv"
    [ -z "$(ls *.tmp-* 2>/dev/null)" ] || bad "$what: $(ls *.tmp-*) is left"
    cmp before.csv p.csv || bad "$what: the file that had the name is another"
    LOCKSTEP_FAIL=$point:kill try 137 predict runs/one --out new.csv
    [ ! -e new.csv ] || bad "$what: killed at $point, it leaves a part of a file"
    rm -f new.csv.tmp-*
done
refused 1 "none/p.npy" predict runs/one --out none/p.npy

# ---- refusals
refused 2 "p.npy: the file holds one array, and there are logits, predicted" predict runs/one --out p.npy --output logits,predicted
refused 2 'no output "logit", is it "logits"\?; it has logits, predicted, probability' predict runs/one --out p.npy --output logit
refused 2 "--output needs --out FILE.npy, FILE.csv or FILE.jsonl" predict runs/one --output logits
refused 2 "--out and --prompt: give one of them" predict runs/one --prompt x --out x.npy --output logits
refused 2 "--seed needs --random N or --temperature" predict runs/one --seed 3
refused 2 "--first and --random: give one of them|--random and --first: give one of them" predict runs/one --random 3 --first 3
refused 2 "--random choose samples" predict runs/one x.png --random 3
refused 2 "--tokens needs --prompt TEXT or --out FILE.jsonl, not --out p.npy" predict runs/one --out p.npy --tokens 4
refused 2 "--show and --out p.npy: give one of them" predict runs/one --out p.npy --show
refused 2 "x.png: --out of this kind is for samples of a split" predict runs/one x.png --out p.npy
refused 2 "the split has samples 0 to 36" predict runs/one --out p.npy --first 37
refused 2 "one process" predict runs/one --out p.npy --workers 2

# ---- a language model: the likeliest token behind each
head -c 4000 /dev/urandom | od -An -v -tx1 | tr -d ' ' >words.txt
cat >text.yaml <<END
model: {type: llama, hidden_size: 16, mlp_size: 16, layers: 1, heads: 2}
data: {type: text, train_text: words.txt, eval_text: words.txt, tokenizer: bytes, seq_length: 16}
train: {steps: 2, global_batch: 4}
threads: 1
END
try 0 train text.yaml --set run.name=text
try 0 predict runs/text --out t.npy --count 3; head -c 128 t.npy | grep -q "'descr': '<i4', 'fortran_order': False, 'shape': (48,)" || bad "t.npy is another array: $(head -c 128 t.npy)"
refused 2 "a language model needs --prompt TEXT" predict runs/text
# ---- the worst mistakes: the samples of the split that are wrong, those whose true class has the lowest probability first
try 0 predict runs/one --count 37; wrong=$(grep -c 'wrong$' out)
try 0 predict runs/one --wrong --out w.html; has out "^w.html: the worst $wrong of $wrong mistakes, of 37 samples$"
times "$wrong" w.html '^<figure><img alt="eval [0-9]+" src="data:image/png;base64,'
shown() { sed -nE 's/.*<figcaption><b>([0-9])<\/b> ([0-9.]+)<br\/>predicted: <b>([0-9])<\/b> ([0-9.]+)<br\/>eval ([0-9]+)<.*/\5 \1 \3 \4 \2/p' w.html; }
shown | cut -d' ' -f5 | sort -c -n || bad "$what: not the worst first"
shown | cut -d' ' -f1-4 | sort -n | cmp - <(sed -nE 's/^eval ([0-9]+) +([0-9]) +([0-9]) +([0-9.]+) +wrong$/\1 \2 \3 \4/p' <<<"$("$lockstep" predict runs/one --count 37 2>/dev/null)") || bad "$what: other mistakes than the table: $(shown)"
try 0 predict runs/one --wrong --out w2.html --count 2; times 2 w2.html '^<figure>'; cmp <(grep '^<figure>' w2.html) <(grep '^<figure>' w.html | head -n 2) || bad "$what: not the two worst"
try 0 predict runs/one --wrong --set train.micro_batch=16; cmp w.html wrong.html || bad "$what: another page with another batch"
try 0 predict runs/one --wrong --set eval.batch=11; cmp w.html wrong.html || bad "$what: another page with another batch"
refused 2 '--out w.htm: --wrong writes a page, whose name ends in .html' predict runs/one --wrong --out w.htm
refused 2 '--out w.csv: --wrong writes a page' predict runs/one --wrong --out w.csv
refused 2 'w.html: the name must end in .svg .*; .html is for --wrong' predict runs/one --out w.html
refused 2 'w.html: --wrong compares .*: leave out files; the name of its page or table is --out FILE.html or FILE.csv' predict runs/one --wrong w.html
refused 2 'count 100001: --wrong shows at most 100000' predict runs/one --wrong --count 100001
refused 2 '--wrong is for classifiers of images and tables' predict runs/text --wrong

# ---- new rows of a table: the columns by name in any order, no targets; classes as probabilities, numbers in the units of the data
awk 'BEGIN { srand(3); print "a,b,kind,high,y"; for (i = 0; i < 60; i++) { a = rand(); b = rand(); print a "," b "," (a > .5) + (b > .5) "," (a + b > 1) "," 100 * a * b } }' >known.csv
cat >rows.yaml <<'END'
model: {type: mlp, inputs: {x: [2]}, outputs: {kind: [3], high: [], y: []}, hidden: [8], act: gelu}
data:
  type: arrays
  train: {x: "known.csv:a,b", kind: "known.csv:kind", high: "known.csv:high", y: "known.csv:y"}
  eval: {x: "known.csv:a,b", kind: "known.csv:kind", high: "known.csv:high", y: "known.csv:y"}
loss: [{type: cross_entropy, of: kind}, {type: bce, of: high}, {type: mse, of: y}]
train: {epochs: 40, global_batch: 20, micro_batch: 5}
optimizer: {lr: 1e-2}
threads: 1
END
try 0 train rows.yaml -q
awk -F, -v OFS=, '{ print (NR == 1 ? "id" : "r" NR), $2, $1 }' known.csv >new.csv
try 0 predict runs/rows --out split.csv
[ "$(head -n 1 split.csv)" = sample,kind,kind.probability.0,kind.probability.1,kind.probability.2,high.probability,y,target.kind,target.high,target.y ] || bad "split.csv begins with $(head -n 1 split.csv)"
awk -F, 'NR > 1 && ($3 + $4 + $5 < 0.999999 || $3 + $4 + $5 > 1.000001 || $(3 + $2) < $3 || $(3 + $2) < $4 || $(3 + $2) < $5 || $6 < 0 || $6 > 1) { exit 1 } NR > 1 { s += $7 } END { exit !(s / (NR - 1) > 10 && s / (NR - 1) < 40) }' split.csv || bad "split.csv has other numbers: $(head -n 3 split.csv)"
try 0 predict runs/rows new.csv --out new-rows.csv; cmp new-rows.csv <(cut -d, -f1-7 split.csv) || bad "$what: other rows than the split, which has the same numbers"
try 0 predict runs/rows x=new.csv:a,b --out new-rows.csv; cmp new-rows.csv <(cut -d, -f1-7 split.csv) || bad "$what: other rows"
head -n 3 new.csv >two.csv; try 0 predict runs/rows two.csv; times 3 out ''; has out '^row 1 +[0-2] +[0-9.e-]+ +[0-9.e-]+ +[0-9.]+$'; has out '^sample +kind +kind.probability +high.probability +y$'
try 0 predict runs/rows two.csv --json; has out '^\[\{"sample":"row 0","kind":[0-2],"kind.probability":[0-9.e-]+,"high.probability":[0-9.e-]+,"y":[0-9.]+\},'
try 0 predict runs/rows two.csv --out two.jsonl; once two.jsonl '^\{"sample":1,"kind":[0-2],"kind.probability":\[[0-9.,e-]+\],"high.probability":[0-9.e-]+,"y":[0-9.]+\}$'
try 0 predict runs/rows two.csv --out two.csv.csv --output kind; has two.csv.csv '^sample,kind.0,kind.1,kind.2$'
# targets of samples of the data set, and the worst mistakes
tail -n +2 known.csv | cut -d, -f3-5 >is.txt; tail -n +2 split.csv | cut -d, -f8- | cmp - is.txt || bad "split.csv has other targets: $(head -n 3 split.csv)"
try 0 predict runs/rows --random 1; has out '^sample +kind +kind.probability +high.probability +y +target.kind +target.high +target.y$'
try 0 predict runs/rows --json --count 1; has out '"y":[0-9.]+,"target.kind":[0-2],"target.high":[01],"target.y":[0-9.]+\}\]$'
try 0 predict runs/rows --out split.jsonl; times 60 split.jsonl ',"target.kind":[0-2],"target.high":[01],"target.y":[0-9.]+\}$'
awk -F, 'NR > 1 && $2 != $8 { print $(3 + $8) "," $1 }' split.csv | LC_ALL=C sort -t, -g >mistakes.txt
try 0 predict runs/rows --wrong --out worst.csv --count 2; has out "^the worst 2 of $(wc -l <mistakes.txt) mistakes of kind, of 60 samples: worst.csv$"
tail -n +2 worst.csv | cut -d, -f1 | cmp - <(cut -d, -f2 mistakes.txt | head -n 2) || bad "$what: not the two worst: $(cat worst.csv mistakes.txt)"
tail -n +2 worst.csv | while read -r line; do once split.csv "^$line$"; done
try 0 predict runs/rows --wrong; times $(wc -l <mistakes.txt) out '^eval '
refused 2 'w.html: --wrong writes rows of a table to a file whose name ends in .csv or .jsonl' predict runs/rows --wrong --out w.html
refused 2 'w.npy: --wrong writes rows of a table' predict runs/rows --wrong --out w.npy
refused 2 '--wrong and --output' predict runs/rows --wrong --out w.csv --output kind
refused 2 'none.csv: no such file' predict runs/rows none.csv
refused 2 '2 files for all fields: give one, or FIELD=FILE for each field' predict runs/rows two.csv new.csv
cut -d, -f1,3 two.csv >less.csv; refused 2 'less.csv: its first line has no column "b"' predict runs/rows less.csv
sed -i '3s/,[^,]*,/,,/' two.csv; refused 1 'two.csv row 1: x\[1\] \(column "b"\) is NaN' predict runs/rows two.csv
refused 2 '--split, --first, --count and --random choose samples of the data set; with files leave them out' predict runs/rows new.csv --count 3

finish

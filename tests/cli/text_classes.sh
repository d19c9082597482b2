#!/usr/bin/env bash
# text_classes.sh COMMAND - a table whose classes are texts trains with the bits of one whose classes are their numbers; the names are in every table and file of
# predictions; the run keeps them, for other tables and for a run that continues.
source "$(dirname "$0")/common.sh"
awk 'BEGIN { srand(5); split("ok,warning,failure, NA grade", name, ","); name[4] = "a \"b\" c"; print "a,b,state,number"
    split("1 3 0 2", place, " ") # sorted: a "b" c, failure, ok, warning
    for (i = 0; i < 90; i++) { k = i % 7 ? int(4 * rand()) + 1 : 1; gsub(/"/, "\"\"", name[k]); text = name[k] ~ /"/ ? "\"" name[k] "\"" : name[k]
        gsub(/""/, "\"", name[k]); printf "%.3f,%.3f,%s,%d\n", rand() + k, rand() - k, text, k == 1 ? 2 : k == 2 ? 3 : k == 3 ? 1 : 0 } }' >all.csv
recipe() {
    cat <<EOT2
model: {type: mlp, inputs: {x: [2]}, outputs: {state: [4]}, hidden: [8]}
loss: {type: cross_entropy, of: state}
data: {type: arrays, train: {x: "all.csv:a,b", state: "all.csv:$1"}, eval_fraction: 0.3}
train: {epochs: 2, global_batch: 16, micro_batch: 8}
optimizer: {lr: 0.02}
threads: 1
EOT2
}
recipe state >texts.yaml
recipe number >numbers.yaml
try 0 train numbers.yaml
try 0 train texts.yaml
cmp runs/texts/checkpoints/latest/model.safetensors runs/numbers/checkpoints/latest/model.safetensors || bad "$what: other weights than with numbers"
has runs/texts/recipe.yaml 'class_names: \{state: "a \\"b\\" c,failure,ok,warning"\}'
try 0 train texts.yaml --set run.name=ranks --workers 2
cmp runs/texts/checkpoints/latest/model.safetensors runs/ranks/checkpoints/latest/model.safetensors || bad "$what: ranks change a bit"
try 0 train texts.yaml --set train.epochs=3 # continues
has err 'continues after step 6 of 9'

# ---- the names
try 0 data texts.yaml
has out '^failure +[0-9]+ '
try 0 eval runs/texts
has out '^ +2  ok +[0-9]+ '
cut -d, -f1,2 all.csv | head -n 6 >new.csv
try 0 predict runs/texts new.csv
has out '^row 0 +(ok|warning|failure|a "b" c) +[0-9.e-]+$'
try 0 predict runs/texts new.csv --json
has out '"state":"(ok|warning|failure|a \\"b\\" c)"'
try 0 predict runs/texts new.csv --out new.jsonl
has new.jsonl '"state":"[^,]*","state.probability":\{"a \\"b\\" c":[0-9.e-]+,"failure":'
try 0 predict runs/texts new.csv --out new_predictions.csv
has new_predictions.csv '^sample,state,"state.probability.a ""b"" c",state.probability.failure,state.probability.ok,state.probability.warning$'
try 0 predict runs/numbers new.csv --out numbers.csv # as before
has numbers.csv '^sample,state,state.probability.0,state.probability.1,'
has numbers.csv '^0,[0-3],'

try 0 predict runs/texts --out split.csv # the file's text beside the prediction, and mistakes
head -n 1 split.csv | grep -q ',target$' || bad "$what: no target: $(head -n 1 split.csv)"
once split.csv ',target$'
while IFS= read -r line; do
    row=$(cut -d, -f2 <<<"$line")
    [ "$(sed -n "$((row + 2))p" all.csv | cut -d, -f3 | tr -d '"' )" = "$(sed 's/.*,//' <<<"$line" | tr -d '"')" ] || bad "row $row has another target: $line"
done < <(tail -n +2 split.csv)
try 0 predict runs/texts --wrong --set loss.class_weights=balanced
times "$(sed -n 's/^the worst \([0-9]*\) of.*/\1/p' out)" out '^eval '

# ---- another order, and what does not fit
try 0 train texts.yaml --set run.name=order --set 'data.class_names.state="ok,warning,failure,a \"b\" c"'
try 0 eval runs/order
has out '^ +0  ok '
refused 2 'all.csv:state has 4 classes \(a "b" c,failure,ok,warning\), and the model has 3' train texts.yaml --set run.name=x --set 'model.outputs={state: [3]}'
refused 1 'line 3, column "state": "a "b" c" is not one of the classes ok,warning,bad,worse' train texts.yaml --set run.name=x --set data.class_names.state=ok,warning,bad,worse
sed 's/warning/late/' all.csv >late.csv
refused 1 'late.csv line [0-9]+, column "state": "late" is not one of the classes a "b" c,failure,ok,warning' train texts.yaml --set run.name=x --set data.eval_fraction=0.05 --set 'data.eval={x: "late.csv:a,b", state: "late.csv:state"}'
refused 2 "data.class_names: no loss of type cross_entropy has the target 'x'" train texts.yaml --set run.name=x --set data.class_names.x=a,b
awk 'BEGIN { print "a,b,state"; for (i = 0; i < 1100; i++) print i ",1,name " i }' >ids.csv
refused 2 'ids.csv: column "state" has more than 1024 different texts: are they classes\?' train texts.yaml --set run.name=x --set 'data.train={x: "ids.csv:a,b", state: "ids.csv:state"}'

# ---- labels that are missing, and a word for a missing value that is a class
awk -F, 'NR > 1 { $3 = (NR % 3 == 0) ? "None" : NR % 3 == 1 ? "high" : "low" } { print $1 "," $2 "," $3 }' <(cut -d, -f1,2 all.csv | sed '1s/$/,state/') >none.csv
none=(--set run.name=none --set 'data.train={x: "none.csv:a,b", state: "none.csv:state"}' --set 'model.outputs={state: [3]}')
refused 1 'none.csv line 3, column "state": the label is missing, as None reads as a missing value; if it is a class, name all of them in class_names, else leave the row out' train texts.yaml "${none[@]}"
try 0 train texts.yaml "${none[@]}" --set data.class_names.state=None,low,high
try 0 data texts.yaml "${none[@]}" --set data.class_names.state=None,low,high; has out '^None +[1-9]'
sed -i 's/None//' none.csv
refused 1 'none.csv line 3, column "state": the label is missing; fill the cell or leave the row out' train texts.yaml "${none[@]}" --set run.name=x
sed -i 's/low/0/; s/high/1/' none.csv
refused 1 'none.csv row 1: state is missing: the cell is empty, or NaN, NA, null or None' train texts.yaml "${none[@]}" --set run.name=x
finish

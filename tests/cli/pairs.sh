#!/bin/bash
# pairs.sh COMMAND - a T5 on pairs of texts as a user meets it: the loss falls, one and two ranks give the same bytes, a run is resumed, evaluated, planned
# and begun with another's weights; CSV and JSON lines say the same; and what goes wrong, one message each.
source "$(dirname "$0")/common.sh"

# what is said last is the summary
names=(cat dog owl fox hen rat)
{
    echo text,headline
    for i in $(seq 48); do echo "\"the ${names[i % 6]} and the ${names[i / 6 % 6]}, they say: ${names[i * 5 % 6]}\",${names[i * 5 % 6]}"; done
} >pairs.csv
cat >recipe.yaml <<'EOT'
model: {type: t5, vocab_size: 257, layers: 2, heads: 2, hidden_size: 16, mlp_size: 32, position_buckets: 8, position_distance: 16, tied: true}
data: {type: pairs, train_text: pairs.csv, source: text, target: headline, tokenizer: bytes, source_length: 48, target_length: 5, eval_fraction: 0.2}
train: {epochs: 6, global_batch: 8, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
log: {every: 4}
parallel: {units: "class:T5Block", recompute: units}
EOT

# ---- it learns; another run on two ranks, a third in two parts, a fourth from weights
try 0 train recipe.yaml --set run.name=whole
has err "model  t5  "; has err "tokens/s"
last=$(grep -oE 'train loss [0-9.]+' err | tail -1 | cut -d' ' -f3)
awk "BEGIN { exit !($last < 3) }" || bad "$what: the loss is $last after 6 epochs, and was 5.5" # ln 257
try 0 train recipe.yaml --set run.name=two --workers 2; same two
try 0 train recipe.yaml --set run.name=table --workers 2 --set "parallel.units=[class:T5Block, class:Embedding]"; same table
try 0 explain recipe.yaml --workers 2 --set parallel.units=class:Embedding --param shared.weight; has out "unit shared"
try 0 train recipe.yaml --set run.name=mixed --workers 2 --set precision.param=bf16 --set precision.modules=class:Embedding=f32 --set train.steps=2
try 0 train recipe.yaml --set run.name=hybrid --workers 4 --set train.micro_batch=2 --set train.steps=2 --set "parallel={data: hybrid, mesh: {dp: auto, shard: 2}}"
try 0 train recipe.yaml --set run.name=parts --set train.steps=3
try 0 train recipe.yaml --set run.name=parts --set train.steps=0; has err "continues after step 3"; same parts
try 0 eval runs/whole; has out "perplexity"
refused 2 "--set model.layers: the weights are those of another model: .*does not fit the model" eval runs/whole --set model.layers=3
refused 2 "--set model.layers: the weights are those of another model: " predict runs/whole --prompt x --set model.layers=3
refused 2 "--set device_memory: a step needs .* may use 100 KiB" train recipe.yaml --set run.name=x --set device_memory=100KiB
has runs/whole/checkpoints/latest/config.json '"architectures":\["T5ForConditionalGeneration"\]'
sed 's#^model:.*#model: {type: t5, init: runs/whole/checkpoints/latest}#' recipe.yaml >again.yaml # its config.json says the sizes
try 0 train again.yaml --set run.name=again --set train.steps=1; has runs/again/recipe.yaml "hidden_size: 16"; has runs/again/recipe.yaml "position_buckets: 8"
first=$(grep -oE 'loss [0-9.]+' err | head -1 | cut -d' ' -f2)
awk "BEGIN { exit !($first < 3) }" || bad "$what: begins with a loss of $first"
try 0 train recipe.yaml --set run.name=tp --workers 2 --set "parallel.mesh={dp: auto, tp: 2}" --set train.steps=2; has err "dp=1 x tp=2"
try 0 train recipe.yaml --set run.name=cp --workers 2 --set "parallel.mesh={cp: 2}" --set data.target_length=6 --set train.steps=2; has err "cp=2"
try 0 plan recipe.yaml --workers 2; has out "samples of 48 and 5 tokens"
try 0 explain recipe.yaml --param encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight; has out "position_bias_grad"
try 0 inspect recipe.yaml; has out "EncDecAttention"

# ---- CSV and JSON lines are one; prefix, limits, the rate cut after each epoch; no data is needed to plan
sed 's/^text,headline$/headline,title,text/; t; s/^\(".*"\),\(.*\)$/\2,"a ""title""",\1/' pairs.csv >columns.csv
sed '1d; s/^"\(.*\)",\(.*\)$/{"headline": ["\2", "no"], "text": ["\1"]}/' pairs.csv >pairs.jsonl
for other in columns.csv pairs.jsonl; do
    try 0 train recipe.yaml --set run.name="$other" --set data.train_text="$other"; has err "tokenized $other: 48 pairs"; same "$other"
done
has err "pairs: 38 \+ 10 samples, pairs.jsonl \(38 of 48 pairs, [0-9]+ tokens; cut: 0 sources to 48, 0 targets to 5; tokenizer bytes\)"
try 0 train recipe.yaml --set run.name=few --set data.prefix='"sum: "' --set data.source_length=16 --set data.train_samples=16 --set data.eval_samples=2 \
    --set "schedule={type: step, step_epochs: 1, gamma: 0.5}"
has err "pairs: 16 \+ 2 samples"; has err "cut: 16 sources to 16"
has runs/few/metrics.jsonl '"step":2,"epoch":0,.*"lr":0.01,'; has runs/few/metrics.jsonl '"step":3,"epoch":1,.*"lr":0.005,'
try 0 plan recipe.yaml --set data.train_text=none.csv

# ---- what goes wrong, and what it cannot do
refused 2 "\"text\" is also data.source" train recipe.yaml --set run.name=x --set data.target=text
refused 2 "data.type: pairs needs data.train_text" train recipe.yaml --set run.name=x --set data.train_text=
refused 2 "--set data.target: pairs.csv has no column \"summary\"; its first line names: text, headline" train recipe.yaml --set run.name=x --set data.target=summary
refused 2 "--set model.vocab_size: the tokenizer .*the model's vocabulary is 256: set it to 257" train recipe.yaml --set run.name=x --set model.vocab_size=256
printf 'text,headline\na,b\nc\n' >ragged.csv
refused 1 "ragged.csv, pair at line 3: 1 fields" train recipe.yaml --set run.name=x --set data.train_text=ragged.csv

# ---- it writes what it read about: one text, a whole split, ROUGE; alone and from a folder as Hugging Face's
refused 2 "a T5 needs --prompt TEXT, .* or --out FILE.jsonl" predict runs/whole
has runs/whole/checkpoints/latest/config.json '"eos_token_id":256' # transformers' generate stops there
try 0 predict runs/whole --prompt "the cat and the owl, they say: rat" --tokens 5; grep -qE '^[a-z]+$' out || bad "$what: $(cat out)"
cp out greedy
try 0 predict runs/whole/checkpoints/latest --prompt "the cat and the owl, they say: rat" --tokens 5 --json; has out '"ended_by":"end token"'
has out "\"text\":\"$(cat greedy)\""
try 0 predict runs/whole --prompt "the cat and the owl, they say: rat" --tokens 5 --beams 4 --length-penalty 2 --early-stopping true; has err "tokens/s"
try 0 predict runs/whole --prompt "$(cat pairs.csv)" --tokens 3; has err "is cut to 48, as in training; --set data.source_length="
mkdir folder; cp runs/whole/checkpoints/latest/{config.json,model.safetensors} folder/
try 0 predict folder --set data.tokenizer=bytes --prompt "the cat and the owl, they say: rat" --tokens 5; cmp -s out greedy || bad "$what: a folder says something else"
try 0 predict runs/whole --out eval.jsonl --tokens 5; has err "10 texts in eval.jsonl"
[ "$(wc -l <eval.jsonl)" = 10 ] || bad "$what: not a line for each of 10 samples"
has eval.jsonl '^\{"sample":0,"text":"[a-z]*","target":"[a-z]{3}"\}'
try 0 predict runs/whole --random 4 --seed 2 --out drawn.jsonl --tokens 5; has err "4 texts in drawn.jsonl"
while read -r line; do grep -qxF "$line" eval.jsonl || bad "$what: not in eval.jsonl: $line"; done <drawn.jsonl
[ "$(sort -u drawn.jsonl | wc -l)" = 4 ] || bad "$what: a sample twice"
if cmp -s drawn.jsonl <(head -n 4 eval.jsonl); then bad "$what: the first samples"; fi
try 0 predict runs/whole --random 99 --seed 2 --out drawn.jsonl --tokens 5; cmp <(sort drawn.jsonl) <(sort eval.jsonl) || bad "$what: not all samples"
refused 2 "first 10 --count .*the split has samples 0 to 9" predict runs/whole --first 10 --out x.jsonl --tokens 5
# interrupted, it leaves what had the name before, and no file beside it unless it was killed
sleep 3; try 0 predict runs/whole --out eval.jsonl --tokens 5 # the digest of data older than 2 s is remembered: a write less
cp eval.jsonl all.jsonl; cp eval.jsonl before.jsonl; rm eval.jsonl
for point in write@0 sync@0 name@0; do
    LOCKSTEP_FAIL=$point try 1 predict runs/whole --out before.jsonl --tokens 4
    LOCKSTEP_FAIL=$point try 1 predict runs/whole --out eval.jsonl --tokens 4; has err "^error: eval.jsonl"
    ls *.tmp-* >/dev/null 2>&1 && bad "$what: $(ls *.tmp-*) is left"
    LOCKSTEP_FAIL=$point:kill try 137 predict runs/whole --out eval.jsonl --tokens 4
    [ ! -e eval.jsonl ] || bad "$what: killed at $point, it leaves a part of a file"
    rm -f eval.jsonl.tmp-*
    LOCKSTEP_FAIL=any@200:kill try 137 predict runs/whole --out eval.jsonl --tokens 4 # while texts are made
    [ -z "$(ls eval.jsonl* 2>/dev/null)" ] || bad "$what: killed while it makes texts, it leaves $(ls eval.jsonl*)"
    rm -f eval.jsonl.tmp-*
done
cmp -s before.jsonl all.jsonl || bad "$what: the file that had the name is another"
try 0 predict runs/whole --out drawn.jsonl --tokens 5 --temperature 1 --seed 2 --first 1 --count 4
try 0 predict runs/whole --out later.jsonl --tokens 5 --temperature 1 --seed 2 --first 3 --count 2
tail -n 2 drawn.jsonl | cmp - later.jsonl || bad "$what: what is drawn for a sample depends on where its batch begins"
try 0 predict runs/whole --out more.jsonl --tokens 5 --beams 3 --split train --first 2 --count 3; [ "$(wc -l <more.jsonl)" = 3 ] || bad "$what: not three lines"
try 0 eval runs/whole --generate --tokens 5; has out "^rouge1 [0-9.]+  rouge2 0.0000  rougeL [0-9.]+  \(10 texts\)"
right=$(sed -E 's/.*"text":"([^"]*)","target":"([^"]*)".*/\1 \2/' all.jsonl | awk '$1 == $2 { n++ } END { printf "%.4f", n / NR }')
has out "^rouge1 $right"
try 0 eval runs/whole --generate --tokens 5 --beams 4 --json; has out '"rougeL":'

# ---- ROUGE during training: numbers of `eval --generate`, on any ranks; nothing else changes, also in two parts
other=(--set data.source=headline --set data.target=text --set data.source_length=8 --set data.target_length=48)
rouge=("${other[@]}" --set "eval.generate={tokens: 40, beams: 2, no_repeat: 3, length_penalty: 0.5}" --set "checkpoint.best={metric: eval_rouge2, mode: max}")
means() { grep '"kind":"eval"' "runs/$1/metrics.jsonl" | grep -oE '"rouge1":[^,]*,"rouge2":[^,]*,"rougeL":[^,]*'; }
try 0 train recipe.yaml --set run.name=mute "${other[@]}"
try 0 train recipe.yaml --set run.name=rouge "${rouge[@]}"; has err "rouge1 0[.0-9]*  rouge2 0[.0-9]*  rougeL 0[.0-9]*"
cmp runs/mute/checkpoints/latest/model.safetensors runs/rouge/checkpoints/latest/model.safetensors || bad "$what: generating changed the weights"
[ "$(means rouge | sort -u | wc -l)" -ge 3 ] || bad "$what: the same means for different weights: $(means rouge)"
has runs/rouge/metrics.jsonl '"kind":"epoch","epoch":5,.*"eval_rouge1":.*"eval_texts":10'
has runs/rouge/result.json '"metric":"eval_rouge2"'; has runs/rouge/result.json '"eval_rougeL":'; has runs/rouge/report.html "evaluation rougeL"
for at in latest best; do
    try 0 eval "runs/rouge/checkpoints/$at" --generate --tokens 40 --beams 2 --no-repeat 3 --length-penalty 0.5 --json
    means rouge | grep -qxF "$(grep -oE '"rouge1":[^,]*,"rouge2":[^,]*,"rougeL":[^,]*' out)" || bad "$what: other means than in training"
done
most=$(means rouge | sed 's/.*"rouge2":\([^,]*\),.*/\1/' | sort -g | tail -1); has out "\"rouge2\":$most,"
try 0 train recipe.yaml --set run.name=rouge2 --workers 2 "${rouge[@]}"
[ "$(means rouge2)" = "$(means rouge)" ] || bad "$what: other means on two ranks: $(means rouge2)"
try 0 train recipe.yaml --set run.name=rouge3 --workers 2 "${rouge[@]}" --set parallel.data=ddp --set eval.generate.samples=7 --set train.epochs=1
has runs/rouge3/metrics.jsonl '"rougeL":.*"texts":7,'
try 0 train recipe.yaml --set run.name=rougetp --workers 2 "${rouge[@]}" --set "parallel.mesh={dp: auto, tp: 2}" --set train.epochs=1; has err "rougeL"
try 0 train recipe.yaml --set run.name=again2 "${rouge[@]}" --set train.steps=10
try 0 train recipe.yaml --set run.name=again2 "${rouge[@]}" --set train.steps=0 --workers 2
[ "$(means again2 | tail -3)" = "$(means rouge | tail -3)" ] || bad "$what: other means after a resume"
cmp runs/rouge/checkpoints/latest/optimizer.safetensors runs/again2/checkpoints/latest/optimizer.safetensors || bad "$what: another optimizer state"
# stopped while it generates, on one rank and on two: after a text, and the next start generates all of them
for workers in 1 2; do
    "$lockstep" train recipe.yaml --set run.name=stopped --workers $workers "${rouge[@]}" --set eval.generate.tokens=20000 >out 2>err </dev/null &
    run=$! what="stopped on $workers"
    until_true grep -q '"doing":"generating"' runs/stopped/log/rank-0.heartbeat.json
    sleep 0.3; SECONDS=0
    kill -TERM $run; wait $run; got=$?
    [ $got -eq 75 ] || bad "$what: exit status $got"
    [ $SECONDS -lt 20 ] || bad "$what: took $SECONDS s" # 20000 tokens take minutes
    has err "^stopped in the evaluation after step 4 of 24 on request"
    times 0 runs/stopped/metrics.jsonl '"kind":"(eval|epoch)"'
    [ $workers = 2 ] || rm -r runs/stopped
done
has runs/again2/result.json "\"value\":$most,"
refused 2 "eval_rougeL needs eval.generate.tokens" train recipe.yaml --set run.name=x --set "checkpoint.best={metric: eval_rougeL, mode: max}"
refused 2 "checkpoint.best.metric: the model has no metric eval_acuracy; there are train_loss, eval_loss, eval_accuracy; is it eval_accuracy\?" \
    train recipe.yaml --set run.name=x --dry-run --set "checkpoint.best={metric: eval_acuracy, mode: max}"
refused 2 "eval_rouge1 is better when it is larger: set checkpoint.best.mode: max" train recipe.yaml --set run.name=x --set eval.generate.tokens=5 \
    --set "checkpoint.best={metric: eval_rouge1, mode: min}"
try 0 predict runs/whole --prompt "the cat and the owl, they say: rat" --tokens 5; cp out said
try 0 predict runs/whole --prompt "the cat and the owl, they say: rat" --tokens 5 --workers 2; cmp out said || bad "$what: another text"
refused 2 "leave out workers" eval runs/whole --generate --workers 2
refused 2 "--beams needs --prompt TEXT or --out FILE.jsonl" predict runs/whole --beams 2
refused 2 "--length-penalty needs --beams N" predict runs/whole --prompt x --length-penalty 2
refused 2 "beam search does not sample" predict runs/whole --prompt x --beams 2 --temperature 1
refused 2 "--early-stopping maybe: false, true or never" predict runs/whole --prompt x --beams 2 --early-stopping maybe
refused 2 "--tokens needs --generate" eval runs/whole --tokens 5
refused 2 "a T5 needs --prompt TEXT, .* or --out FILE.jsonl" predict runs/whole --out texts.csv
refused 2 "must end in .svg or .png for a picture, or in .npy, .csv or .jsonl" predict runs/whole --out texts.txt
refused 1 "none/eval.jsonl" predict runs/whole --out none/eval.jsonl
refused 2 "3 heads do not divide hidden_size 16" plan recipe.yaml --set model.heads=3
finish

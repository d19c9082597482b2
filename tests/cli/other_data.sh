#!/bin/bash
# other_data.sh COMMAND - a run knows its data and its tokenizer: what was put in their place is refused, named, and noted where it is allowed; eval and
# predict say it; the epochs that are asked for are done, however large the data is now.
source "$(dirname "$0")/common.sh"

# idx IMAGES LABELS N LABEL: N images of 4 x 4, noise, all of one class
idx() {
    { printf '\0\0\010\003\0\0\0'; printf "\\$(printf %o "$3")"; printf '\0\0\0\004\0\0\0\004'; head -c $((16 * $3)) /dev/urandom; } >"$1"
    { printf '\0\0\010\001\0\0\0'; printf "\\$(printf %o "$3")"; head -c "$3" /dev/zero | tr '\000' "\\$(printf %o "$4")"; } >"$2"
}
idx images labels 64 3
idx eval_images eval_labels 32 3
cat >small.yaml <<END
model: {type: mlp, image_size: 4, hidden: [8]}
data: {type: idx, train_images: images, train_labels: labels, eval_images: eval_images, eval_labels: eval_labels}
train: {epochs: 4, global_batch: 16, micro_batch: 8}
optimizer: {lr: 1e-2}
threads: 1
END
epochs() { grep -o '"kind":"epoch","epoch":[0-9]*,"step":[0-9]*,"samples":[0-9]*' "runs/$1/metrics.jsonl" | sed 's/[^0-9]*\([0-9]*\)[^0-9]*\([0-9]*\)[^0-9]*/\1:\2:/' | tr '\n' ' '; }

try 0 train small.yaml --set run.name=a
has runs/a/checkpoints/latest/trainer.json '"data":\{"train":\{"builtin":false,"samples":64,"digest":"[0-9a-f]{16}","files":\[\{"what":"images","path":"images","digest":'
cp -r runs/a runs/b
gzip -k images && mv images images.kept && mv images.gz images # the same data in another form
try 0 train small.yaml --set run.name=a; has err "nothing to do"
try 0 eval runs/a; times 0 err "other data"
try 0 predict runs/a --split train --count 2; times 0 err "other data"
mv images.kept images

# ---- other content under the same name
cp labels labels.kept; printf '\004' | dd of=labels bs=1 seek=20 conv=notrunc 2>/dev/null
for workers in 1 2; do
    refused 2 "was made with other settings: training data: labels labels \(other content\) \(the samples; .*--allow-change" train small.yaml --set run.name=a --set train.epochs=5 --workers $workers
done
try 0 eval runs/a; times 0 err "other data" # the evaluation split is what it was
try 0 predict runs/a --split train --count 2; once err "was made with other data: training data: labels labels \(other content\)"
mv labels.kept labels

# ---- evaluation data: what was the best on the old ones is not compared with the new ones
has runs/a/result.json '"best":\{"metric":"eval_loss","value":[0-9.e-]*,"step":16,'
idx eval_images eval_labels 32 5
try 0 eval runs/a; once err "was made with other data: evaluation data: images eval_images \(other content\), labels eval_labels \(other content\)"
try 0 eval runs/a --json; has out '"other_data":"evaluation data: '
refused 2 "evaluation data: images eval_images \(other content\)" train small.yaml --set run.name=a --set train.epochs=5
try 0 train small.yaml --set run.name=a --set train.epochs=5 --allow-change; has err "changed since .*evaluation data: "; has err "best so far"
has runs/a/result.json '"best":\{"metric":"eval_loss","value":[0-9.e-]*,"step":20,'
[ "$(readlink runs/a/checkpoints/best)" = step-00000020 ] || bad "$what: the best is that of the old data"
has runs/a/result.json '"path":"checkpoints/step-00000016","step":16,"epoch":3,"metrics":\{"loss":[0-9.e-]*\}'
once runs/a/metrics.jsonl '^\{"kind":"change","step":16,"what":"evaluation data: .*,"attempt":1\}$'
try 0 runs --metrics a; has out "attempt 1 began after step 16: started again with --allow-change: evaluation data"
try 0 train small.yaml --set run.name=a --set train.epochs=6 # the change is over
once runs/a/metrics.jsonl '"kind":"change"'
has runs/a/metrics.jsonl '"epoch":5,"step":24'

# ---- fewer samples: refused; allowed, the epochs asked for are done, also when it stops on its way and goes on with other ranks
idx images labels 32 3
refused 2 "training data: images images \(other content\), labels labels \(other content\); 32 samples here, 64 there; evaluation data" train small.yaml --set run.name=b --set train.epochs=7
cp -r runs/b runs/whole
try 0 train small.yaml --set run.name=whole --set train.epochs=7 --allow-change; has err "an epoch has 2 steps now, and had 4: epoch 4 begins as planned after step 16"
[ "$(epochs whole)" = "0:4:64 1:8:64 2:12:64 3:16:64 4:18:32 5:20:32 6:22:32 " ] || bad "$what: epochs $(epochs whole)"
try 0 train small.yaml --set run.name=whole --set train.epochs=7; has err "finished: 22 steps.*nothing to do"
try 0 train small.yaml --set run.name=b --set train.epochs=7 --set train.steps=19 --allow-change
try 0 train small.yaml --set run.name=b --set train.epochs=7 --workers 2; has err "continues after step 19 of 22"
same b
# in mid-epoch it begins anew; and more samples are fewer epochs' steps before
idx images labels 64 3
try 0 train small.yaml --set run.name=b --set train.epochs=9 --set train.steps=25 --allow-change; has err "an epoch has 4 steps now, and had 2: epoch 7 begins as planned after step 22"
idx images labels 32 4
try 0 train small.yaml --set run.name=b --set train.epochs=9 --allow-change; has err "an epoch has 2 steps now, and had 4: epoch 7 begins anew after step 25"
[ "$(epochs b | grep -o ' 7:.*')" = " 7:25:48 7:27:32 8:29:32 " ] || bad "$what: epochs $(epochs b)"
has runs/b/result.json '"state":"finished"'

# ---- the built-in shapes in place of real data, and the other way round
mkdir -p real/mnist
for part in train t10k; do
    { printf '\0\0\010\003\0\0\0\100\0\0\0\034\0\0\0\034'; head -c 50176 /dev/urandom; } >real/mnist/$part-images-idx3-ubyte
    { printf '\0\0\010\001\0\0\0\100'; head -c 64 /dev/zero; } >real/mnist/$part-labels-idx1-ubyte
done
sed 's/image_size: 4/image_size: 28/; s/^data:.*/data: {type: mnist, download: false}/' small.yaml >mnist.yaml
try 0 train mnist.yaml --set data.path=real --set train.steps=2 --set run.name=real
try 0 train mnist.yaml --set train.steps=2 --set eval.every_epochs=-1 --set run.name=shapes
refused 2 "training data: the built-in shapes here, the real ones there" train mnist.yaml --set run.name=real --set train.steps=3
refused 2 "training data: the real ones here, the built-in shapes there" train mnist.yaml --set data.path=real --set run.name=shapes --set train.steps=3
try 0 eval runs/real --set data.path=; once err "made with other data: evaluation data: the built-in shapes here, the real ones there"
try 0 eval runs/shapes --set data.path=real; once err "made with other data: evaluation data: the real ones here, the built-in shapes there"
try 0 predict runs/shapes --count 2 --set data.path=real; once err "made with other data: evaluation data: the real ones here, the built-in shapes there"
try 0 predict runs/shapes --count 2; times 0 err "made with other data"

# apart ARGS...: two ranks as another launcher starts them, each with its own LOCKSTEP_DATA, as on two hosts
apart() {
    local rank
    what="two ranks: $*"
    for rank in 1 0; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=$$ LOCKSTEP_DATA=$([ $rank = 0 ] && echo real || echo nowhere) "$lockstep" "$@" >out$rank 2>err$rank &
    done
    wait
    cat err0 err1 >err
}
apart train mnist.yaml --set train.steps=2 --set run.name=apart
once err "^error: rank 1: the ranks have found different data: rank 1 has training data: 60000 samples of the built-in shapes, digest [0-9a-f]{16}, rank 0 has training data: 64 samples, digest "
apart eval runs/real --set data.path=
once err "^error: rank 1: the ranks have found different data: rank 1 has evaluation data: 10000 samples of the built-in shapes"

# ---- text: other words, another tokenizer
for i in $(seq 40); do printf 'a line with number %d in it\n' "$i"; done >text.txt
cat >text.yaml <<END
model: {type: llama, layers: 1, heads: 1, hidden_size: 8, mlp_size: 8, vocab_size: 300}
data: {type: text, train_text: text.txt, documents: line, tokenizer: tokenizer.json, end_token: "<e>", seq_length: 16, eval_fraction: 0.2}
train: {steps: 2, global_batch: 4}
threads: 1
END
# A tokenizer of one token a byte: id 1 + the byte's place; ids 97 and 98 can be swapped
words=""; for i in $(seq 33 126); do case $i in 34) c='\"';; 92) c='\\';; *) c=$(printf "\\$(printf %o "$i")");; esac; words="$words,\"$c\":$i"; done
printf '{"version":"1.0","added_tokens":[{"id":0,"content":"<e>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"<e>":0%s,"\\u0120":127,"\\u010a":128},"merges":[]}}' "$words" >tokenizer.json
try 0 train text.yaml --set run.name=text
try 0 predict runs/text --prompt "a line" --tokens 2; times 0 err "other data"
cp tokenizer.json kept.json; sed -i 's/"a":97,"b":98/"a":98,"b":97/' tokenizer.json
refused 2 "; tokenizer: tokenizer.json \(other content\)" train text.yaml --set run.name=text --set train.steps=3
try 0 eval runs/text; once err "made with other data: .*tokenizer: tokenizer.json \(other content\)"
try 0 predict runs/text --prompt "a line" --tokens 2; times 0 err "made with other data" # its checkpoint has the tokenizer that it was trained with
try 0 predict runs/text --prompt "a line" --tokens 2 --set data.tokenizer=tokenizer.json; once err "made with other data: tokenizer: tokenizer.json \(other content\)"
refused 2 "tokenizer: bytes here, tokenizer.json there" train text.yaml --set run.name=text --set train.steps=3 --set data.tokenizer=bytes --set data.end_token=
mv kept.json tokenizer.json
mkdir moved && cp text.txt tokenizer.json moved # the same content elsewhere
try 0 train text.yaml --set run.name=moved
try 0 train text.yaml --set run.name=moved --set train.steps=3 --set data.train_text=moved/text.txt --set data.tokenizer=moved/tokenizer.json
sed -i 's/number 7 /number 8 /' text.txt
refused 2 "training data: text text.txt \(other content\)" train text.yaml --set run.name=text --set train.steps=3
sed -i 's/a line/one line/' text.txt
try 0 eval runs/text; once err "made with other data: evaluation data: text text.txt \(other content\); 15 samples here, 14 there$"

# ---- what cannot come to anything is not computed, on any number of ranks: f16 that overflows in every step, data of another kind than the model's
printf 'model: {type: llama}\ndata: {type: shapes}\n' >seen.yaml
printf 'model: {type: vit}\ndata: {type: text, train_text: text.txt, tokenizer: bytes}\n' >read.yaml
for workers in 1 2; do
    refused 1 "step 1 \(epoch 0\): the loss of micro-batch [01] is not a number, which no loss scale mends" train small.yaml --set run.name=half-$workers --set precision.param=f16 --set data.std=1e-9 --workers $workers
    has runs/half-$workers/result.json '"state":"failed"'
    refused 2 "shapes is for models of images .vit, .*, and model.type llama is one of text" train seen.yaml --set run.name=x --workers $workers
    refused 2 "text is for models of text .llama, qwen2, [a-z0-9_, ]*., and model.type vit is one of images" train read.yaml --set run.name=x --workers $workers
done
finish

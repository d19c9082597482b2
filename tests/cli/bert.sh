#!/usr/bin/env bash
# bert.sh COMMAND GOLDEN - classes of texts in a table by a BERT from Hugging Face's folder: the losses of transformers in float64, the bits of one rank on
# several, and after a restart; tensor parallel within rounding; predictions for new texts; what does not fit is refused.
source "$(dirname "$0")/common.sh"
golden=$2
cp "$golden/texts.csv" .
cat >bert.yaml <<EOT
model: {init: $golden, inputs: {review: [12]}, outputs: {kind: [3]}}
data: {type: arrays, train: {review: texts.csv, kind: texts.csv}, eval: {review: texts.csv, kind: texts.csv}, tokenizer: $golden, shuffle: false}
loss: {type: cross_entropy, of: kind}
train: {epochs: 6, global_batch: 8, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-2, weight_decay: 0.01}
checkpoint: {every_steps: 1}
log: {every: 1}
threads: 1
EOT
losses() { grep -o '"kind":"step".*' "runs/$1/metrics.jsonl" | grep -o '"loss":[^,]*' | cut -d: -f2; }
near() { # NAME: its losses are transformers'
    losses "$1" >have
    grep -o '"losses": \[[^]]*' "$golden/expected.json" | tr -d '[' | cut -d: -f2 | tr ',' '\n' >want
    paste have want | awk -v tolerance="$2" '{ d = ($1 - $2) / $2; if (d * d > tolerance * tolerance) bad = 1 } END { exit bad || NR != 6 }' ||
        { bad "$1: other losses than transformers'"; paste have want; }
}
try 0 train bert.yaml
has err 'texts.csv:review \(3 of 8 texts cut to 12 tokens\)'
near bert 1e-5
try 0 train bert.yaml --set run.name=ranks --workers 2 --set parallel.units=class:BertLayer
cmp runs/bert/checkpoints/latest/model.safetensors runs/ranks/checkpoints/latest/model.safetensors || bad "$what: ranks change a bit"
try 0 train bert.yaml --set run.name=tp --workers 2 --set "parallel.mesh={dp: auto, tp: 2}"
near tp 1e-4
try 0 train bert.yaml --set run.name=cp --workers 2 --set "parallel.mesh={cp: 2}"
near cp 1e-4
try 0 train bert.yaml --set run.name=stopped --set train.epochs=3
try 0 train bert.yaml --set run.name=stopped
cmp runs/bert/checkpoints/latest/model.safetensors runs/stopped/checkpoints/latest/model.safetensors || bad "$what: a restart changes a bit"
try 0 train bert.yaml --set run.name=dropout --set model.dropout=0.1 --set model.attention_dropout=0.1 # as published models have it
try 0 train bert.yaml --set run.name=dropout2 --set model.dropout=0.1 --set model.attention_dropout=0.1 --workers 2
cmp runs/dropout/checkpoints/latest/model.safetensors runs/dropout2/checkpoints/latest/model.safetensors || bad "$what: ranks change a bit"
has runs/bert/checkpoints/latest/config.json '"architectures":\["BertForSequenceClassification"\].*"problem_type":"single_label_classification"'
has runs/bert/checkpoints/latest/config.json '"id2label":\{"0":"law","1":"praise","2":"weather"\}'
printf 'review\n"Rough winds do shake"\nLOVE is not love\n' >new.csv
try 0 predict runs/bert new.csv
has out '^row 0 +weather '
has out '^row 1 +law '
try 0 predict runs/bert --wrong --out wrong.csv

# ---- classes of words: at the first token of each, nowhere else
cat >tags.csv <<EOT
words,tags
Shall I compare thee to a summer's day,O PER O PER O O TIME TIME
"Rough winds, do shake",THING  THING O O
coral is red,THING O O
EOT
cat >tags.yaml <<EOT
model: {init: $golden, inputs: {words: [16]}, outputs: {tags: [16, 4]}, reset: classifier}
data: {type: arrays, train: {words: tags.csv, tags: tags.csv}, eval: {words: tags.csv, tags: tags.csv}, tokenizer: $golden}
loss: {type: cross_entropy, of: tags}
train: {epochs: 20, global_batch: 3, micro_batch: 1, drop_last: false}
optimizer: {type: adamw, lr: 1e-2}
threads: 1
EOT
try 0 train tags.yaml
has runs/tags/checkpoints/latest/config.json '"architectures":\["BertForTokenClassification"\].*"id2label":\{"0":"O","1":"PER",.*"label2id":\{"O":0'
has runs/tags/recipe.yaml 'class_names: \{tags: "O,PER,THING,TIME"\}'
try 0 eval runs/tags # of 15 words the last is cut off
has out 'accuracy 1.0000  \(14 of 14\)'
try 0 predict runs/tags # a line for each word
has out '^eval 0 +summer.s +TIME +0'
has out '^eval 0 +day *$' # the text was cut before it
has out '^eval 1 +winds, +THING +0'
times 16 out .
printf 'words\nRough coral is red\n"a, ""b"""\n' >words.csv
try 0 predict runs/tags words.csv --out words.out.csv
has words.out.csv '^sample,word,tags,tags.probability$'
has words.out.csv '^0,coral,THING,0'
has words.out.csv '^1,"a,",'
has words.out.csv '^1,"""b""",'
times 7 words.out.csv .
try 0 predict runs/tags --out words.out.jsonl
once words.out.jsonl '^\{"sample":0,"words":\[\{"word":"Shall","tags":"O","tags.probability":0.*\{"word":"day","tags":null,"tags.probability":null\}\]\}$'
try 0 predict runs/tags words.csv --json
has out '"sample":"row 0","words":\[\{"word":"Rough"'
try 0 predict runs/tags words.csv --output tags --out numbers.csv # of all tokens
has numbers.csv '^sample,tags.0,.*,tags.63$'
try 0 train tags.yaml --set run.name=part --set data.eval={} --set data.eval_fraction=0.4 --set train.epochs=1
try 0 predict runs/part --out part.csv # with the row of the file, whose words they are
has part.csv '^sample,row,word,tags'
has part.csv '^0,[12],(Rough|coral),'
try 0 train tags.yaml --set run.name=tags3 --workers 3
cmp runs/tags/checkpoints/latest/model.safetensors runs/tags3/checkpoints/latest/model.safetensors || bad "$what: ranks change a bit"
sed 's/O O$/O/' tags.csv >short.csv
refused 1 'short.csv line 3, column "tags": 3 classes, and the text has 4 words' eval runs/tags --set "data.eval={words: short.csv, tags: short.csv}"
sed 's/TIME TIME/TIME DAY/' tags.csv >other.csv
refused 1 '"DAY" is not one of the classes O,PER,THING,TIME' eval runs/tags --set "data.eval={words: other.csv, tags: other.csv}"

# ---- pairs of texts: [CLS] first [SEP] second [SEP], with token types
cat >pair.yaml <<EOT
model: {init: $golden, inputs: {pair: [2, 14]}, outputs: {kind: [3]}}
data: {type: arrays, train: {pair: "$golden/pairs.csv:query,passage", kind: $golden/pairs.csv}, eval: {pair: "$golden/pairs.csv:query,passage", kind: $golden/pairs.csv}}
loss: {type: cross_entropy, of: kind}
train: {epochs: 1, global_batch: 8}
optimizer: {type: adamw, lr: 1e-30}
threads: 1
EOT
try 0 train pair.yaml
has err 'pairs.csv:query,passage \(7 of 8 pairs of texts cut to 14 tokens\)'
try 0 predict runs/pair --output kind --out logits.csv
sed 1d logits.csv | cut -d, -f2- | tr ',' '\n' >have
grep -o '"logits": \[[^]]*' "$golden/pairs.json" | tr -d '[' | cut -d: -f2 | tr ',' '\n' >want
paste have want | awk '{ d = $1 - $2; if (d * d > 1e-11) bad = 1 } END { exit bad || NR != 24 }' || { bad "pairs: other logits than transformers'"; paste have want; }
try 0 predict runs/pair "$golden/pairs.csv"
refused 1 'the model takes pair i32 \[2, 14\]' predict runs/pair "$golden/pairs.csv:query"
refused 2 'a pair of texts is two columns, x.csv:FIRST,SECOND, and \[2, tokens\]; here are 1 and 2 dimensions' train pair.yaml --set run.name=no --set "data.train.pair=$golden/pairs.csv:query"
refused 2 '3 tokens leave no room for a text beside 3 special ones' train pair.yaml --set run.name=no --set "model.inputs={pair: [2, 3]}"
refused 2 'does not say what a pair of texts becomes' train pair.yaml --set run.name=no --set data.tokenizer=bytes --set model.init=random --set model.vocab_size=257 --set model.type=bert
refused 2 'a pair of texts has two token types, and the model has 1' train pair.yaml --set run.name=no --set model.token_types=1

# ---- RoBERTa: positions from the padding's id on, no token types, a head of two layers
roberta=$golden/../roberta
cat >roberta.yaml <<EOT
model: {init: $roberta, inputs: {query: [12]}, outputs: {kind: [3]}}
data: {type: arrays, train: {query: $golden/pairs.csv, kind: $golden/pairs.csv}, eval: {query: $golden/pairs.csv, kind: $golden/pairs.csv}, shuffle: false}
loss: {type: cross_entropy, of: kind}
train: {epochs: 4, global_batch: 8, micro_batch: 4}
optimizer: {type: adamw, lr: 1e-2, weight_decay: 0.01}
threads: 1
EOT
try 0 train roberta.yaml
losses roberta >have
grep -o '"losses": \[[^]]*' "$roberta/expected.json" | tr -d '[' | cut -d: -f2 | tr ',' '\n' >want
paste have want | awk '{ d = $1 - $2; if (d * d > 1e-11) bad = 1 } END { exit bad || NR != 4 }' || { bad "roberta: other losses than transformers'"; paste have want; }
has runs/roberta/checkpoints/latest/config.json '"RobertaForSequenceClassification".*"model_type":"roberta"'
pair="{pair: '$golden/pairs.csv:query,passage', kind: $golden/pairs.csv}"
try 0 train roberta.yaml --set run.name=roberta2 --set "model.inputs={pair: [2, 17]}" --set "data.train=$pair" --set "data.eval=$pair" --set optimizer.lr=1e-30 --set train.epochs=1 --set model.dropout=0.1 --workers 2
try 0 predict runs/roberta2 --output kind --out logits.csv
sed 1d logits.csv | cut -d, -f2- | tr ',' '\n' >have
grep -o '"pairs": \[[^]]*' "$roberta/expected.json" | tr -d '[' | cut -d: -f2 | tr ',' '\n' >want
paste have want | awk '{ d = $1 - $2; if (d * d > 1e-11) bad = 1 } END { exit bad || NR != 24 }' || { bad "roberta: other logits of pairs than transformers'"; paste have want; }
refused 2 'query: 19 tokens, and the model has 18 positions' train roberta.yaml --set run.name=no --set "model.inputs={query: [19]}"

# ---- what does not fit
sed '1s/.*/text,kind/' texts.csv >renamed.csv
refused 2 'renamed.csv: its first line has no column "review"' train bert.yaml --set run.name=no --set "data.train={review: renamed.csv, kind: renamed.csv}"
refused 2 'review: 21 tokens, and the model has 20 positions' train bert.yaml --set run.name=no --set "model.inputs={review: [21]}"
refused 2 '2 tokens leave no room for a text beside 2 special ones' train bert.yaml --set run.name=no --set "model.inputs={review: [2]}"
refused 2 'need data.tokenizer' train bert.yaml --set run.name=no --set data.tokenizer=
refused 2 "the tokenizer bytes has ids up to 256, and the model's vocabulary 160" train bert.yaml --set run.name=no --set data.tokenizer=bytes
refused 2 'output kind: a text has \[\] or \[classes\]' train bert.yaml --set run.name=no --set "model.outputs={kind: [5, 3]}"
printf 'review,kind\n"a [PAD] b",law\nlove,praise\nsun,weather\n' >pad.csv
refused 1 'pad.csv line 2, column "review": .*\[PAD\]' train bert.yaml --set run.name=no --set "data.train={review: pad.csv, kind: pad.csv}"
refused 1 'has no tensor classifier.weight|classifier' train bert.yaml --set run.name=no --set "model.outputs={kind: [3], other: [3]}" --set "loss=[{type: cross_entropy, of: kind}, {type: cross_entropy, of: other, target: kind}]"
finish

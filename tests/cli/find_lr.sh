#!/usr/bin/env bash
# find_lr.sh COMMAND - `train --find-lr`: losses over rising rates and a suggestion, the same on two ranks; no run is written, and one that exists does not
# change; its page in a browser, where there is one.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/browser.sh"
awk 'BEGIN { srand(1); print "p,q,r,u,v"; for (i = 0; i < 300; i++) { p = rand(); q = rand(); r = rand(); printf "%.6f,%.6f,%.6f,%.6f,%.6f\n", p, q, r, p + q * q, p * r } }' >train.csv
head -n 76 train.csv >eval.csv

try 0 train mlp-regression --find-lr --html pages/lr.html
has out '^1\.00e-7 +[0-9.]+ +[0-9.]+$'
has out '^suggestion: --set optimizer\.lr=(0\.00|0\.01|[0-9.]+e-[34])[0-9]*, where the loss falls fastest; it is lowest at 0\.[0-9]+$'
has pages/lr.html 'suggestion: --set optimizer\.lr='
[ ! -e runs ] || bad "a search for a learning rate wrote a run"
try 0 train mlp-regression -q --find-lr 60 --json; cp out one
has out '^\{"suggestion":0\.0[0-9]+,"lowest":[0-9.]+,"end":"the loss is (four times its lowest value|not finite)","steps":\[\{"lr":1e-7,"loss":'
try 0 train mlp-regression -q --find-lr=60 --json --workers 2; cmp one out || bad "two ranks find other losses"

# ---- a run of this name stays as it is, and the test begins with the recipe's weights, not with the run's
try 0 train mlp-regression -q --set train.epochs=2; cp -r runs before
try 0 train mlp-regression -q --find-lr 60 --json; cmp one out || bad "a run of this name changes the losses"
diff -r before runs >/dev/null || bad "a search for a learning rate changed a run"

refused 2 'from 20 to 100000' train mlp-regression --find-lr=2
refused 2 '--json needs --find-lr' train mlp-regression --json
refused 2 'writes no run' train mlp-regression --find-lr --profile
cat >own.yaml <<'END'
model: {type: mlp, hidden: [8], inputs: {x: [3]}, outputs: {y: [2]}}
data: {type: arrays, train: {x: "train.csv:p,q,r", y: "train.csv:u,v"}, eval: {x: "eval.csv:p,q,r", y: "eval.csv:u,v"}}
loss: {type: mse, of: y}
train: {global_batch: 32}
optimizer: {type: adafactor}
END
refused 2 'there is none to find' train own.yaml --find-lr
try 0 train mlp-regression --find-lr 20 --set train.global_batch=288

[ $failures -eq 0 ] || finish
browser_start
fine pages/lr.html
whole pages/lr.html
finish

#!/usr/bin/env bash
# arrays.sh COMMAND [MAKE_HDF5] - a regression on tables: trained, evaluated, predicted; killed and resumed on other numbers of ranks with the same bits; weights by sample,
# missing targets, several losses; what does not fit is refused with file, line or key.
source "$(dirname "$0")/common.sh"

# table FILE ROWS SEED: p, q, r, and u and v that follow from them; a weight; a class
table() {
    awk -v n="$2" -v seed="$3" 'BEGIN {
        srand(seed); print "p,q,r,u,v,w,kind"
        for (i = 0; i < n; i++) {
            p = rand(); q = 100 * rand(); r = rand() - 5
            printf "%.6f,%.6f,%.6f,%.6f,%.6f,%d,%d\n", p, q, r, 1000 + 50 * sin(3 * p) + q, p * q * r, i % 3, (p > 0.5) + (r > -4.5)
        }
    }' >"$1"
}
table train.csv 300 1
table eval.csv 75 2

# ---- the bundled recipe: trained, evaluated, predicted in the data's own units
try 0 train mlp-regression --set checkpoint.every_epochs=5
has err 'continues|best'
try 0 eval runs/mlp-regression
has out 'rmse [0-9.]+ +mae [0-9.]+ +r2 0\.9'
try 0 predict runs/mlp-regression --out y.csv
[ "$(head -n 1 y.csv)" = sample,y.0,y.1,target.y.0,target.y.1 ] || bad "y.csv begins with $(head -n 1 y.csv)"
paste -d, <(tail -n +2 eval.csv) <(tail -n +2 y.csv) | awk -F, '{ d = $4 - $9; e += d * d; m += $4; s += $4 * $4 } END { exit !(e < 0.1 * (s - m * m / NR)) }' ||
    bad "the predictions in y.csv are not near u"
try 0 inspect runs/mlp-regression/checkpoints/latest
has out 'deviation'
has runs/mlp-regression/checkpoints/latest/config.json '"loss":.*"data":\{"type":"arrays","train":\{"x": "train.csv:p,q,r"'

# ---- the same bits on 1, 2 and 4 ranks, killed at any point and resumed on other ranks
run=(train mlp-regression -q --set train.micro_batch=8 --set train.epochs=4 --set checkpoint.every_steps=3)
try 0 "${run[@]}" --set run.name=whole
for ranks in 2 4; do
    try 0 "${run[@]}" --set run.name=on$ranks --workers $ranks
    same on$ranks
done
for from in 1 2; do
    "$lockstep" "${run[@]}" --set run.name=killed$from --workers $from >out 2>err &
    until_true test -e runs/killed$from/checkpoints/latest
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    until_true free killed$from
    try 0 "${run[@]}" --set run.name=killed$from --workers $((4 / from))
    same killed$from
done

# ---- the same numbers from HDF5 and from NetCDF-4
if [ -n "${2:-}" ]; then
    for kind in h5 nc; do
        for table in train eval; do "$2" $table.$kind p q r <$table.csv || bad "no $table.$kind"; done
        try 0 "${run[@]}" --set run.name=from_$kind --set data.train.x=train.$kind --set data.eval.x=eval.$kind
        same from_$kind
    done
    try 0 "${run[@]}" --set run.name=named --set data.train.x=train.nc:/x
    same named
    refused 2 'train.nc:z: it has no data set "z"; its first member is "feature"' train mlp-regression --set run.name=none --set data.train.x=train.nc:z
else
    left_out "arrays from HDF5 and NetCDF-4 (Debian: libhdf5-dev)"
fi

# ---- weights, missing targets, two losses, classes
try 0 train mlp-regression -q --set run.name=weighed --set loss.weight=w --set data.train.w=train.csv --set data.eval.w=eval.csv
sed '5s/,[^,]*,\([^,]*,[0-9],[0-9]\)$/,,\1/' train.csv >holes.csv # u of one row is missing
refused 1 'holes.csv row 3: y\[0\] \(column "u"\) is NaN' train mlp-regression --set run.name=holes --set data.train.y=holes.csv:u,v
try 0 train mlp-regression -q --set run.name=holes --set data.train.y=holes.csv:u,v --set data.missing=mask
try 0 train mlp-regression -q --set run.name=two --set model.outputs='{y: [2], kind: [3]}' --set data.train.kind=train.csv --set data.eval.kind=eval.csv \
    --set loss='[{type: huber, of: y, delta: 0.5}, {type: cross_entropy, of: kind, factor: 0.1}]'
try 0 eval runs/two
has out 'huber_y .*cross_entropy_kind .*r2_y .*accuracy_kind'

# ---- scaling comes with the weights of model.init, unless it is asked for again
try 0 train mlp-regression -q --set run.name=more --set model.init=runs/mlp-regression/checkpoints/latest --set train.epochs=1 --set data.train.x=eval.csv:p,q,r --set data.train.y=eval.csv:u,v --set optimizer.lr=0
cmp runs/more/checkpoints/latest/model.safetensors runs/mlp-regression/checkpoints/latest/model.safetensors || bad "scaling or weights are others than those of model.init"
# a run stands for its newest checkpoint
try 0 train mlp-regression --set run.name=of_run --set model.init=runs/mlp-regression --set train.epochs=1 --set data.train.x=eval.csv:p,q,r --set data.train.y=eval.csv:u,v --set optimizer.lr=0
once err "^init   the newest checkpoint of runs/mlp-regression: $(readlink runs/mlp-regression/checkpoints/latest)$"
cmp runs/of_run/checkpoints/latest/model.safetensors runs/more/checkpoints/latest/model.safetensors || bad "$what: other weights than those of the checkpoint"
try 0 train mlp-regression -q --set run.name=again --set model.init=runs/mlp-regression/checkpoints/latest --set train.epochs=1 --set data.train.x=eval.csv:p,q,r --set data.train.y=eval.csv:u,v --set optimizer.lr=0 --set model.refit=true
cmp -s runs/again/checkpoints/latest/model.safetensors runs/mlp-regression/checkpoints/latest/model.safetensors && bad "model.refit: true finds no other scaling"
awk -F, -v OFS=, 'NR > 1 { $3 = 7 } { print }' train.csv >constant.csv
try 0 train mlp-regression --set run.name=constant --set train.epochs=1 --set data.train.x=constant.csv:p,q,r
once err 'scaling: x\[2\] has one value in the training data'

# ---- refusals
refused 2 'no column "rr"; it must have' train mlp-regression --set data.train.x=train.csv:p,q,rr
refused 2 'no such file' train mlp-regression --set data.train.x=nowhere.csv
refused 2 "--set loss: of: model.outputs has no 'z'; did you mean 'y'\\?" train mlp-regression --set loss.of=z
refused 2 'model takes x f32 \[3\], y f32 \[2\].*"x" must be f32 \[3\]' train mlp-regression --set run.name=new --set data.train.x=train.csv:p,q
refused 2 'eval.csv:kind has.*no "y"|no "y"' train mlp-regression --set run.name=new --set data.eval='{x: "eval.csv:p,q,r", kind: eval.csv}'
head -n 100 train.csv >short.csv
refused 2 'train.csv:u,v has 300 rows, and short.csv:p,q,r 99' train mlp-regression --set data.train.x=short.csv:p,q,r
finish

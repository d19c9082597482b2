#!/bin/bash
# storage.sh COMMAND SERVER PROGRAM EXAMPLE - a run whose storage is a bucket: a server of our own (tests/net/s3/server.c), a machine whose disk is empty, a process that is
# killed in the middle of an upload, a server that is busy, full, or refuses the keys.
server=$2 program=$3 example=$4
source "$(dirname "$0")/common.sh"
needs curl
bucket_server "$server"
control() { exec 3<>"/dev/tcp/127.0.0.1/${AWS_ENDPOINT_URL##*:}"; printf 'PUT /control/%s HTTP/1.1\r\n\r\n' "$1" >&3; cat <&3 >/dev/null; exec 3>&-; }
machine() { export LOCKSTEP_CACHE=$work/$1; mkdir -p "$1"; } # another one, as far as the disk goes

cat >r.yaml <<END
run: {name: whole, storage: runs}
model: {type: mlp, hidden: [6000]}
data: {type: shapes}
train: {epochs: 1, steps: 8, global_batch: 8}
eval: {every_epochs: -1}
checkpoint: {every_steps: 4, keep: 1}
threads: 1
END
bucket() { sed "s|name: whole, storage: runs|name: $1, storage: \"s3://bucket/my runs\"|" r.yaml >"$1.yaml"; }
stored() { echo "$LOCKSTEP_CACHE/storage/bucket/my runs/$1"; }
equal() { for f in model optimizer; do cmp "runs/whole/checkpoints/latest/$f.safetensors" "$(stored "$1")/checkpoints/latest/$f.safetensors" || bad "$1: another $f"; done; }
machine first
try 0 train r.yaml

# ---- a run, its files there; another machine finds it finished, and goes on when there is more to do
bucket plain
try 0 train plain.yaml; equal plain
has requests "^PUT /bucket/my runs/plain/checkpoints/step-00000008/model.safetensors\?partNumber=2&uploadId=id$"
bucket judged; try 0 train judged.yaml --set eval.every_epochs=1 --set 'model.hidden=[8]'; has requests "^PUT .*/judged/confusion.json"
# the manifest is written behind all other files, once, and removed before them
times 1 requests "^PUT .*/plain/checkpoints/step-00000008/manifest.json"
grep -E '^(PUT|POST) .*/plain/checkpoints/step-00000008/' requests | tail -n 1 >last; has last 'manifest.json'
grep -E '^DELETE .*/plain/checkpoints/step-00000004/' requests >gone; [ "$(wc -l <gone)" -gt 1 ] || bad "plain: the first checkpoint stays"
head -n 1 gone >first-gone; has first-gone 'manifest.json'
machine second
try 0 train plain.yaml; has err "fetching s3://bucket/my runs/plain"; has err "is finished: 8 steps"
try 0 inspect "$(stored plain)/checkpoints/latest" --verify; has out "tensors"
try 0 eval "$(stored plain)"

# ---- the same step of other weights, trained without the bucket: takes the other one's place, though its manifest has the same size
bucket twin
machine first
try 0 train twin.yaml
echo half >"$(stored twin)/result.json.tmp-$$-0123abcd" # what a living process is writing stays here, and is not sent
try 0 train twin.yaml; times 1 requests "^PUT .*/twin/checkpoints/step-00000008/manifest.json" # nothing to send
times 0 requests "^PUT .*\.tmp-"
[ -s "$(stored twin)/result.json.tmp-$$-0123abcd" ] || bad "twin: a file of a living process is gone"
rm "$(stored twin)/result.json.tmp-$$-0123abcd"
before=$(stat -Lc %s "$(stored twin)/checkpoints/latest/manifest.json")
machine apart
try 0 train r.yaml --set run.name=twin --set run.seed=5 --set run.storage="$(stored .)"
[ "$(stat -Lc %s "$(stored twin)/checkpoints/latest/manifest.json")" = "$before" ] || bad "twin: a manifest of another size"
try 0 train twin.yaml --set run.seed=5; times 2 requests "^PUT .*/twin/checkpoints/step-00000008/manifest.json"

# ---- half of the steps here, the others on two ranks of another machine: the same bits
bucket moved
machine first
try 0 train moved.yaml --set train.micro_batch=4 --set train.steps=4
machine second
try 0 train moved.yaml --set train.micro_batch=4 --workers 2
machine third
try 0 train r.yaml --set run.name=halves --set train.micro_batch=4
cmp runs/halves/checkpoints/latest/model.safetensors "$work/second/storage/bucket/my runs/moved/checkpoints/latest/model.safetensors" || bad "moved: other weights"

# ---- a file for each rank: half of the steps on two ranks, the others on one, of another machine
bucket ranks
machine first
try 0 train ranks.yaml --set checkpoint.files=per_rank --set train.micro_batch=4 --workers 2 --set train.steps=4
has requests "^PUT /bucket/my runs/ranks/checkpoints/step-00000004/optimizer-rank-00001.safetensors"
machine second
try 0 train ranks.yaml --set train.micro_batch=4; has err "continues after step 4"
cmp "$(stored ranks)/checkpoints/latest/model.safetensors" "$(stored moved)/checkpoints/latest/model.safetensors" || bad "ranks: other weights"

# ---- killed in the middle of an upload: the half one is taken back, and another machine begins with what was whole
bucket killed
machine first
try 0 train killed.yaml --set train.steps=4
control hold
"$lockstep" train killed.yaml >out 2>err </dev/null & trained=$!
until_true grep -q 'killed/checkpoints/step-00000008/.*partNumber=1' requests
refused 2 "killed is being trained by" train killed.yaml # a second command leaves the first one's upload alone
times 0 requests "^DELETE .*killed/.*uploadId"
kill -9 $trained; wait $trained 2>/dev/null
control well
machine fourth
what="killed in the middle of an upload"
try 0 train killed.yaml; has err "continues after step 4"; has err "taking back the half upload"; equal killed

# ---- a server that is busy; full: training goes on, and the end says so; the same command sends it
bucket busy
control busy
try 0 train busy.yaml; equal busy
bucket full
control full
machine fifth
refused 1 "cannot write .*507 XMinioStorageFull, the test says so & means it; make room there; the run is complete" train full.yaml
has err "^warning: cannot write .*the next one tries again"
control well
try 0 train full.yaml; machine sixth; try 0 train full.yaml; has err "is finished"; equal full

# ---- the best checkpoint is an older one: it moves to the next machine, and stays in the bucket
bucket best
best="best.yaml --set model.hidden=[16] --set optimizer.lr=1e-30 --set eval.every_epochs=1 --set train.steps_per_epoch=2"
machine first
try 0 train $best --set train.epochs=2 --set train.steps=4
times 1 requests "^PUT .*/best/checkpoints/step-00000002/manifest.json"
machine second
try 0 train $best --set train.epochs=3 --set train.steps=6
what="best, on another machine"
[ "$(readlink "$(stored best)/checkpoints/best")" = step-00000002 ] || bad "$what: best is $(readlink "$(stored best)/checkpoints/best")"
try 0 inspect "$(stored best)/checkpoints/best" --verify
times 0 requests "^DELETE .*/best/checkpoints/step-00000002/"

# ---- a program of one's own: half of its reports here, the others on another machine; and a checkpoint that has a name
# runs STATUS WORDS...: the program
runs() { local want=$1; shift; what="program $*"; "$program" "$@" >out 2>err; local got=$?; [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat err; }; }
there="s3://bucket/my runs"
machine first
runs 0 runs undisturbed 6 full
runs 0 "$there" program 3 full
grep -E '^(PUT|POST) .*/program/checkpoints/full/' requests | tail -n 1 >last; has last 'manifest.json'
has requests "^PUT /bucket/my runs/program/config.txt"; times 0 requests "^PUT .*/program/lock.txt"
machine second
runs 0 "$there" program 6 full
has "$(stored program)/log/rank-0.log" "attempt 1 continues from .*/checkpoints/step-00000030"
for folder in latest full; do cmp "runs/undisturbed/checkpoints/$folder/model.safetensors" "$(stored program)/checkpoints/$folder/model.safetensors" || bad "$what: another $folder"; done
times 1 "$(stored program)/metrics.jsonl" '"kind":"report","report":2,'
times 2 requests "^PUT .*/program/checkpoints/full/manifest.json"; times 1 requests "^DELETE .*/program/checkpoints/full/manifest.json"
machine third # it has ended, and everything is fetched: what has a name, too
runs 0 "$there" program 6
for folder in latest full; do try 0 inspect "$(stored program)/checkpoints/$folder" --verify; done
cmp runs/undisturbed/checkpoints/full/model.safetensors "$(stored program)/checkpoints/full/model.safetensors" || bad "program: another full"
try 0 runs "$LOCKSTEP_CACHE/storage/bucket/my runs"; has out "^program +finished +6"
# several ranks, of which one is killed: started again, and whole on another machine
machine fourth
LOCKSTEP_FAULT=kill@600:rank=1 try 0 launch --workers 2 --max-failures 1 -- "$example" "$there" pair; has err "restart 1 of 1 in 0.5 s from step"
"$example" runs pair >out 2>err || bad "the example"
machine fifth
"$example" "$there" pair >out 2>err || bad "the example does not go on: $(cat err)"
[ ! -s out ] || bad "the example goes on with a run that is finished"
cmp runs/pair/checkpoints/latest/model.safetensors "$(stored pair)/checkpoints/latest/model.safetensors" || bad "pair: other weights"
has "$(stored pair)/metrics.jsonl" '"kind":"restart"'
# full: the program goes on, and its end says so; the next start sends it
control full
runs 1 "$there" unsent 2
has err "^error: cannot write .*507 .*; the run is complete in .*/my runs/unsent; start the program again to upload it"
has "$(stored unsent)/result.json" '"state":"finished"'
control well
runs 0 "$there" unsent 2; machine sixth; runs 0 "$there" unsent 2; has "$(stored unsent)/log/rank-0.log" "continues from .*step-00000020"
control wrong
runs 1 "$there" refused 2; has err "cannot list s3://bucket/my runs/refused/: the server says 403"; [ ! -e "$(stored refused)" ] || bad "a refused run left a folder"
control well
runs 1 gs://bucket/runs one 2; has err "gs:// is not supported"

# ---- one message
bucket none
control wrong
refused 2 "cannot list s3://bucket/my runs/none/: the server says 403 SignatureDoesNotMatch.*check AWS_ACCESS_KEY_ID" train none.yaml
control well
AWS_SECRET_ACCESS_KEY='' HOME=$work refused 2 "no keys for it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" train none.yaml
printf '[default]\naws_access_key_id = a\naws_secret_access_key=b\n' >credentials
AWS_SECRET_ACCESS_KEY='' AWS_SHARED_CREDENTIALS_FILE=credentials try 0 train none.yaml --set train.steps=1
printf '[others]\naws_access_key_id = c\n[other]\naws_access_key_id = mine\naws_secret_access_key=b\n\n[default]\naws_access_key_id = d\n' >credentials
AWS_PROFILE=other AWS_SECRET_ACCESS_KEY='' AWS_SHARED_CREDENTIALS_FILE=credentials AWS_REGION=here AWS_DEFAULT_REGION=there \
    AWS_ENDPOINT_URL_S3=$AWS_ENDPOINT_URL AWS_ENDPOINT_URL=http://127.0.0.1:9 try 0 train none.yaml --set train.steps=1
has requests "^KEY mine here$"
AWS_DEFAULT_REGION=there try 0 train none.yaml --set train.steps=1; has requests "^KEY key there$"
refused 2 "NoSuchBucket.*make the bucket" train none.yaml --set 'run.storage="s3://elsewhere/x"'
refused 2 "no name of a bucket" train none.yaml --set 'run.storage="s3:///x"'
AWS_ENDPOINT_URL=http://127.0.0.1:9 refused 1 "127.0.0.1" train none.yaml
try 0 train r.yaml --set run.storage="file://$work/plain" --set train.steps=1; [ -f plain/whole/result.json ] || bad "file:// is not a path"
finish

#!/bin/bash
# storage_hostile.sh COMMAND SERVER - a run whose storage is a bucket of a server (tests/net/s3/server.c) that never answers, answers without end, says 200
# and means an error, or redirects to a server that the keys are not for. A request to stop ends every wait, and the last checkpoint is still sent.
server=$2
source "$(dirname "$0")/common.sh"
needs curl
unset AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=verysecretkey AWS_SESSION_TOKEN=verysecrettoken no_proxy=127.0.0.1
"$server" >requests & served=$!
"$server" >elsewhere & other=$!
trap 'kill $served $other 2>/dev/null; cd /; rm -rf "$work"' EXIT
until_true test -s requests; until_true test -s elsewhere
port=$(head -n 1 requests) there=$(head -n 1 elsewhere)
export AWS_ENDPOINT_URL=http://127.0.0.1:$port
control() { exec 3<>"/dev/tcp/127.0.0.1/$port"; printf 'PUT /control/%s HTTP/1.1\r\n\r\n' "$1" >&3; cat <&3 >/dev/null; exec 3>&-; }
machine() { export LOCKSTEP_CACHE=$work/$1; mkdir -p "$1"; }
stored() { echo "$LOCKSTEP_CACHE/storage/bucket/runs/$1"; }
nothing_elsewhere() { [ "$(wc -l <elsewhere)" = 1 ] || { bad "$what: the other server got"; tail -n +2 elsewhere; }; }

cat >r.yaml <<END
run: {name: whole, storage: "s3://bucket/runs"}
model: {type: mlp, hidden: [6000]}
data: {type: shapes}
train: {epochs: 1, steps: 4, global_batch: 8}
eval: {every_epochs: -1}
checkpoint: {every_steps: 2, keep: 1}
threads: 1
END
seen() { [ "$(grep -cE -- "$1" requests)" -ge "$2" ]; }
# begin NAME ARGS...: trains in the background
begin() { what="train $*"; local name=$1; shift; "$lockstep" train r.yaml --set run.name="$name" "$@" >out 2>err </dev/null & trained=$!; }
# ends_on_request PATTERN COUNT MESSAGE: when the server has seen so many of these requests
ends_on_request() {
    until_true seen "$1" "$2"
    kill -TERM $trained; wait $trained
    local got=$?
    [ $got -eq 75 ] || { bad "$what: exit status $got after SIGTERM"; cat err; }
    has err "$3"
}
machine first

# ---- SIGTERM while the server is asked for the run
for mode in mute down endless many; do
    control $mode
    begin $mode
    case $mode in
    mute) ends_on_request "^GET .*runs%2Fmute%2F" 1 "stopped while waiting for http://127.0.0.1:$port/bucket$" ;;
    down) ends_on_request "^GET .*runs%2Fdown%2F" 1 "stopped while waiting for the server to list s3://bucket/runs/down/" ;;
    endless) ends_on_request "^GET .*runs%2Fendless%2F" 20 "stopped while" ;;
    many) ends_on_request "^DELETE .*runs/many/.*uploadId" 20 "stopped while" ;;
    esac
done

control mute # the other downloads
what="get"; "$lockstep" get me/tiny --mirror "$AWS_ENDPOINT_URL" >out 2>err </dev/null & trained=$!
ends_on_request "^GET /api/models/me/tiny/" 1 "stopped while waiting for $AWS_ENDPOINT_URL/api/models/me/tiny/revision/main$"
begin data --set run.storage=runs --set data.type=mnist --set "data.mirror=$AWS_ENDPOINT_URL/mnist"
ends_on_request "^GET /mnist/" 1 "stopped while waiting for $AWS_ENDPOINT_URL/mnist/train-images"

# ---- answers that are none
one=(--set train.steps=1)
control same
refused 1 "cannot list s3://bucket/runs/same/: the server gives the same continuation token twice" train r.yaml --set run.name=same
control cut
refused 1 "the list is cut and has no NextContinuationToken" train r.yaml --set run.name=cut
control endless
refused 1 "cannot list s3://bucket/runs/endless/: the list does not end after 1000 pages" train r.yaml --set run.name=endless
control crowded
refused 1 "cannot list s3://bucket/runs/crowded/: the list does not end after 1000000 objects" train r.yaml --set run.name=crowded
for name in ../x /x a//x a/; do
    control "key:$name"
    refused 1 "the object \"$name\" is not a file of a run" train r.yaml --set run.name=key
done
control refused
refused 1 "cannot list s3://bucket/runs/refused/.*200 InternalError" train r.yaml --set run.name=refused
control portal
refused 1 "is this an S3 server" train r.yaml --set run.name=portal
for mode in uploads others; do # 12 MB of it: as quick as nothing
    control $mode
    try 0 train r.yaml --set run.name=$mode "${one[@]}"; times 0 requests "^DELETE .*$mode/"
done
control void
refused 1 "cannot write s3://bucket/runs/void/.*the answer has no ETag" train r.yaml --set run.name=void "${one[@]}" --set 'model.hidden=[4]'
control halfway
refused 1 "cannot write .*halfway/.*safetensors: the server says 200 InternalError, .*the run is complete" train r.yaml --set run.name=halfway
times 0 requests "^PUT .*halfway/.*manifest.json"
control well
try 0 train r.yaml --set run.name=halfway; once requests "^PUT .*halfway/.*manifest.json"

# ---- redirections: no key, token or file goes to another server
control "to:$there"
refused 2 "cannot list .*the server says 307, to http://127.0.0.1:$there/bucket; the keys are not sent there: set AWS_ENDPOINT_URL_S3" train r.yaml --set run.name=moved
control "put-to:$there"
refused 2 "cannot write s3://bucket/runs/moved/.*307, to http://127.0.0.1:$there/.*the run is complete" train r.yaml --set run.name=moved "${one[@]}"
has requests "^TOKEN /bucket/runs/moved/"
control well
try 0 train r.yaml --set run.name=moved "${one[@]}"
machine second
control "get-to:$there"
refused 1 "redirects to http://127.0.0.1:$there/.*, which the request is not for" train r.yaml --set run.name=moved "${one[@]}"
nothing_elsewhere
control region
refused 2 "301 PermanentRedirect.*the bucket is in the region eu-west-1: set AWS_REGION to it" train r.yaml --set run.name=region

# ---- SIGTERM while the run is fetched: the next start fetches all of it
machine first
control well
try 0 train r.yaml --set run.name=broken
whole=$(stored broken)
machine third
control mute:result.json
begin broken
ends_on_request "^GET .*runs/broken/result.json" 1 "stopped while waiting for .*result.json"
control well
try 0 train r.yaml --set run.name=broken; has err "is finished: 4 steps"
for f in metrics.jsonl result.json recipe.yaml checkpoints/latest/model.safetensors; do cmp "$whole/$f" "$(stored broken)/$f" || bad "broken: another $f"; done

sed -i '/^checkpoint/d' r.yaml # and a run without checkpoints
bare=(--set run.name=bare --set checkpoint.every_epochs=-1)
try 0 train r.yaml "${bare[@]}"
machine fourth
control mute:result.json
begin bare "${bare[@]}"
ends_on_request "^GET .*runs/bare/result.json" 1 "stopped while waiting for .*result.json"
control well
try 0 train r.yaml "${bare[@]}"; has err "fetching s3://bucket/runs/bare"

# ---- SIGTERM while training: the last checkpoint is sent; to a server that takes nothing the wait ends, and the run goes on later
begin sent --set train.steps=1000000 --set checkpoint.every_steps=1000000
until_true grep -q "first step after" err
ends_on_request "" 0 "stopped"
latest=$(readlink "$(stored sent)/checkpoints/latest")
has requests "^PUT /bucket/runs/sent/checkpoints/${latest:-none}/manifest.json"
every=(--set checkpoint.every_steps=2 --set checkpoint.keep=1)
control hold
begin held "${every[@]}"
ends_on_request "^PUT .*runs/held/.*partNumber=1" 1 "stopped while waiting for .*; the checkpoint is in "
control well
try 0 train r.yaml --set run.name=held "${every[@]}"; has requests "^PUT .*runs/held/checkpoints/step-0*4/manifest.json"

# ---- no secret is shown or kept
quiet() { grep -H verysecret err out && bad "$what: a secret is shown"; }
refused 2 "no name of a bucket" train r.yaml --set 'run.storage="s3://key:verysecretkey@bucket/runs"'; quiet
AWS_ENDPOINT_URL=http://user:verysecretword@127.0.0.1:9 refused 1 "http://127.0.0.1:9/bucket" train r.yaml -vv; quiet
try 0 train r.yaml --set run.name=shown -vv "${one[@]}"; quiet
grep -rl verysecret . && bad "a secret is in these files"
finish

#!/bin/bash
# bucket_hosts.sh COMMAND EXAMPLE MPIRUN SERVER - a run in a bucket whose ranks are on two hosts, network namespaces with names and disks of their own: each rank sends its
# files, a host fetches what it has not got, and the bits are those of one process. Exit status 77: not possible here.
example=$2 mpirun=$3 server=$4
source "$(dirname "$0")/alone.sh"
alone "iproute2 util-linux" "" "$@"
source "$(dirname "$0")/two_hosts.sh"
needs curl
hosts_begin 10.77.9 100
cat >side <<'END'
#!/bin/sh
# side NAME COMMAND...: as that host, which has disks/NAME at $work/disk, unless the file `shared` is there
work=$(dirname "$0") name=$1; shift
hostname "$name"
[ -e "$work/shared" ] || mount --bind "$work/disks/$name" "$work/disk"
exec "$@"
END
cat >rsh <<END
#!/bin/sh
# what is taken for ssh: HOST COMMAND... There is one other host; while the file \`down\` is there it does not answer.
[ "\$1" = -x ] && shift
shift
[ ! -e $work/down ] || { echo "No route to host" >&2; exit 255; }
exec ip netns exec right unshare --uts --mount $work/side right sh -c "\$*"
END
chmod +x rsh side
mkdir -p disk disks/left disks/right
export LOCKSTEP_CACHE=$work/disk/cache
on() { local host=$1; shift; ip netns exec "$host" unshare --uts --mount "$work/side" "$host" "$@"; }
empty() { rm -rf "$work/disks/$1"; mkdir "$work/disks/$1"; } # a host whose disk is
ip netns exec left "$server" 10.77.9.1 >requests & until_true test -s requests
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret no_proxy=10.77.9.1 AWS_ENDPOINT_URL=http://10.77.9.1:$(head -n 1 requests)
tell() { ip netns exec left bash -c 'exec 3<>"/dev/tcp/10.77.9.1/$0"; printf "$1 /$2 HTTP/1.1\r\n\r\n" >&3; cat <&3 >/dev/null' "$(head -n 1 requests)" "$@"; }

seq -f '%g. the cat sat on the mat and ran up the hill' 72 >text.txt
cat >small.yaml <<END
model: {type: llama, vocab_size: 257, layers: 1, hidden_size: 16, heads: 2, mlp_size: 32, tied: true}
data: {type: text, train_text: text.txt, eval_fraction: 0.2, tokenizer: bytes, documents: line, seq_length: 32}
train: {epochs: 1000000, steps: 120, global_batch: 16, micro_batch: 4}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 30, keep: 2}
threads: 1
END
"$lockstep" train small.yaml --set run.name=whole >out 2>err || bad "one process"
there="--set run.storage=s3://bucket/runs"
stored() { echo "$work/disks/left/cache/storage/bucket/runs/$1"; }
# equal NAME [OTHER]: this run ended with the bits of the one that nothing disturbed (whole), and what the left host has of it is complete
equal() {
    "$lockstep" export "$(stored "$1")" --to "$1.safetensors" >out 2>err2 || bad "$what: export: $(cat err2)"
    [ -e "${2-whole}-alone.safetensors" ] || "$lockstep" export "runs/${2-whole}" --to "${2-whole}-alone.safetensors" >out 2>err2 || bad "$what: export: $(cat err2)"
    cmp "${2-whole}-alone.safetensors" "$1.safetensors" || bad "$what: other weights"
    has "$(stored "$1")/result.json" '"state":"finished"'
}
run() { echo "train small.yaml $two --set run.name=$1 $there"; }

# ---- a run; the manifest is written behind the files of all ranks, and the older checkpoints go
try 0 $(run first) --set checkpoint.async=true --set parallel.data=fsdp
has err "the 2 hosts share no folder: each rank sends files of its own to s3://bucket/runs"; equal first
for rank in 0 1 2 3; do once requests "^PUT /bucket/runs/first/checkpoints/step-00000120/optimizer-rank-0000$rank.safetensors"; done
grep -E "^PUT .*/first/checkpoints/step-00000120/" requests | tail -n 1 >last; has last 'manifest.json'
has requests "^DELETE .*/first/checkpoints/step-00000060/model-rank-00003"; times 0 requests "^DELETE .*/first/checkpoints/step-00000090/"

# ---- a host that dies while its ranks send the files of step 90: the bucket has no such checkpoint, and the ranks start again from step 60
tell PUT control/hold:90/model-rank-00002
begin $(run again) --set failure.max_failures=1
until_true grep -q "^PUT .*/again/checkpoints/step-00000090/model-rank-00002" requests
times 0 requests "^PUT .*/again/checkpoints/step-00000090/manifest.json"
tell PUT control/well; kill -9 $(ip netns pids right)
ended 0; equal again
has err "^warning: host 10.77.9.2 is gone, with ranks 2 to 3: .*; restart 1 of 1 in 0.5 s from step 60"; times 2 err "^ranks +4 on 2 hosts"
# the other host has fetched what its ranks load: of the first host's files headers (in two requests) and a few numbers
times 2 requests "^GET .*/again/checkpoints/step-00000060/optimizer-rank-00001"; times 2 requests "^PART .*/again/checkpoints/step-00000060/model-rank-00000"

# ---- parts of a run: the first host is empty, and our launcher is not there; a bucket that is full ends it; the hosts have exchanged their disks, and the bucket is full for a
# while; last, one host
mpi() { # WORDS...: with our own mpirun
    what="mpirun $*"
    ip netns exec left unshare --uts --mount "$work/side" left "$mpirun" --mca plm_rsh_agent "$work/rsh" --host 10.77.9.1:2,10.77.9.2:2 -n 4 --bind-to none -x LOCKSTEP_CACHE \
        -x AWS_ACCESS_KEY_ID -x AWS_SECRET_ACCESS_KEY -x AWS_ENDPOINT_URL -x no_proxy "$lockstep" train small.yaml --set run.name=parts $there "$@" >out 2>err </dev/null
}
try 0 $(run parts) --set train.steps=35
empty left
tell PUT control/full
mpi --set failure.stall_seconds=4 && bad "$what: a full bucket does not matter"
has err "^error: .*saving checkpoint .*step-00000060: .*cannot write .*507 XMinioStorageFull"
tell PUT control/well
mpi --set train.steps=70 || bad "$what: $(cat err)"; has err "^continues after step 35 of 70"
mv disks/left disks/other; mv disks/right disks/left; mv disks/other disks/right
tell PUT control/full # for a while
begin $(run parts) --set train.steps=95
until_true grep -qE "cannot write .*507 XMinioStorageFull.*; tries again for 300 s" err disks/*/cache/storage/bucket/runs/parts/log/*; tell PUT control/well
ended 0; has err "^fetching s3://bucket/runs/parts"; has err "^continues after step 70 of 95"
empty left
try 0 train small.yaml --workers 2 --set run.name=parts $there; has err "^continues after step 95 of 120"; equal parts

# ---- a host is lost: the other one fetches its files and goes on by itself, until the host comes back with an empty disk
LOCKSTEP_GROW=0.2 LOCKSTEP_FAULT=delay@random:seconds=0.1 begin $(run lost) --set failure.max_failures=1 --set failure.grow=true
until_true grep -q "^PUT .*/lost/checkpoints/step-00000030/manifest.json" requests
touch down; kill -9 $(ip netns pids right); empty right
until_true grep -q "^ranks  2 on 1 host" err
rm down
ended 0; equal lost; times 2 err "^ranks  4 on 2 hosts"
has err "^host 10.77.9.2 answers again; continues from step [0-9]+, on 4 workers instead of 2$"
# a file of theirs is damaged, then missing in the bucket: one message, with the rank and its host
put() { ip netns exec left bash -c 'exec 3<>"/dev/tcp/10.77.9.1/$0"; { printf "PUT /$1 HTTP/1.1\r\nContent-Length: $(stat -c %s "$2")\r\n\r\n"; cat "$2"; } >&3; cat <&3 >/dev/null' "$(head -n 1 requests)" "$@"; }
{ head -c -4 "$(stored lost)/checkpoints/latest/optimizer-rank-00003.safetensors"; printf wxyz; } >damaged
put bucket/runs/lost/checkpoints/step-00000120/optimizer-rank-00003.safetensors damaged
refused 1 "^error: rank 3: host right: .*/optimizer-rank-00003.safetensors: bytes [0-9]+ to [0-9]+ are damaged: tensor .*: delete .*/step-00000120, on every host and in the bucket" \
    $(run lost) --set train.steps=130
tell DELETE bucket/runs/lost/checkpoints/step-00000120/model-rank-00003.safetensors
empty right
refused 1 "^error: rank 2: host right: s3://bucket/runs/lost/checkpoints/step-00000120 is damaged in the bucket: .*model-rank-00003.safetensors: not there, but the manifest.* delete this one" \
    $(run lost) --set train.steps=130

# ---- a program of one's own: a rank of the other host is killed, and the ranks start again from the bucket
what="a program"
"$example" runs program >out 2>err || bad "$what by itself"
LOCKSTEP_FAULT=kill@600:rank=2 try 0 launch $two --max-failures 1 -- "$example" s3://bucket/runs program
has err "^warning: rank 2: killed by signal 9 .*; restart 1 of 1"
equal program program

# ---- what is refused
refused 2 "^error: .*checkpoint.files: whole is one file that all ranks write, and the hosts of this run share no folder: set per_rank" $(run whole-files) --set checkpoint.files=whole
printf '#!/bin/sh\nexec unshare --uts sh -c "hostname elsewhere; exec %s \\"\\$@\\"" sh "$@"\n' "$mpirun" >mpirun-elsewhere; chmod +x mpirun-elsewhere
LOCKSTEP_MPIRUN=$work/mpirun-elsewhere refused 2 "^error: .*rank 0 is on host elsewhere, which shares no folder with host left, where this command runs and keeps account of the run: start it on elsewhere" $(run elsewhere)

# ---- hosts that share the folder: rank 0 sends the files of all
touch shared
for steps in 60 120; do LOCKSTEP_CACHE=$work/after-$steps try 0 $(run shared) --set train.steps=$steps; times 0 err "share no folder"; done
has err "^fetching s3://bucket/runs/shared"; has err "^continues after step 60 of 120"; has err "^ranks +4 on 2 hosts"
cmp runs/whole/checkpoints/latest/model.safetensors after-120/storage/bucket/runs/shared/checkpoints/latest/model.safetensors || bad "$what: other weights"
finish

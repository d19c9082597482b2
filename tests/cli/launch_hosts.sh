#!/bin/bash
# launch_hosts.sh COMMAND EXAMPLE MPIRUN MPICH'S-MPIRUN|"" - one command for ranks on two hosts, network namespaces with names of their own: the bits of one process,
# also when a rank is killed, a host dies, and comes back (grow.sh: at once); one message for what is wrong. Exit status 77: not possible here.
example=$2 mpirun=$3 mpich=${4:-}
source "$(dirname "$0")/alone.sh"
alone "iproute2 util-linux" "" "$@"
source "$(dirname "$0")/two_hosts.sh"
hosts_begin 10.77.8 200
cat >rsh <<END
#!/bin/sh
# what is taken for ssh: HOST COMMAND... There is one other host; while the file \`down\` is there it does not answer, while \`apart\` is there it has a disk of its own, with \`copies\`.
[ "\$1" = -x ] && shift
host=\$1; shift
[ ! -e $work/down ] && [ "\$host" = 10.77.8.2 ] || { echo "connect to \$host: No route to host" >&2; exit 255; }
[ ! -e $work/apart ] || exec ip netns exec right unshare --uts --mount sh -c "hostname right; mount -t tmpfs none $work/runs; cp -r $work/copies/. $work/runs; exec sh -c \"\\\$0\"" "\$*"
exec ip netns exec right unshare --uts sh -c 'hostname right; exec sh -c "\$0"' "\$*"
END
chmod +x rsh; mkdir copies
the_parent() { pgrep -P "$(pgrep -P $parent)"; } # under timeout
ranks() { local p; for p in $(ip netns pids "$1"); do grep -qz ^LOCKSTEP_REPORT_FD= "/proc/$p/environ" 2>/dev/null && echo "$p"; done; }
has_steps() { [ "$(grep -c '"kind":"step"' "runs/$1/metrics.jsonl")" -ge "$2" ]; }
nobody_left() { [ -z "$(ip netns pids left)$(ip netns pids right)" ]; }
gone() { until_true nobody_left || { ip netns pids left; ip netns pids right; ps aux; }; }

cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1000000, steps: 300, global_batch: 64, micro_batch: 16}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 30, keep: 3}
threads: 1
END
sed 's/steps: 300/steps: 10000000/; s/every_steps: 30/every_steps: 0/' small.yaml >long.yaml
"$lockstep" train small.yaml --set run.name=whole >out 2>err || bad "one process"

# ---- the same bits, on two hosts and by srun's stand-in; threads have cores of their own
for data in fsdp ddp; do
    try 0 train small.yaml $two --set run.name=two-$data --set parallel.data=$data
    same two-$data; once err "^ranks +4 on 2 hosts \(mpi\)"; once err "^epoch 0 +step +300/300 +loss"
done
printf '# hosts\n10.77.8.1 slots=1\n\n10.77.8.2 slots=1 # the other\n' >hostfile
try 0 train small.yaml --rsh "$work/rsh" --hostfile hostfile --set run.name=file; same file; has err "^ranks +2 on 2 hosts"
try 0 train small.yaml --rsh "$work/rsh" --hosts 10.77.8.1,10.77.8.2 --workers-per-host 2 --set run.name=per-host; same per-host; has err "^ranks +4 on 2 hosts"
refused 2 "^error: rank [0-3]: 2 ranks of 4096 cores each need 8192 cores of this host, and [0-9]+ are available$" train small.yaml $two --cores-per-worker 4096 --set run.name=wrong
try 0 train small.yaml $two --workers 2 --set run.name=fewer; same fewer; has err "^ranks +2 on 1 host"
has err "^host 10.77.8.2 is left out: 2 ranks on 1 of 2 hosts with room for 2 on each, because workers is 2$"
cp small.yaml odd.yaml; sed -i 's/global_batch: 64/global_batch: 48/' odd.yaml # three micro-batches on two hosts
try 0 train odd.yaml $two --dry-run
has err "^warning: host 10.77.8.2 is left out: 1 rank on 1 of 2 hosts with room for 2 on each, because odd.yaml:3: train.micro_batch: 16 of global_batch 48: 4 data ranks do not divide the 3 micro-batches of a step; .*; train.global_batch 64 would use all 4 ranks of 2 hosts$"

# ---- evaluated there, too: the loss of one process; the number of ranks that trained the run does not matter
"$lockstep" eval runs/whole --json >one 2>err || bad "eval on one host"
loss() { grep -o '"loss":[^,]*,.*"samples":[0-9]*' "$1"; }
for places in "$two" "--rsh $work/rsh --hostfile hostfile" "$two --workers 2"; do
    try 0 eval runs/two-fsdp --json $places
    [ "$(loss out)" = "$(loss one)" ] || { bad "$what: another loss than on one host"; cat one out; }
done
try 0 eval runs/per-host --json; [ "$(loss out)" = "$(loss one)" ] || bad "$what: another loss"
LOCKSTEP_FAULT=kill@50:rank=1 try 1 eval runs/whole $two; once err "^error: rank 1: killed by signal 9 "; times 1 err "^error:"
refused 2 "^error: --generate " eval runs/whole $two --generate
refused 2 "^error: 3 workers cannot be divided evenly among 2 hosts" eval runs/whole $two --workers 3
refused 2 "^error: --rsh needs --hosts A:N,B:N or --hostfile FILE" eval runs/whole --rsh "$work/rsh"
touch down
refused 1 "^error: host 10.77.8.2 does not answer: " eval runs/whole $two
rm down
run="$example runs"
"$example" runs program >out 2>err || bad "the program by itself"
try 0 launch $two -- $run program-two
cmp runs/program/checkpoints/latest/model.safetensors runs/program-two/checkpoints/latest/model.safetensors || bad "$what: other weights"
if [ -n "$mpich" ]; then
    export LOCKSTEP_MPI_MODULE=$(dirname "$lockstep")/lockstep-mpich.so
    try 0 train small.yaml $two --set run.name=mpich; same mpich; has err "^ranks +4 on 2 hosts"
    begin train long.yaml $two --set run.name=mpich-stops
    until_true has_steps mpich-stops 3
    kill -TERM "$(the_parent)"; ended 75; once err "^stopped after step"
    unset LOCKSTEP_MPI_MODULE
    gone
fi
mkdir slurm
cat >slurm/srun <<END
#!/bin/bash
# srun as far as it is used: its words for mpirun
echo "\$*" >$work/srun-words
while [ "\${1#--}" != "\$1" ]; do
    case \$1 in --ntasks=*) n=\${1#*=} ;; --ntasks-per-node=*) per=\${1#*=} ;; --nodelist) hosts=\$2; shift ;; esac
    shift
done
exec $mpirun --mca plm_rsh_agent $work/rsh --host "\$(echo "\$hosts" | sed "s/,/:\$per,/; s/\$/:\$per/")" -n \$n -x LOCKSTEP_JOB -x LOCKSTEP_CACHE "\$@"
END
cat >slurm/squeue <<END
#!/bin/sh
case "\$*" in
"-h -j 1 -o %N") [ ! -e $work/no-squeue ] || { echo "Unable to contact slurm controller" >&2; exit 1; }; cat $work/nodes ;;
"-h -o %L -j 1") echo 1-00:00:00 ;;
*) exit 9 ;;
esac
END
cat >slurm/scontrol <<END
#!/bin/sh
[ "\$1 \$2" = "show hostnames" ] && echo "\$3" | sed 's/10.77.8.\[1-2\]/10.77.8.1\n10.77.8.2/'
END
chmod +x slurm/*
path=$PATH
export PATH=$work/slurm:$PATH SLURM_JOB_ID=1
echo "10.77.8.[1-2]" >nodes
SLURM_NTASKS_PER_NODE=2 try 0 train small.yaml --hosts slurm --set run.name=slurm
same slurm; has err "^ranks +4 on 2 hosts"
what="srun"; once srun-words "^--nodelist 10.77.8.1,10.77.8.2 --nodes=2 --ntasks=4 --ntasks-per-node=2 --distribution=block --cpu-bind=none --kill-on-bad-exit=1 --immediate=60 --mpi=pmix "
SLURM_TASKS_PER_NODE="2(x2)" try 0 train small.yaml --hosts slurm --set run.name=slurm-even; has err "^ranks +4 on 2 hosts"
SLURM_TASKS_PER_NODE=2,1 try 0 train small.yaml --hosts slurm --workers-per-host 1 --set run.name=slurm-uneven; has err "^ranks +2 on 2 hosts"
SLURM_TASKS_PER_NODE=2,1 refused 2 "^error: --hosts slurm: the tasks of this job are distributed unevenly over its hosts \(SLURM_TASKS_PER_NODE=2,1\), and all hosts need" train small.yaml --hosts slurm --set run.name=wrong
refused 1 "^error: host 10.77.8.3 does not answer: it does not belong to Slurm job 1$" train small.yaml --hosts 10.77.8.1:1,10.77.8.3:1 --set run.name=wrong
# a host that Slurm has taken out of the job is left out of the next attempt
LOCKSTEP_FAULT=delay@random:seconds=0.01 SLURM_NTASKS_PER_NODE=2 begin train small.yaml --hosts slurm --set run.name=slurm-shrinks --set failure.max_failures=2
until_true has_steps slurm-shrinks 40
echo 10.77.8.1 >nodes; kill -9 $(ip netns pids right)
ended 0; same slurm-shrinks
once err "^warning: host 10.77.8.2 does not answer: it does not belong to Slurm job 1$"; once err "^ranks +2 on 1 host"
touch no-squeue
refused 1 "^error: --hosts slurm: squeue does not say which hosts this job has: Unable to contact slurm controller$" train small.yaml --hosts slurm --set run.name=wrong
export PATH=$path; unset SLURM_JOB_ID
refused 2 "^error: --hosts slurm: this is not a Slurm job" train small.yaml --hosts slurm --set run.name=wrong

# ---- a rank that is killed, one that hangs: named with what it did, and started again
LOCKSTEP_FAULT=kill@500:rank=3 try 1 train small.yaml $two --set run.name=killed
once err "^error: rank 3: killed by signal 9 \(SIGKILL\); it last did: step [0-9]+.*; the other ranks were stopped$"; times 1 err "^error:"
has runs/killed/result.json '"state":"failed".*"error":"rank 3: killed by signal 9'
gone
try 0 train small.yaml $two --set run.name=killed; same killed
LOCKSTEP_FAULT=kill@2000:rank=1 try 0 train small.yaml $two --set run.name=again --set failure.max_failures=1
once err "^warning: rank 1: killed by signal 9 .*; restart 1 of 1 in 0.5 s from step [0-9]+"; times 0 err "^error:"; same again
has runs/again/result.json '"restarts":\[\{"attempt":1,.*"workers":4,"cause":"rank 1: killed'
LOCKSTEP_FAULT=stop@2000:rank=2 try 0 train small.yaml $two --set run.name=hangs --set failure.max_failures=1 --set failure.stall_seconds=3
once err "^warning: rank 2: did not come within 3 s; rank [013] waited for it in .*; restart 1 of 1"; same hangs
# a rank that is stopped before it joins, where no other can see it: its host names it, and the run goes on without it
LOCKSTEP_NOTICE=1 LOCKSTEP_FAULT=stop@join:rank=3 try 0 train small.yaml $two --set run.name=unborn --set failure.max_failures=1 --set failure.stall_seconds=3
once err "^warning: waiting for rank 3: its process [0-9]+ on host 10.77.8.2 is stopped \(state T\), for [0-9]+ s; it had not joined the group$"
once err "^warning: rank 3: did not come within 3 s; it had not joined the group; it is stopped \(state T\); restart 1 of 1"; same unborn
# a rank that is stopped is named, on both hosts, and its host on the other; it may go on
LOCKSTEP_NOTICE=1 LOCKSTEP_FAULT=stop@2000:rank=3 begin train small.yaml $two --set run.name=stuck
until_true grep -qE "^warning: waiting for rank [23]: rank 0 has waited [1-4]\.[0-9] s for it in .*; on host right it last did: step [0-9]+, " err
until_true grep -qE "waiting for rank 3: rank [01] has waited .*; on host right it last did: .*; it is stopped \(state T\)$" runs/stuck/log/rank-[01].log
until_true grep -qE "waiting for rank 3: rank 2 has waited .*; it last did: .*; it is stopped \(state T\)$" runs/stuck/log/rank-2.log
kill -CONT $(ranks right)
ended 0; same stuck
LOCKSTEP_FAULT=kill@600:rank=1 try 0 launch $two --max-failures 1 -- $run program-again
cmp runs/program/checkpoints/latest/model.safetensors runs/program-again/checkpoints/latest/model.safetensors || bad "$what: other weights"
has runs/program-again/result.json '"restarts":\[\{"attempt":1,.*"workers":4,"cause":"rank 1: killed' # rank 0's host has told which run it is

# ---- a host dies, the run goes on without it; it comes back, and the next restart has it again
LOCKSTEP_FAULT=delay@random:seconds=0.01 begin train small.yaml $two --set run.name=host --set failure.max_failures=3 --set train.steps=300 --set failure.stall_seconds=20
until_true has_steps host 40
touch down; kill -9 $(ip netns pids right)
until_true grep -q "^ranks  2 on 1 host" err
has err "^warning: host 10.77.8.2 is gone, with ranks 2 to 3: .*; restart 1 of 3 in 0.5 s from step [0-9]+, .*on 2 workers instead of 4$"
steps=$(grep -c '"kind":"step"' runs/host/metrics.jsonl)
until_true has_steps host $((steps + 40))
rm down; kill -9 $(ranks left | tail -n 1)
ended 0
has err "^warning: rank [01]: killed by signal 9 .*; restart 2 of 3 in 1 s .*on 4 workers instead of 2$"
times 2 err "^ranks  4 on 2 hosts"; same host
has runs/host/result.json '"restarts":\[\{.*"workers":2,"cause":"host 10.77.8.2 is gone.*"workers":4,'

# ---- requests: to save, to stop; and the end of the parent, which ends all
begin train long.yaml $two --set run.name=asked --set failure.max_failures=1
until_true has_steps asked 3
kill -USR1 "$(the_parent)"
until_true grep -q "^saved after step .* on request" err
kill -TERM "$(the_parent)"
ended 75
once err "^stopped after step [0-9]* of 10000000 on request; everything is saved"; times 0 err "^error|^warning|mpirun"
has runs/asked/result.json '"state":"stopped"'
gone
begin train long.yaml $two --set run.name=orphans
until_true has_steps orphans 3
kill -9 "$(the_parent)"; wait $parent
gone

# ---- stages of a pipeline on both hosts, with more micro-batches than mailboxes: the same bits; a stage that is killed, or late, on the other host
for i in $(seq 1 72); do echo "the $i. cat sat on the mat and ran up hill $((i * i % 97))"; done >text.txt
cat >stages.yaml <<END
model: {type: llama, vocab_size: 257, layers: 4, hidden_size: 32, heads: 4, mlp_size: 64, tied: true}
data: {type: text, train_text: text.txt, eval_fraction: 0.2, tokenizer: bytes, documents: line, seq_length: 32}
train: {epochs: 2, global_batch: 16, micro_batch: 2, clip_norm: 1}
optimizer: {type: adamw, lr: 3e-3}
parallel: {units: "class:LlamaDecoderLayer", mesh: {pp: auto}}
checkpoint: {every_steps: 2}
threads: 1
END
mv runs/whole runs/one-process
"$lockstep" train stages.yaml --set run.name=whole >out 2>err || bad "stages: one process"
try 0 train stages.yaml $two --set run.name=stages --set parallel.schedule=gpipe; same stages; has err "^ranks +4 on 2 hosts \(mpi\)  mesh pp=4"
try 0 train stages.yaml $two --set run.name=stages-dp --set 'parallel.mesh={pp: 2, dp: 2}'; same stages-dp
try 0 train stages.yaml $two --set run.name=stages-in --set 'parallel.mesh={dp: 2, pp: 2}'; same stages-in
LOCKSTEP_FAULT=kill@500:rank=2 try 0 train stages.yaml $two --set run.name=stage-killed --set failure.max_failures=20; same stage-killed
has err "^warning: rank 2: killed by signal 9 .*; restart 1 of 20 "
LOCKSTEP_FAULT=drop@40:rank=1 try 1 train stages.yaml $two --set run.name=stage-late --set failure.stall_seconds=2
has err "^error: rank 1: did not come within 2 s; rank [02] waited for it in receive of (activations|gradients) of micro-batch [0-7] of stage 1 over pp, program micro"
gone

# ---- what is wrong: one message
touch down
refused 1 "^error: host 10.77.8.2 does not answer: connect to 10.77.8.2: No route to host \(exit status 255\); " train small.yaml $two --set run.name=wrong
refused 1 "^error: host 10.77.8.2 does not answer: .*; host 10.77.8.3 does not answer: " launch --rsh "$work/rsh" --hosts 10.77.8.1,10.77.8.2,10.77.8.3 -- $run wrong
rm down
refused 2 "^error: --hosts: host b has a different number of ranks than host a" launch --hosts a:2,b:1 -- $run wrong
refused 2 "^error: --hosts: a:x: HOST:N is needed" launch --hosts a:x -- $run wrong
printf 'a b\n' >wrong-file
refused 2 "^error: wrong-file:1: 'b' after the name of the host: " launch --hostfile wrong-file -- $run wrong
refused 2 "^error: --hosts: host a is there twice" launch --hosts a,a -- $run wrong
refused 2 "^error: --hosts and --hostfile: give one of them" launch --hosts a --hostfile hostfile -- $run wrong
refused 2 "^error: 3 workers cannot be divided evenly among 2 hosts" launch --rsh "$work/rsh" --hosts 10.77.8.1,10.77.8.2 --workers 3 -- $run wrong
refused 2 "^error: the program ./none is not there" launch $two -- ./none
head -c 100 /dev/urandom >noise; chmod +x noise
refused 1 "^error: rank [0-3] could not be started: ./noise cannot be executed: Exec format error$" launch $two -- ./noise
refused 2 "^error: the 4 processes of true ended well, but none joined the group: " launch $two -- true
refused 2 "^error: rank [0-3]: .*nothing.like.it" train small.yaml $two --set run.name=wrong --set parallel.units=pattern:nothing.like.it
touch apart # hosts that do not share the run's folder: refused before the first step, also where the run continues
shared="the hosts of a run read and write each checkpoint together"
refused 2 "^error: .*host right does not see runs/apart/.shared-.*: $shared, so run.storage has to be a folder that all hosts share, or a bucket .s3://.$" train small.yaml $two --set run.name=apart
times 0 err "^first step"; [ ! -e runs/apart/metrics.jsonl ] || times 0 runs/apart/metrics.jsonl '"kind":"step"'
refused 2 "^error: .*host right does not see runs/two-fsdp/checkpoints/step-00000300, " train small.yaml $two --set run.name=two-fsdp --set train.steps=330
try 0 train small.yaml $two --set run.name=unsaved --set train.steps=3 --set checkpoint.every_epochs=-1 --set checkpoint.every_steps=0 --set checkpoint.keep=2
folder="it has to be in a folder that they share$"
refused 2 "^error: .*host right: .*runs/whole: .*; all hosts read the model, so $folder" eval runs/whole $two
"$lockstep" train small.yaml --set run.name=whole --set run.storage=copies --set run.seed=2 >out 2>err || bad "one process, again"
refused 2 "^error: .*host right: runs/whole/checkpoints/[a-z0-9-]* is not the checkpoint that rank 0 has under this name: all hosts read it, so $folder" eval runs/whole $two
rm -rf copies/whole; cp -r runs/whole copies; try 0 eval runs/whole $two
rm -rf apart copies/whole
LOCKSTEP_MPIRUN=$work/none refused 1 "^error: $work/none did not start the ranks: $work/none: No such file" launch $two -- $run wrong
LOCKSTEP_MPI_MODULE=$work/none.so refused 1 "^error: ranks on several hosts need MPI, and no module for it loads: .*none.so" launch $two -- $run wrong
RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_PORT=1 refused 2 "lockstep train RECIPE --hosts A:2,B:2|lockstep launch --hosts A:2,B:2" train small.yaml --set run.name=wrong
[ ! -e runs/wrong ] || bad "a refused run left a folder"
gone
finish

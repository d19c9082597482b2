#!/bin/bash
# grow.sh COMMAND MPIRUN - failure.grow: hosts that are lost and come back, on four hosts (network namespaces): at a bad moment, one after the other, where the
# batch cannot use them, too late to be worth it, again and again. The bits stay those of one process. Exit status 77: not possible here.
mpirun=$2
source "$(dirname "$0")/alone.sh"
alone "iproute2 util-linux" "" "$@"
source "$(dirname "$0")/common.sh"
trap 'hosts_down left middle right far; cd /; rm -rf "$work"' EXIT
hosts_up 10.77.8 left middle right far 2>err || { bad "no four hosts: $(cat err)"; finish; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=10.77.8.0/24 OMPI_MCA_oob_tcp_if_include=10.77.8.0/24
export LOCKSTEP_GROW=0.2 LOCKSTEP_MPIRUN=$mpirun
cat >rsh <<END
#!/bin/sh
# what is taken for ssh: HOST COMMAND... A host does not answer while the file down-HOST is there; while apart-HOST is there it has a disk of its own.
[ "\$1" = -x ] && shift
host=\$1; shift
case \$host in 10.77.8.2) name=middle ;; 10.77.8.3) name=right ;; 10.77.8.4) name=far ;; *) exit 255 ;; esac
[ ! -e $work/down-\$name ] || { echo "connect to \$host: No route to host" >&2; exit 255; }
[ ! -e $work/apart-\$name ] || exec ip netns exec \$name unshare --uts --mount sh -c "hostname \$name; mount -t tmpfs none $work/runs; exec sh -c \"\\\$0\"" "\$*"
exec ip netns exec \$name unshare --uts sh -c "hostname \$name; exec sh -c \"\\\$0\"" "\$*"
END
chmod +x rsh
idx_data data 512 64 8
cat >small.yaml <<END
model: {type: mlp, hidden: [32], image_size: 8}
data: {type: mnist, path: data}
train: {epochs: 1000000, steps: 200, global_batch: 128, micro_batch: 16}
eval: {every_epochs: 0, every_steps: 25}
checkpoint: {every_epochs: 0, every_steps: 20, keep: 3}
failure: {digest_every: 7}
threads: 1
END
two="--hosts 10.77.8.1:2,10.77.8.2:2" four="--hosts 10.77.8.1:2,10.77.8.2:2,10.77.8.3:2,10.77.8.4:2"
grow="--rsh $work/rsh --set failure.max_failures=1 --set failure.grow=true --set failure.stall_seconds=20"
# begin NAME SECONDS WORDS...: on the left host; of a rank's calls one in eight takes up to so many seconds
begin() {
    local name=$1 seconds=$2; shift 2; what="$name"
    LOCKSTEP_FAULT=delay@random:seconds=$seconds on left timeout -k 5 300 "$lockstep" train small.yaml $grow --set run.name="$name" "$@" >out 2>err </dev/null & parent=$!
}
ended() { wait $parent; local got=$?; [ $got -eq "$1" ] || { bad "$what: exit status $got instead of $1"; cat err; }; [ ! -e "runs/$what/next.txt" ] || bad "$what: next.txt is left"; }
signals() { kill "-$1" "$(pgrep -P "$(pgrep -P $parent)")"; } # under timeout
last_step() { local n; n=$(sed -n 's/.*"kind":"step","step":\([0-9]*\),.*/\1/p' "runs/$what/metrics.jsonl" 2>/dev/null | tail -n 1); echo "${n:-0}"; }
reaches() { [ "$(last_step)" -ge "$1" ]; }
goes_on() { until_true reaches $(($(last_step) + $1)); } # by so many steps
dies() { local host; for host; do touch down-$host; kill -9 $(ip netns pids $host); done; }
back() { local host; for host; do rm -f down-$host; done; }
runs_on() { [ "$(grep -c "^ranks  $2 on " err)" = "$1" ]; } # COUNT WORKERS: that was the COUNT-th time with so many
lost_and_back() { # a host dies in the first attempt; the run goes on without it, then it answers again
    until_true reaches 20; dies middle; until_true runs_on 1 2; goes_on 5; back middle
}
# finishes NAME: one process on one host does what is left, at full speed
finishes() { "$lockstep" train small.yaml --set run.name="$1" >out 2>err || bad "$1: $(cat err)"; bits "$1"; }
# rows NAME KIND KEY: the last value of a key for each step
rows() { sed -n 's/.*"kind":"'"$2"'".*"step":\([0-9]*\),.*"'"$3"'":\("[^"]*"\|[^,}]*\).*/\1 \2/p' "runs/$1/metrics.jsonl" | sort -n -s -k1,1 | awk '{ last[$1] = $2 } END { for (s in last) print s, last[s] }' | sort -n; }
# bits NAME: losses, digests and weights are those of the run that nothing disturbed
bits() {
    same "$1"
    rows whole step loss >want; rows "$1" step loss >got; [ "$(wc -l <want)" = 200 ] && cmp want got || bad "$1: other losses"
    rows whole digest model | sort >want; rows "$1" digest model | sort >got # there are more, of each checkpoint
    [ -s want ] && [ -z "$(comm -23 want got)" ] || bad "$1: other digests: $(comm -23 want got)"
}
"$lockstep" train small.yaml --set run.name=whole >out 2>err || bad "one process: $(cat err)"

# ---- it comes back, also while checkpoints are written: one sentence says what the ranks stop for, and nothing that has to be done
begin grows 0.05 $two --set checkpoint.every_steps=2
lost_and_back
until_true runs_on 2 4; goes_on 3; cp err first; signals TERM; ended 75
"$lockstep" watch grows --once >out 2>err; has out "attempt 2 continues, 0 steps repeated: host 10.77.8.2 answers again"
finishes grows; cp first err
once err "^host 10.77.8.2 answers again: the run is saved after this step, and continues there as well$"
once err "^stopped (in the evaluation )?after step [0-9]+ of 200 to go on with 4 workers on hosts 10.77.8.1, 10.77.8.2; everything is saved in runs/grows/checkpoints/latest$"
once err "^host 10.77.8.2 answers again; continues from step [0-9]+, on 4 workers instead of 2$"
once err "^warning: host 10.77.8.2 is gone, with ranks 2 to 3: "; times 0 err "^error|start it again|^mpirun"
runs_on 2 4 && runs_on 1 2 || bad "grows: $(grep ^ranks err)"
has runs/grows/result.json '"restarts":\[\{.*"workers":2,"cause":"host 10.77.8.2 is gone.*"steps_lost":0,"workers":4,"cause":"host 10.77.8.2 answers again"'
"$lockstep" verify runs/grows >out 2>err || { bad "verify: $(cat out err)"; }

# ---- three hosts, one after the other; six ranks do not divide the batch, which is said once, and with the next host there are eight
begin one-by-one 0.05 $four
until_true reaches 20
dies middle right far; until_true runs_on 1 2; back right
until_true runs_on 1 4; goes_on 5; back middle
until_true grep -q "answers again, and the run stays" err; goes_on 15; back far
until_true runs_on 2 8; goes_on 3; cp err first; signals TERM; ended 75
finishes one-by-one; cp first err
once err "^stopped .*to go on with 4 workers on hosts 10.77.8.1, 10.77.8.3; "; once err "^stopped .*to go on with 8 workers on hosts 10.77.8.1, 10.77.8.2, 10.77.8.3, 10.77.8.4; "
once err "^host 10.77.8.2 answers again, and the run stays on 4 workers: .*6 data ranks do not divide the 8 micro-batches"
once err "^hosts 10.77.8.2, 10.77.8.4 answer again: "; once err "^warning: .*restart 1 of 1"; times 0 err "^error"

# ---- --until holds for all attempts
begin until 0.05 $two --until 120
lost_and_back
ended 75
once err "to go on with 4 workers"; once err "^stopped .*after step 120 of 200 on request; everything is saved in runs/until/checkpoints/latest: start it again to continue$"
# ---- too late: what is left takes no longer than a start
LOCKSTEP_GROW=0.1 begin until 0.05 $two --until 157
until_true reaches 135; dies middle; until_true runs_on 1 2
until_true reaches 150; back middle
ended 75
times 0 err "to go on with"; once err "^host 10.77.8.2 answers again, and the run stays on 2 workers: it ends in [0-9.]+ m?s, and to stop and start takes [0-9.]+ m?s$"
once err "^stopped .*after step 157 of 200 on request"
finishes until

# ---- a request to stop at that moment: the run is stopped, and nothing else
for moment in "answers again: the run is saved" "to go on with 4 workers"; do
    begin "asked-${#moment}" 0.05 $two
    lost_and_back
    until_true grep -q "$moment" err; signals TERM
    ended 75
    once err "^stopped( .*after step [0-9]+ of 200|) on request(, and not started again; start it again to continue from step [0-9]+|; everything is saved in .*: start it again to continue)$"
    has "runs/$what/result.json" '"state":"stopped"'; times 0 err "^error"
    finishes "$what"
done

# ---- it comes back with a disk of its own: the run goes on without it
begin spoilt 0.05 $two
until_true reaches 20; touch apart-middle; lost_and_back
until_true runs_on 2 2; goes_on 5; cp err first; signals TERM; ended 75; rm apart-middle
finishes spoilt; cp first err
once err "^warning: .*host middle does not see .*; that is not counted, because a host had just come back; continues in 0.5 s from step [0-9]+, on 2 workers instead of 4$"
once err "^warning: host 10.77.8.2 is not used again, because it had come back, and the run failed there before a step; to use it, mend it, "
runs_on 2 2 || bad "spoilt: $(grep ^ranks err)"; times 0 err "^error"

# ---- it comes and goes: only the first time counts as a failure, and after three more it is not used again
begin flaps 0.05 $two --set train.steps=2000
for time in 1 2 3 4; do
    until_true runs_on $time 4; goes_on 5; dies middle
    until_true runs_on $time 2; goes_on 3; back middle
done
goes_on 20; signals TERM; ended 75
once err "^warning: .*; restart 1 of 1 in "; times 3 err "^warning: .*; that is not counted, because a host had just come back; "
once err "^warning: host 10.77.8.2 is not used again, because three times it has come back and failed within an hour; to use it, mend it, "
runs_on 4 4 && runs_on 4 2 || bad "flaps: $(grep ^ranks err)"; times 0 err "^error"
finish

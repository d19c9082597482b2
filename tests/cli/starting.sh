#!/bin/bash
# starting.sh COMMAND MPIRUN - what hangs while ranks start, on two hosts (network namespaces with names of their own): a host that freezes or is cut off before its
# ranks have joined, a start that hangs, and mpirun itself. Each is named, and the run goes on when it does. Exit status 77: not possible here.
mpirun=$2
source "$(dirname "$0")/alone.sh"
alone "iproute2 util-linux" "" "$@"
source "$(dirname "$0")/two_hosts.sh"
hosts_begin 10.77.9 200
cat >rsh <<END
#!/bin/sh
# what is taken for ssh: HOST COMMAND... There is one other host. While the file \`down\` is there, it does not answer; while \`hang\` is there, mpirun's half does not start.
[ "\$1" = -x ] && shift
shift
[ ! -e $work/down ] || { echo "No route to host" >&2; exit 255; }
case "\$*" in *orted*) while [ -e $work/hang ]; do sleep 0.05; done ;; esac
exec ip netns exec right unshare --uts sh -c 'hostname right; exec sh -c "\$0"' "\$*"
END
chmod +x rsh
processes() { ip netns pids "$1"; }
has_stopped() { local p; for p in $(processes "$1"); do grep -q "^State:.T" "/proc/$p/status" && return; done; false; }
said() { until_true grep -qE -- "$1" err; }
cat >small.yaml <<END
model: {type: mlp, hidden: [32]}
data: {type: shapes}
train: {epochs: 1000000, steps: 30, global_batch: 64, micro_batch: 16}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0, every_steps: 30, keep: 3}
threads: 1
END
"$lockstep" train small.yaml --set run.name=whole >out 2>err || bad "one process"
silent="^warning: host 10.77.9.2: no sign of life for [0-9]+ s; its ranks 2 to 3 have not joined the group: is the host up, is its network\?$"
export LOCKSTEP_NOTICE=2
unborn() { LOCKSTEP_FAULT=stop@join:rank=2 begin train small.yaml $two --set run.name="$@"; until_true has_stopped right; }

# ---- the other host freezes with all that runs there, goes on, and so does the run
unborn freezes
kill -STOP $(processes right); said "$silent"
kill -CONT $(processes right); said "^host 10.77.9.2: there are signs of life again$"
ended 0; same freezes; once err "no sign of life"

# ---- it is cut off: the run goes on without it
unborn cut --set failure.max_failures=1 --set failure.stall_seconds=8
ip -n right link set eth-right down; touch down; said "$silent"
ended 0; same cut; once err "^warning: .*; restart 1 of 1 in 0.5 s.*on 2 workers instead of 4$"
rm down; kill -9 $(processes right) 2>/dev/null; ip -n right link set eth-right up

# ---- mpirun is stopped: that is said, not that all hosts are lost
unborn mpirun
starter=$(for p in $(processes left); do [ "$(tr '\0' ' ' <"/proc/$p/cmdline" | cut -d' ' -f1 | xargs -r basename)" = mpirun.openmpi ] || [ "$(readlink "/proc/$p/exe")" = "$(readlink -f "$mpirun")" ] && echo "$p"; done | head -n 1)
kill -STOP "$starter"; said "^warning: .*mpirun.*, process $starter, which passes on what all hosts say, is stopped \(state T\)$"
kill -CONT "$starter" $(processes right); said "^.*mpirun.* goes on$"
ended 0; same mpirun; times 0 err "no sign of life"

# ---- the other half of mpirun does not start
touch hang
begin train small.yaml $two --set run.name=hangs
said "^warning: .*mpirun.*, process [0-9]+, has started no rank for [0-9]+ s: is a host down, is its network\?$"
rm hang
ended 0; same hangs; once err "^warning"

# ---- the user's own mpirun: the ranks of this host say that those of the other have not come; of a stopped rank its own host says it
own() { # RUN FAULT
    what="mpirun, $1"
    LOCKSTEP_FAULT=stop@join:rank=$2 on left timeout -k 5 200 "$mpirun" --mca plm_rsh_agent "$work/rsh" --host 10.77.9.1:2,10.77.9.2:2 -n 4 -x LOCKSTEP_FAULT -x LOCKSTEP_NOTICE -x LOCKSTEP_CACHE -x OMPI_MCA_btl \
        "$lockstep" train "$work/small.yaml" --set run.name="$1" --set run.storage="$work/runs" >out 2>err </dev/null & parent=$!
    until_true has_stopped right
}
own own-freezes 2
kill -STOP $(processes right); said "^warning: waiting in MPI_Init for [0-9]+ s: the 2 ranks of host left are here, ranks of other hosts have not come: is each host up, is its network\?$"
kill -CONT $(processes right); said "^all ranks have come, after [0-9]+ s$"
ended 0; same own-freezes
own own-stopped 2; said "^warning: waiting for rank 2: its process [0-9]+ on host right is stopped \(state T\); it had not joined the group$"
times 0 err "^warning: waiting for rank [013]"
kill -CONT $(processes right)
ended 0; same own-stopped
finish

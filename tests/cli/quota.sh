#!/bin/bash
# quota.sh COMMAND RANKS_TEST - a real control group with a CPU quota, above the one of the process: the number of threads, what `train` and `doctor` say of it,
# and ranks that share it (RANKS_TEST: launch.agree, whose ranks would have 2 threads each, and with a third of 5 cores have 1).
ranks_test=$2
source "$(dirname "$0")/common.sh"

# ---- version 1, else version 2 where this process may hand the controller on
skip() { echo "skipped: quota.sh: no control group with a CPU quota can be made here ($*)"; exit 77; }
group=''
trap 'cd /; [ -z "$group" ] || rmdir "$group/inner" "$group" 2>/dev/null; rm -rf "$work"' EXIT
for group in /sys/fs/cgroup/cpu/lockstep-$$ /sys/fs/cgroup/cpu,cpuacct/lockstep-$$ /sys/fs/cgroup/lockstep-$$; do
    mkdir -p "$group/inner" 2>err && { [ -e "$group/cpu.cfs_quota_us" ] || [ -e "$group/cpu.max" ]; } && break
    rmdir "$group/inner" "$group" 2>/dev/null
    group=''
done
[ -n "$group" ] || skip "$(tail -n 1 err)"
quota() { if [ -e "$group/cpu.max" ]; then echo "$1 100000" >"$group/cpu.max"; else echo "$1" >"$group/cpu.cfs_quota_us"; fi; }
within() { (echo $BASHPID >"$group/inner/cgroup.procs" && "$@"); }
(quota 50000) 2>err || skip "$(tail -n 1 err)"
within true 2>err || skip "$(tail -n 1 err)"

[ "$(nproc)" -gt 1 ] || skip "one core: there is no other number of threads"
run() { what="lockstep $*"; within "$lockstep" "$@" >out 2>err </dev/null || { bad "$what: exit status $?"; cat err; }; }

train=(train mlp-mnist --dry-run --set data.type=shapes)
run "${train[@]}"; has err '^model .*, 1 thread \(cgroup quota of 0\.50 cores\)$'
run "${train[@]}" --set threads=2; has err '^model .*, 2 threads \(threads\)$'
run doctor --no-measure; has out '^  quota +0\.50 cores'; has out '^  threads +1 by default \(cgroup quota of 0\.50 cores\)$'
quota 500000
what="a quota of 5 cores for 3 ranks"
within "$ranks_test" >out 2>&1 || { bad "$what"; cat out; }
OMP_NUM_THREADS=1 run "${train[@]}"; has err '^model .*, 1 thread \(OMP_NUM_THREADS\)$'
finish

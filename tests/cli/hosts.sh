#!/bin/bash
# hosts.sh MPIRUN COMMAND - two ranks on two hosts that share no network but a cable: network namespaces with names of their
# own. The same weights as one process; and when the cable is pulled, both sides end with a message. Exit status 77: not possible here.
set -u
mpirun=$1 lockstep=$2
source "$(dirname "$0")/alone.sh"
alone "iproute2 util-linux" "" "$@"
bad() { echo "hosts.sh: $*"; cat err; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-hosts-XXXXXX")
trap 'hosts_down; cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
two_hosts 10.77.7 2>err || bad "no two hosts"
export LOCKSTEP_CACHE=$work/cache
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
cat >agent <<END
#!/bin/sh
# what mpirun takes for ssh: HOST COMMAND...
shift
exec ip netns exec right unshare --uts sh -c 'hostname right; exec sh -c "\$0"' "\$*"
END
chmod +x agent
cat >small.yaml <<END
model: {type: vit, image_size: 28, patch_size: 7, in_channels: 1, layers: 2, heads: 2, hidden_size: 32, mlp_size: 32, classes: 10}
data: {type: shapes}
train: {steps: 6, global_batch: 32, micro_batch: 8, clip_norm: 0.5}
parallel: {units: "class:EncoderBlock"}
threads: 1
END
"$lockstep" train small.yaml --set run.name=one >out 2>err || bad "one process does not train"
on_two_hosts() { # SECONDS WORDS...
    local limit=$1; shift
    on left timeout -k 5 "$limit" "$mpirun" --mca plm_rsh_agent "$work/agent" \
        --mca btl tcp,self \
        --mca btl_tcp_if_include 10.77.7.0/24 --mca oob_tcp_if_include 10.77.7.0/24 --host 10.77.7.1:1,10.77.7.2:1 -n 2 \
        "$lockstep" train "$@" >out 2>err </dev/null
}
for data in fsdp ddp; do
    on_two_hosts 120 small.yaml --set run.name=two-$data --set parallel.data=$data || bad "two hosts do not train ($data)"
    grep -q "ranks  2 on 2 hosts" err || bad "the ranks are not on two hosts"
    cmp runs/one/checkpoints/latest/model.safetensors runs/two-$data/checkpoints/latest/model.safetensors || bad "two hosts end with other weights ($data)"
done

# The cable is pulled: the ranks on both sides end, and say who did not come (mpirun waits for ever for its own other half)
ranks() { local ns p; for ns in left right; do for p in $(ip netns pids $ns); do [ "$(cat /proc/$p/comm 2>/dev/null)" = lockstep ] && echo $p; done; done; }
{ on_two_hosts 100 small.yaml --set run.name=cut --set train.steps=10000000 --set train.epochs=10000000 --set failure.stall_seconds=2; } 2>/dev/null &
for _ in $(seq 5000); do grep -q '"step":20,' runs/cut/metrics.jsonl 2>/dev/null && break; sleep 0.02; done
[ "$(ranks | wc -l)" = 2 ] || bad "two ranks do not run"
ip -n left link set eth-left down
for _ in $(seq 500); do [ -z "$(ranks)" ] && break; sleep 0.1; done
[ -z "$(ranks)" ] || bad "a rank lives on after the cable was pulled: $(ranks)"
grep -qE "error: rank [01]: did not come within 2 s; rank [01] waited for it in " err || bad "nobody says who did not come"

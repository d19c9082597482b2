# slurm_cluster.sh - a Slurm cluster of virtual nodes on this machine, for a test that sources this file after common.sh: `cluster_up N` makes nodes n1 .. nN,
# `on NODE COMMAND...` runs a command there (node `ctl`: where slurmctld runs), `cluster_down` leaves nothing behind. No systemd and no cgroups are needed.
# A node is a network namespace with a hostname, a hosts file and a slurmd of its own. A bridge inside the namespace of slurmctld joins them, so addresses and
# names of devices meet nobody else's. munged has its key and socket in $work.
cluster=lockstep-$$ # begins the names of the namespaces

cluster_possible() { # or a line that says why not
    local command
    [ "$(id -u)" = 0 ] || { echo "only root may make network namespaces"; return 1; }
    for command in ip unshare munged slurmctld slurmd srun sbatch; do
        command -v $command >/dev/null || { echo "there is no $command"; return 1; }
    done
    [ ${#work} -lt 80 ] || { echo "the path of a socket in $work would be too long"; return 1; }
    ip netns add $cluster-ctl 2>err || { echo "this machine gives no network namespaces: $(head -n 1 err)"; return 1; }
    ip -n $cluster-ctl link add br0 type bridge 2>err || { echo "this machine gives no bridges: $(head -n 1 err)"; return 1; }
}

on() { local node=$1; shift; ip netns exec "$cluster-$node" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$node" "$@"; }

node_up() { on "$1" slurmd -f "$SLURM_CONF" -N "$1"; }
# the node dies with all that runs there
node_dies() { local pids; while pids=$(ip netns pids "$cluster-$1") && [ -n "$pids" ]; do kill -9 $pids 2>/dev/null; done; }
node_is() { [ "$(on ctl sinfo -h -N -n "$1" -o %T)" = "$2" ]; }

cluster_network() { # NODES
    local i
    ip -n $cluster-ctl link set lo up && ip -n $cluster-ctl link set br0 up && ip -n $cluster-ctl addr add 10.77.7.254/24 dev br0
    printf '127.0.0.1 localhost\n10.77.7.254 ctl\n' >hosts
    for i in $(seq "$1"); do
        printf '10.77.7.%d n%d\n' "$i" "$i" >>hosts
        ip netns add $cluster-n$i
        ip -n $cluster-n$i link add eth0 type veth peer name port$i netns $cluster-ctl
        ip -n $cluster-n$i link set lo up && ip -n $cluster-n$i link set eth0 up && ip -n $cluster-n$i addr add "10.77.7.$i/24" dev eth0
        ip -n $cluster-ctl link set port$i master br0 && ip -n $cluster-ctl link set port$i up
    done
    for i in ctl $(seq -f n%g "$1"); do mkdir -p /etc/netns/$cluster-$i && cp hosts /etc/netns/$cluster-$i/hosts; done
}

# An empty cgroup.conf is fatal. TmpFS contains %n, because PMIx of two nodes would meet in one /tmp. A node may claim any number of CPUs
# (config_overrides). cred_expire is also how long a requeued job waits.
cluster_config() { # NODES
    export SLURM_CONF=$work/slurm.conf
    [ "$(slurmd -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 23 ] && echo CgroupPlugin=disabled >cgroup.conf || echo CgroupPlugin=cgroup/v1 >cgroup.conf
    cat >slurm.conf <<END
ClusterName=$cluster
SlurmctldHost=ctl(10.77.7.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=1,sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=30
MpiDefault=none
TmpFS=$work/tmp-%n
JobRequeue=1
NodeName=n[1-$1] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

cluster_up() { # NODES
    local i
    chmod 755 "$work" # munge wants its socket to be reachable
    mkdir state munge && chmod 711 munge
    cluster_network "$1"
    cluster_config "$1"
    (umask 077; head -c 128 /dev/urandom >munge/key)
    munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" || return
    on ctl slurmctld -c -f "$SLURM_CONF" || return
    for i in $(seq "$1"); do mkdir "spool-n$i" "tmp-n$i"; node_up "n$i" || return; done
    for i in $(seq "$1"); do until_true node_is "n$i" idle || return; done
}

cluster_down() {
    local name
    for name in $(ip netns list 2>/dev/null | sed -n "s/^\($cluster-[a-z0-9]*\).*/\1/p"); do
        node_dies "${name#"$cluster-"}"
        ip netns del "$name"
        rm -rf "/etc/netns/$name"
    done
    [ ! -s "$work/munge/pid" ] || kill "$(cat "$work/munge/pid")" 2>/dev/null
    rmdir /etc/netns 2>/dev/null # if nobody else has a folder there
}

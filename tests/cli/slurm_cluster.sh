# slurm_cluster.sh - a Slurm cluster of virtual nodes on this machine, for a test that is alone (alone.sh) and sources this file: `cluster_up N` makes nodes
# n1 .. nN and `ctl`, where slurmctld runs, and `cluster_down` ends them. No systemd and no cgroups are needed. A node is a network namespace with a hostname and
# a slurmd of its own. A bridge inside the namespace of slurmctld joins them, so addresses and names of devices meet nobody else's. munged has its key and socket
# in $work.

node_up() { on "$1" slurmd -f "$SLURM_CONF" -N "$1"; }
# the node dies with all that runs there
node_dies() { local pids; while pids=$(ip netns pids "$1") && [ -n "$pids" ]; do kill -9 $pids 2>/dev/null; done; }
node_is() { [ "$(on ctl sinfo -h -N -n "$1" -o %T)" = "$2" ]; }

cluster_network() { # NODES
    local i
    ip netns add ctl && ip -n ctl link add br0 type bridge || return
    ip -n ctl link set lo up && ip -n ctl link set br0 up && ip -n ctl addr add 10.77.7.254/24 dev br0
    printf '127.0.0.1 localhost %s\n10.77.7.254 ctl\n' "$(hostname)" >hosts
    for i in $(seq "$1"); do
        printf '10.77.7.%d n%d\n' "$i" "$i" >>hosts
        ip netns add n$i
        ip -n n$i link add eth0 type veth peer name port$i netns ctl
        ip -n n$i link set lo up && ip -n n$i link set eth0 up && ip -n n$i addr add "10.77.7.$i/24" dev eth0
        ip -n ctl link set port$i master br0 && ip -n ctl link set port$i up
    done
    mount --bind hosts /etc/hosts
}

# An empty cgroup.conf is fatal. TmpFS contains %n, because PMIx of two nodes would meet in one /tmp. A node may claim any number of CPUs
# (config_overrides). cred_expire is also how long a requeued job waits. The test asks for a job long after its end (MinJobAge).
cluster_config() { # NODES
    export SLURM_CONF=$work/slurm.conf
    [ "$(slurmd -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 23 ] && echo CgroupPlugin=disabled >cgroup.conf || echo CgroupPlugin=cgroup/v1 >cgroup.conf
    cat >slurm.conf <<END
ClusterName=lockstep
SlurmctldHost=ctl(10.77.7.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=60
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
SlurmdTimeout=30
MinJobAge=7200
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
    [ ${#work} -lt 80 ] || { echo "the path of a socket in $work would be too long"; return 1; }
    chmod 755 "$work" # munge wants its socket to be reachable
    mkdir state munge && chmod 711 munge
    cluster_network "$1" || return
    cluster_config "$1"
    (umask 077; head -c 128 /dev/urandom >munge/key)
    munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" || return
    on ctl slurmctld -c -f "$SLURM_CONF" || return
    for i in $(seq "$1"); do mkdir "spool-n$i" "tmp-n$i"; node_up "n$i" || return; done
    for i in $(seq "$1"); do until_true node_is "n$i" idle || return; done
}

cluster_down() {
    local node
    for node in $(ip netns list 2>/dev/null | cut -d' ' -f1); do node_dies "$node"; done
    [ ! -s "$work/munge/pid" ] || kill "$(cat "$work/munge/pid")" 2>/dev/null
}

# alone.sh - processes, mounts and network namespaces of its own, for a test that sources this file and calls `alone` first, before common.sh.
own="--pid --fork --kill-child --mount --mount-proc"

alone_possible() { # COMMANDS...: or a line that says why not
    local command
    [ "$(id -u)" = 0 ] || { echo "only root may make network namespaces"; return 1; }
    for command in ip unshare "$@"; do
        command -v $command >/dev/null || { echo "there is no $command"; return 1; }
    done
    unshare $own --net sh -c 'mount -t tmpfs none /run && ip netns add n1 && ip link add br0 type bridge && ip link add eth-a type veth peer name eth-b' 2>&1 | head -n 1 |
        sed 's/^/this machine gives no namespaces or bridges: /' | grep . && return 1
    return 0
}

# Runs the test once more, as the first process of a PID namespace: when that ends, also by SIGKILL, all others end, and the mounts and namespaces go with them.
# Names of network namespaces are in /run, which is empty here, so tests at the same time do not meet. Exit status 77: not possible here.
alone() { # PACKAGES COMMANDS WORDS...: of Debian, that the test needs, of the test
    local why packages=$1 commands=$2
    shift 2
    if [ "${LOCKSTEP_TEST_ALONE-}" != yes ]; then
        why=$(alone_possible $commands) && LOCKSTEP_TEST_ALONE=yes exec unshare $own "$BASH" "$0" "$@"
        echo "skipped: $(basename "$0"): $why (Debian: $packages)"
        exit 77
    fi
    unset LOCKSTEP_TEST_ALONE
    mount -t tmpfs none /run && mount -t tmpfs none /dev/shm || { echo "$(basename "$0"): no /run of its own"; exit 1; }
}

# two_hosts PREFIX: the namespaces `left` and `right` with a cable between eth-left, PREFIX.1, and eth-right, PREFIX.2
two_hosts() {
    local side i=0
    ip netns add left && ip netns add right && ip link add eth-left netns left type veth peer name eth-right netns right || return
    for side in left right; do
        i=$((i + 1))
        ip -n $side link set lo up && ip -n $side addr add "$1.$i/24" dev eth-$side && ip -n $side link set eth-$side up || return
    done
}

# hosts_up PREFIX NAME...: namespaces with the addresses PREFIX.1 and so on, joined by a bridge in the first one
hosts_up() {
    local prefix=$1 first=$2 i=0 host
    shift
    for host; do
        i=$((i + 1))
        ip netns add $host && ip -n $host link set lo up || return
        if [ $i = 1 ]; then ip -n $host link add eth0 type bridge
        else ip -n $host link add eth0 type veth peer name port$i netns $first && ip -n $first link set port$i master eth0 up; fi || return
        ip -n $host addr add $prefix.$i/24 dev eth0 && ip -n $host link set eth0 up || return
    done
}

hosts_down() { # NAMES...: left and right
    local side
    for side in ${*:-left right}; do kill -9 $(ip netns pids $side 2>/dev/null) 2>/dev/null; done
    wait 2>/dev/null
}

# on HOST COMMAND...: in the namespace and under the name of that host
on() { local host=$1; shift; ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$host" "$@"; }

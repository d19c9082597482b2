# two_hosts.sh - what tests begin with that run the command on two hosts; source it in place of common.sh, behind `alone` (alone.sh). The test writes ./rsh, which is taken for ssh.
source "$(dirname "$0")/common.sh"

# hosts_begin PREFIX SECONDS: the namespaces left (PREFIX.1) and right (PREFIX.2) as hosts of two ranks each; no command takes longer. $two: the words that choose them
hosts_begin() {
    trap 'hosts_down; cd /; rm -rf "$work"' EXIT
    two_hosts $1 2>err || { bad "no two hosts: $(cat err)"; finish; }
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=$1.0/24 OMPI_MCA_oob_tcp_if_include=$1.0/24
    two="--rsh $work/rsh --hosts $1.1:2,$1.2:2" longest=$2
}

# as in common.sh, on the left host
try() {
    local want=$1; shift
    what="lockstep $*"
    on left timeout -k 5 $longest "$lockstep" "$@" >out 2>err </dev/null
    local got=$?
    [ $got -eq "$want" ] || { bad "$what: exit status $got instead of $want"; cat err; }
}
begin() { what="lockstep $*"; on left timeout -k 5 $longest "$lockstep" "$@" >out 2>err </dev/null & parent=$!; }
ended() { wait $parent; local got=$?; [ $got -eq "$1" ] || { bad "$what: exit status $got instead of $1"; cat err; }; }

#!/bin/bash
# soak.sh COMMAND [KILLS [SEED]] [--write] - a run of four ranks on two hosts (network namespaces, where this is root; else on one) is disturbed KILLS times at
# random moments: a rank is killed or stopped, a host is killed, frozen or cut off, or the parent is killed. Each time it goes on, by itself or started again, and ends with the bytes of the
# run that nothing disturbed. Prints what docs/reliability.md shows; --write puts it there. `make soak KILLS=100` does.
source "$(dirname "$0")/../tests/cli/alone.sh"
page=$(realpath "$(dirname "$0")/../docs/reliability.md")
hosts=1
if [ "$(id -u)" = 0 ] && why=$(alone_possible) && command -v mpirun >/dev/null; then
    hosts=2
    alone "iproute2 util-linux" "" "$@"
fi
write=no words=()
for word; do [ "$word" = --write ] && write=yes || words+=("$word"); done
lockstep=$(realpath "${words[0]}") kills=${words[1]:-20} seed=${words[2]:-$(date +%s)}
RANDOM=$seed
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-soak-XXXXXX")
parent=
ended() { [ -z "$parent" ] || kill -9 "$parent" 2>/dev/null; [ $hosts = 1 ] || hosts_down; cd /; rm -rf "$work"; }
trap ended EXIT
cd "$work" || exit 1
export LOCKSTEP_CACHE=$work/cache
unset LOCKSTEP_RANK LOCKSTEP_RANKS LOCKSTEP_CONTROL_FD LOCKSTEP_FAULT LOCKSTEP_FAIL
fails() { echo "soak.sh: seed $seed, $count of $kills, run $round: $*"; cat err; exit 1; }
count=0 round=0

# Noise: 256 images, an epoch is 8 steps.
{ printf '\0\0\010\003\0\0\001\0\0\0\0\034\0\0\0\034'; head -c 200704 /dev/urandom; } >images
{ printf '\0\0\010\001\0\0\001\0'; head -c 100000 /dev/urandom | tr -cd '\000-\011' | head -c 256; } >labels
cat >soak.yaml <<END2
model: {type: vit, layers: 2, heads: 2, hidden_size: 32, mlp_size: 64}
data: {type: idx, train_images: images, train_labels: labels, eval_images: images, eval_labels: labels}
train: {epochs: 1000000, steps: 240, global_batch: 32, micro_batch: 8}
eval: {every_epochs: 0}
parallel: {data: ddp}
checkpoint: {every_epochs: 0, every_steps: 10}
failure: {stall_seconds: 9, digest_every: 5}
threads: 1
END2
"$lockstep" train soak.yaml --set run.name=whole --quiet >out 2>err </dev/null || fails "the run that nothing disturbs fails"

train=("$lockstep" train soak.yaml --no-progress --set failure.max_failures=-1)
if [ $hosts = 2 ]; then
    two_hosts 10.77.33 || fails "no two hosts"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=10.77.33.0/24 OMPI_MCA_oob_tcp_if_include=10.77.33.0/24
    cat >rsh <<END2
#!/bin/sh
# what is taken for ssh: HOST COMMAND... There is one other host, which does not answer while the cable is out.
[ "\$1" = -x ] && shift
shift
ip -n left link show eth-left | grep -q ,UP || { echo "No route to host" >&2; exit 255; }
exec ip netns exec right unshare --uts sh -c 'hostname right; exec sh -c "\$0"' "\$*"
END2
    chmod +x rsh
    train=(ip netns exec left unshare --uts sh -c 'hostname left; exec "$@"' left "${train[@]}" --rsh "$work/rsh" --hosts 10.77.33.1:2,10.77.33.2:2)
else
    train+=(--workers 4)
fi
begin() { LOCKSTEP_FAULT=delay@random:seconds=0.02:seed=$round "${train[@]}" --set run.name=run$round >>out 2>>err </dev/null & parent=$!; }
runs_on() { kill -0 "$parent" 2>/dev/null; }
processes() { if [ $hosts = 2 ]; then ip netns pids "$1"; else cat "/proc/$parent/task/$parent/children"; fi; }
ranks() { local p; for p in $(processes "$1"); do grep -qzE '^LOCKSTEP_(REPORT|CONTROL)_FD=' "/proc/$p/environ" 2>/dev/null && [ "$p" != "$parent" ] && echo "$p"; done; }
lines() { local n; n=$(grep -cE "$1" "$2" 2>/dev/null); echo "${n:-0}"; }
steps() { lines '"kind":"step"' runs/run$round/metrics.jsonl; }
nobody() { [ $hosts = 1 ] || [ -z "$(ip netns pids left)$(ip netns pids right)" ]; }
# reach COMMAND...: true when it is; false when the parent has ended before
reach() { local end=$((SECONDS + 120)); while ! "$@"; do [ $SECONDS -lt $end ] || fails "waits in vain for: $*"; runs_on || { "$@"; return; }; sleep 0.02; done; }
more() { [ "$(lines "$1" "$2")" -gt "$3" ]; }
since() { echo "$EPOCHREALTIME $1" | awk '{ printf "%.2f\n", $1 - $2 }'; }

# One blow. Adds a line to ./blows: KIND SECONDS-TO-NAME SECONDS-TO-CONTINUE STEPS-LOST
blow() {
    local side=left kind name before named rows lost='; restart [0-9]+ ' news='waiting for rank|no sign of life|gives? no sign' all there
    [ $hosts = 1 ] || [ $((RANDOM % 2)) = 0 ] || side=right
    all=($(ranks $side))
    [ ${#all[@]} -gt 0 ] || return 0
    case $((RANDOM / 7 % 12)) in
    0 | 1 | 2 | 3 | 4) kind=rank ;;
    5 | 6) kind=host ;;
    7) kind=hang ;;
    8) kind=freeze ;;
    9) kind=cut ;;
    *) kind=parent ;;
    esac
    case $hosts$kind in
    1host) kind=rank ;;
    1freeze | 1cut) kind=hang ;;
    2host | 2freeze | 2cut) [ "$(ranks right)" ] || return 0 ;; # the run may be on the other one alone
    esac
    there=$(ip netns pids right 2>/dev/null)
    before=$(lines "$lost" err) name=$(lines "$news" err)
    local t=$EPOCHREALTIME
    case $kind in
    rank) kill -KILL "${all[RANDOM % ${#all[@]}]}" 2>/dev/null || return 0 ;;
    hang) kill -STOP "${all[RANDOM % ${#all[@]}]}" 2>/dev/null || return 0 ;;
    host) kill -KILL $(ip netns pids right) 2>/dev/null ;;
    freeze) kill -STOP $there 2>/dev/null ;;
    cut) ip -n left link set eth-left down ;;
    parent) kill -KILL "$parent" 2>/dev/null ;;
    esac
    named=-
    if [ $kind = parent ]; then
        wait "$parent" 2>/dev/null; [ $? = 137 ] || { parent=; return 0; } # it was at its end
        while ! nobody; do sleep 0.02; done
        local last first at; at=$(lines . "runs/run$round/metrics.jsonl")
        last=$(grep '"kind":"step"' "runs/run$round/metrics.jsonl" 2>/dev/null | tail -n 1 | grep -o '"step":[0-9]*' | cut -d: -f2)
        begin
    else
        if [ $kind = hang ] || [ $kind = freeze ] || [ $kind = cut ]; then
            reach more "$news|; restart " err $((name + before)) || return 0
            named=$(since $t)
            reach more "$lost" err $before || return 0
            [ $kind = hang ] || kill -KILL $there 2>/dev/null
            [ $kind != cut ] || ip -n left link set eth-left up
        else
            reach more "$lost" err $before || return 0 # it was at its end
            named=$(since $t)
        fi
    fi
    rows=$(steps)
    reach more '"kind":"step"' runs/run$round/metrics.jsonl "$rows"
    if [ $kind = parent ]; then
        first=$(tail -n +$((at + 1)) "runs/run$round/metrics.jsonl" | grep -m1 '"kind":"step"' | grep -o '"step":[0-9]*' | cut -d: -f2)
        [ "$first" ] || return 0 # it was at its end: no step was left
        steps_lost=$((${last:-0} >= first ? ${last:-0} - first + 1 : 0))
    else
        steps_lost=$(grep '"kind":"restart"' "runs/run$round/metrics.jsonl" | tail -n 1 | grep -o '"steps_lost":[0-9]*' | cut -d: -f2)
    fi
    echo "$kind $named $(since $t) ${steps_lost:-0}" >>blows
    count=$((count + 1))
}

: >blows
began=$SECONDS
while [ $count -lt "$kills" ]; do
    round=$((round + 1))
    : >err
    begin
    for n in 1 2 3; do # (the pause before a restart doubles each time)
        [ $count -lt "$kills" ] && runs_on || break
        [ $((RANDOM / 7 % 5)) = 0 ] || reach more '"kind":"step"' runs/run$round/metrics.jsonl 0 || break # one in five: while it starts
        sleep "$((RANDOM / 7 % 3)).$(printf %03d $((RANDOM % 1000)))"
        runs_on && blow
    done
    [ -z "$parent" ] || wait "$parent" || fails "ends with status $?"
    parent=
    for file in model.safetensors optimizer.safetensors; do
        cmp "runs/whole/checkpoints/latest/$file" "runs/run$round/checkpoints/latest/$file" || fails "another $file"
    done
    rm -rf "runs/run$round"
done

table() {
    echo "$count disturbances of $round runs of four ranks on $hosts host$([ $hosts = 1 ] || echo s), each of 240 steps with a checkpoint every 10. All ended"
    echo "with the bytes of an undisturbed run (seed $seed, $((SECONDS - began)) s in all). Times are the median and the longest, in seconds; they"
    echo "contain the pause before a restart (0.5, 1 or 2 s). One in five comes while the ranks may still start."
    echo
    echo "| what was done | times | named after | next new step after | steps computed again: mean, most |"
    echo "|---|---|---|---|---|"
    local kind text
    for kind in "rank:a rank was killed" "host:all processes of a host were killed" "hang:a rank was stopped (\`failure.stall_seconds: 9\`)" \
        "freeze:all processes of a host were stopped" "cut:the cable between the hosts was pulled" \
        "parent:the parent was killed, and the command started again"; do
        grep "^${kind%%:*} " blows | sort -g -k3 | awk -v what="${kind#*:}" '
            { named[NR] = $2; on[NR] = $3; lost += $4; if ($4 > most) most = $4 }
            END {
                if (!NR) exit
                n = asort_copy(named)
                printf "| %s | %d | %s | %.1f, %.1f | %.1f, %d |\n", what, NR, named[1] == "-" ? "" : sprintf("%.1f, %.1f", named[int((NR + 1) / 2)], named[NR]), on[int((NR + 1) / 2)], on[NR], lost / NR, most
            }
            function asort_copy(a, i, j, t) { for (i = 2; i <= NR; i++) for (j = i; j > 1 && a[j] + 0 < a[j - 1] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t } return NR }'
    done
}
table | tee table
[ $write = no ] || awk -v file=table '
    /^<!-- soak -->$/ { print; print ""; while ((getline line < file) > 0) print line; print ""; skip = 1; next }
    /^<!-- end of soak -->$/ { skip = 0 }
    !skip' "$page" >page && [ $write = no ] || cp page "$page"

#!/usr/bin/env bash
# corpus.sh COMMAND PROGRAM REPORT FOLDER [--write] - the runs of tests/golden/runs, which this and older versions wrote: what `runs`, `runs --metrics`, `watch` and
# report.html show of them, byte for byte; and each continues from its checkpoint and keeps the rows that it has. PROGRAM and REPORT are built from cli/corpus/*.c.
# --write makes the expected files anew (tests/golden/README.md).
golden=$(realpath "$4") program=$(realpath "$2") report=$(realpath "$3") write=${5:-}
set -- "$(realpath "$1")"
source "$(dirname "$0")/common.sh"
export LOCKSTEP_DEVICE=cpu # as when they were written
export LC_ALL=C # without UTF-8, `watch` draws bars with ASCII
cp "$golden"/*.csv . && mkdir runs shown && cp -a "$golden"/*/ runs && chmod -R u+w runs || exit 1
names=$(ls runs)

# Tables show how long ago a run wrote. Ten days and ten minutes ago is shown as "10 d 00 h" for the next twenty minutes.
sed -i "s/\"time\":1795800000/\"time\":$(($(date +%s) - 864600))/" runs/*/result.json
# What the command prints on stdout, then on stderr. JSON has the age in seconds, which depends on how long the test takes.
show() {
    echo "\$ lockstep $*"
    "$lockstep" "$@" 2>err </dev/null | sed -E 's/"seconds_ago":864[67][0-9]{2},/"seconds_ago":864600,/g'
    [ "${PIPESTATUS[0]}" -eq 0 ] || echo "(it failed)"
    sed 's/^/stderr: /' err
}
# The text of report.html, with a line for each row of a table. Left out: scripts; notes for readers without scripts; the recipe, because a new key would change
# it; the version, which changes with each release.
text_of_report() {
    sed -E '1,/<body/d; s/ · lockstep [0-9.]+//' "$1" | awk '
        /<(script|noscript|details)/ { hidden = 1 }
        !hidden {
            gsub(/<\/(td|th|b|span)>|<span class="state/, " | &"); gsub(/<[^>]*>/, ""); sub(/( \| *)+$/, "")
            if ($0 != "") print
        }
        /<\/(script|noscript|details)>/ { hidden = 0 }'
}

# ---- what is shown
{ show runs; show runs --json; } >shown/all.txt
for name in $names; do
    {
        for steps in "" --steps; do
            for form in "" --csv --json; do show runs --metrics "$name" $steps $form; done
        done
        show watch "$name" --once
    } >"shown/$name.txt"
done
for name in $names; do # after the others, because it opens the run and so ends a line that was cut
    "$report" runs "$name" 2>err || bad "no report of $name: $(cat err)"
    { echo "report.html"; text_of_report "runs/$name/report.html"; } >>"shown/$name.txt"
done

# ---- each continues
# series NAME STEP: the steps up to this one, and the epochs; of a program the reports
series() {
    "$lockstep" runs --metrics "$1" --steps --csv 2>/dev/null | awk -F, -v last="$2" 'NR == 1 { step = $1 == "report" ? 2 : 1 } NR == 1 || $step <= last'
    "$lockstep" runs --metrics "$1" --csv 2>/dev/null | awk -F, -v last="$2" 'NR == 1 || $2 <= last'
}
# first_columns OLDER: of each line the columns that this line has in the older text: a later version may add columns behind them
first_columns() { awk -F, -v OFS=, 'NR == FNR { n[FNR] = NF; next } FNR in n && NF > n[FNR] { NF = n[FNR] } 1' "$1" -; }
# begins FILE OLDER: the file begins with the bytes of the older one
begins() { cmp -s -n "$(stat -c %s "$2")" "$1" "$2" || bad "$what: $1 does not begin with what it had:" "$(diff "$2" "$1" | head -n 10)"; }
# written NAME: the rows and files that it wrote now. Times and the last bits of losses differ from machine to machine, so N stands for each number; a step that
# overflows or not may be counted in its epoch. The time that the launch took is left out where it is less than the clock of processes tells apart.
written() {
    local all=runs/$1/metrics.jsonl
    tail -c +$(($(stat -c %s "$golden/$1/metrics.jsonl") + 1)) "$all" | sed -E '/^$/d; /"kind":"epoch"/s/"skipped":[0-9]+,//'
    cat "runs/$1"/{result.json,log/rank-0.heartbeat.json,checkpoints/latest/trainer.json} | sed -E 's/"launch":[-0-9.e]+,//'
    head -n 1 "runs/$1/metrics.csv"; tail -n 1 "runs/$1/metrics.csv" | sed -E 's/[-+0-9.e]+/N/g'
}
shape_of() {
    sed -E 's/([:[])-?[0-9][-+0-9.e]*/\1N/g; s/:(true|false)/:B/g; s/"(version|code|host|hardware|recipe|model|optimizer)":("([^"\\]|\\.)*"|null)/"\1":"..."/g; s/ +$//' | awk '!seen[$0]++'
}
for name in $names; do
    run=runs/$name step=$(readlink "runs/$name/checkpoints/latest" | sed 's/step-0*//')
    series "$name" "$step" >before
    if [ -e "$run/config.txt" ]; then
        what="$name: program"
        "$program" runs "$name" 7 2>err || bad "$what: $(cat err)"
        has "$run/log/rank-0.log" "attempt 2 continues from runs/$name/checkpoints/step-000000$step"
        times 2 "$run/metrics.jsonl" '"kind":"report",.*"attempt":2\}$'
    else
        try 0 train "$run/recipe.yaml" --set train.epochs=$((1 + $(sed -n 's/^  epochs: //p' "$run/recipe.yaml")))
        what="$name: $what"
        has err "continues after step $step of "
        times 0 err 'warning: (changed since|an epoch has)'
        has "$run/metrics.jsonl" "\"kind\":\"step\",\"step\":$((step + 1)),"
    fi
    has "$run/result.json" '"state":"finished"'
    [ "$(readlink "$run/checkpoints/latest" | sed 's/step-0*//')" -gt "$step" ] || bad "$what: no newer checkpoint"
    begins "$run/metrics.jsonl" "$golden/$name/metrics.jsonl"
    # an older version's name of a column is replaced, and nothing else
    sed 's/^epoch,step,samples,loss,/epoch,step,samples,train_loss,/' "$golden/$name/metrics.csv" >csv
    first_columns csv <"$run/metrics.csv" | head -n "$(wc -l <csv)" | cmp -s - csv || bad "$what: metrics.csv has other rows"
    series "$name" "$step" | first_columns before | diff before - >different || bad "$what: its series has other rows up to step $step:" "$(cat different)"
    { echo "written, with N for each number"; written "$name" | shape_of; } >>"shown/$name.txt"
done

# ---- a run with `kernels: onednn`, which was removed: it is evaluated as before, and continues when the user says with which kernels
mkdir runs/onednn && cp -a "$golden/../onednn/." runs/onednn && chmod -R u+w runs/onednn || exit 1
try 0 eval runs/onednn; has out "^loss 1.05928"
more=(train runs/onednn/recipe.yaml --set train.epochs=2)
try 2 "${more[@]}"; once err '^error: runs/onednn/recipe.yaml:12: kernels: onednn is refused: .* continues with --set kernels=own --allow-change \(accepted: own tf32 cublaslt\)$'
try 2 "${more[@]}" --set kernels=own; once err '^error: runs/onednn/.*: kernels: own here, onednn there .* or continue with these changes: --allow-change$'
try 0 "${more[@]}" --set kernels=own --allow-change; has err "continues after step 3 of "; has err 'warning: changed since .*: kernels: own here, onednn there'
has runs/onednn/metrics.jsonl '"kind":"change","step":3,"what":"kernels: own here, onednn there '
has runs/onednn/recipe.yaml "^kernels: own$"

# ---- all of it as expected
[ "$failures" = 0 ] || write=
for file in shown/*; do
    if [ "$write" = --write ]; then
        cp "$file" "$golden/"
    else
        cmp -s "$golden/${file##*/}" "$file" || bad "${file##*/} is not as expected:" "$(diff -u "$golden/${file##*/}" "$file" | head -n 40)"
    fi
done
finish

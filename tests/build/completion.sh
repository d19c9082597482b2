#!/usr/bin/env bash
# What the completions of bash, fish and zsh offer, and that the manual pages have every verb and option of the command. Usage: completion.sh SOURCE_DIR LOCKSTEP
set -uo pipefail # not -e: completion runs in the shell of a user, who does not set it
source=$1 lockstep=$2
. "$source/tools/lockstep.bash"

offers() { # EXPECTED WORD... : completing the last word offers exactly EXPECTED
    local expected=$1
    shift
    COMP_WORDS=("$lockstep" "$@") COMP_CWORD=$#
    _lockstep
    local got="${COMPREPLY[*]}"
    [ "$got" = "$expected" ] || { echo "completing '$*': offered '$got', expected '$expected'" >&2; exit 1; }
}
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
touch my.yaml
offers "train" tr
offers "--version" --v
offers "vit-fashion-mnist-bf16 vit-fashion-mnist" train vit-fashion-mnist
offers "my.yaml" train my
offers "--dry-run" train --dry
offers "json" eval --log j
mkdir kept
offers "auto never kept" train --resume ""
offers "false true never" predict run --early-stopping ""
offers "avx512 avx512bf16" plan my.yaml --isa avx512
offers "kept" runs --metrics ""
offers "" train my.yaml --profile --dry-runs
offers "" plan my.yaml --threads ""
offers "my.yaml" predict run --out my


# fish and zsh, where they are installed
left_out() { echo "skipped: completion.sh: $1 is not here (Debian: $1)"; missing=77; }
missing=0
if command -v fish >/dev/null; then
    ln -s "$lockstep" lockstep
    for pair in "tr:train" "train vit-fashion-mnist-:vit-fashion-mnist-bf16" "train --dry:--dry-run" "eval --log j:json" "train x --resume a:auto" "plan x --isa gen:generic"; do
        got=$(PATH=$PWD:$PATH fish -c 'source $argv[1]; complete -C "lockstep $argv[2]"' "$source/tools/lockstep.fish" "${pair%%:*}" | cut -f1)
        [ "$got" = "${pair#*:}" ] || { echo "fish, completing '${pair%%:*}': offered '$got', expected '${pair#*:}'" >&2; exit 1; }
    done
else
    left_out fish
fi
if command -v zsh >/dev/null; then
    specs() { # WORD...: what the completion tells zsh of the words so far
        zsh -f -c 'file=$1; shift; words=("$@" ""); CURRENT=$#words; _describe() { print -rl -- ${(P)4} }; _arguments() { print -rl -- "$@" }
            eval "_lockstep() { $(<$file) }"; _lockstep' - "$source/tools/lockstep.zsh" "$lockstep" "$@"
    }
    specs | grep -qx 'train:train a model' || { echo "zsh offers no verbs: $(specs)" >&2; exit 1; }
    for spec in '--dry-run\[.*' '--log\[.*:value:(text json)' '--profile=-\[.*\]::value:' '\*--set\[.*:KEY=VALUE: ' '--resume\[.*:value:{ compadd auto never; _files -/ }' '--module\[.*:file:_files'; do
        specs train | grep -qx -- "$spec" || { echo "zsh is not told $spec: $(specs train)" >&2; exit 1; }
    done
else
    left_out zsh
fi

# The manual: a page of each verb with all its options, which troff reads without a warning
"$source/tools/manual" "$lockstep" man
"$lockstep" --verbs | tr '\t' '\001' | while IFS=$'\001' read -r kind verb name _ _ help _ words _; do # (read takes two tabs for one)
    case $kind in
    verb) grep -qF "lockstep\\-$verb" man/lockstep.1 || { echo "lockstep.1 does not name lockstep-$verb" >&2; exit 1; } ;;
    option)
        grep -qF -- "${name//-/\\-}" "man/lockstep-$verb.1" || { echo "lockstep-$verb.1 does not mention $name" >&2; exit 1; }
        grep -qF -- "${help//-/\\-}" "man/lockstep-$verb.1" || { echo "lockstep-$verb.1 has not the text of $name: $help" >&2; exit 1; }
        [ -z "$words" ] || [ "$verb $name" = "train --resume" ] || offers "$words" "$verb" "$name" ""
        ;;
    esac
done || exit 1
grep -qF 'from 1 to 1024; default 1' man/lockstep-predict.1 || { echo "lockstep-predict.1 has not the range of --beams" >&2; exit 1; }
if command -v groff >/dev/null; then
    for page in man/*.1; do
        warnings=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
        [ -z "$warnings" ] || { echo "$warnings" >&2; exit 1; }
    done
else
    left_out groff
fi
exit $missing

#!/usr/bin/env bash
# What bash completion offers, and that the man page has every verb and option of the command. Usage: completion.sh SOURCE_DIR LOCKSTEP
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
offers "auto never" train --resume ""
offers "" plan my.yaml --threads ""
offers "my.yaml" predict run --out my

page=$(sed 's/\\-/-/g' "$source/docs/man/lockstep.1")
names=$("$lockstep" --verbs | awk -F'\t' '$1 == "verb" {print $2} $1 == "option" {print $3}' | sort -u)
[ -n "$names" ] || { echo "lockstep --verbs lists nothing" >&2; exit 1; }
for name in $names; do
    [[ $page == *"$name"* ]] || { echo "docs/man/lockstep.1 does not mention $name" >&2; exit 1; }
done

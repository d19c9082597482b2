#!/usr/bin/env bash
# docs.sh SOURCE_DIR LOCKSTEP [PAGE...] - the pages for users say what is so:
#   links      every link between pages leads to a file, and to a heading of it; the index has every page
#   shape      a how-to begins with the command; the field's terms are in from-pytorch.md
#   names      recipe keys, options, functions, files of tables and environment variables that pages name exist
#   phrases    no page, help text, comment or string literal of src (messages, meanings of recipe keys) has a phrase of banned_phrases.txt; codespell, where it is
#              installed, finds no misspelling
#   commands   blocks that are marked to be run end well, and print what the page shows
# With PAGEs it only runs their blocks, also those of Python. With --python as first PAGE it runs the pages that have blocks of Python, these blocks too. Both
# end as skipped where a module is missing. PYTHON names the Python (default python3).
# Marks of a block: ```sh run, ```python run (where Python has numpy; ```sh run numpy needs it, too; ```python run torch,
# ```python run torchvision and, with PAGEs, ```python run transformers need these), ```yaml file=NAME (makes that file), and ```output, whose
# lines the block before it printed: numbers may differ, a line may end in " ...". <!-- run: COMMAND --> runs what a reader has no need to see.
# Each page is run in a folder of its own, which has the quickstart's first.yaml.
set -uo pipefail
source=$(cd "$1" && pwd) python=${PYTHON:-python3} lockstep=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
export PYTHONPATH=$source/bindings/python LOCKSTEP_LIBRARY=${lockstep%/*}/liblockstep.so LOCKSTEP_COMMAND=$lockstep # for the module of docs/python.md
export PYTHONDONTWRITEBYTECODE=1
cd "$source" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-docs-XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0
bad() { echo "$*"; failures=$((failures + 1)); }
count() { while IFS= read -r line; do bad "$line"; done; } # every line of standard input is a failure

mapfile -t pages < <(find docs README.md ARCHITECTURE.md CONTRIBUTING.md -name '*.md' | LC_ALL=C sort)

modules=' ' missing=
find_modules() { # MODULE...
    for module; do
        "$python" -c "import $module" 2>/dev/null && modules+="$module " || missing="${missing:-blocks that need modules of Python:} $module"
    done
}
if [ "${3-}" = --python ]; then
    mapfile -t pages < <(grep -lE '^```(python run|sh run numpy)' "${pages[@]}")
    find_modules numpy torch torchvision
elif [ $# -gt 2 ]; then
    pages=("${@:3}")
    find_modules numpy torch torchvision transformers
else

# ---- links
# PAGE#ANCHOR of every heading, as GitHub makes them
awk '
FNR == 1 { fence = 0 }
/^```/ { fence = !fence; next }
!fence && /^#+ / {
    text = tolower($0); sub(/^#+ /, "", text); gsub(/[^a-z0-9 _-]/, "", text); gsub(/ /, "-", text)
    n = seen[FILENAME "#" text]++
    print FILENAME "#" text (n ? "-" n : "")
}' "${pages[@]}" >"$work/anchors"
# PAGE:LINE TARGET of every link
awk '
FNR == 1 { fence = 0 }
/^```/ { fence = !fence; next }
!fence {
    rest = $0
    gsub(/`[^`]*`/, "", rest)
    while (match(rest, /\]\([^)]+\)/)) {
        print FILENAME ":" FNR " " substr(rest, RSTART + 2, RLENGTH - 3)
        rest = substr(rest, RSTART + RLENGTH)
    }
}' "${pages[@]}" >"$work/links"
while read -r place target; do
    case $target in http://* | https://*) continue ;; esac
    page=${place%%:*} file=${target%%#*}
    [ -n "$file" ] && path=$(realpath -m --relative-to=. "$(dirname "$page")/$file") || path=$page
    [ -e "$path" ] || { bad "$place: there is no $target"; continue; }
    [ "$file" = "$target" ] || grep -qxF "$path#${target#*#}" "$work/anchors" || bad "$place: $path has no heading #${target#*#}"
done <"$work/links"
# pages that a text only names, also those of the code
grep -rnoE 'docs/[a-z0-9_./-]+\.md' "${pages[@]}" src include examples recipes tests/cli tests/build tools cmake Makefile CMakeLists.txt |
    awk -F: '{ print $3 " " $1 ":" $2 }' | while read -r page place; do [ -e "$page" ] || echo "$place: there is no $page"; done >"$work/bad"
count <"$work/bad"
for page in docs/*.md docs/*/*.md; do
    [ "$page" = docs/README.md ] || grep -qF "](${page#docs/})" docs/README.md || bad "docs/README.md has no link to ${page#docs/}"
done

# ---- shape
# a how-to begins with the command, and a tutorial with a section of commands; from-pytorch.md has the field's terms
for page in docs/howto/*.md docs/explain.md; do
    awk 'NR > 1 && NF { exit !/^    [a-z]+ [a-zA-Z]/ }' "$page" || bad "$page does not begin with a command"
done
for page in docs/tutorials/*.md; do
    [ "$(grep -m 1 '^## ' "$page")" = "## Step by step" ] || bad "$page does not begin with Step by step"
done
while IFS= read -r term; do
    grep -qiF -- "$term" docs/from-pytorch.md || bad "docs/from-pytorch.md does not know $term"
done <<'END_OF_TERMS'
data parallel
gradient accumulation
activation checkpointing
sequence parallel
loss parallel
HSDP
ZeRO 1
ZeRO 2
ZeRO 3
FULL_SHARD
SHARD_GRAD_OP
NO_SHARD
HYBRID_SHARD
_HYBRID_SHARD_ZERO2
no_sync
limit_all_gathers
sync_module_states
StateDictOptions
early stopping
warm-up
END_OF_TERMS

# ---- names
sed -n 's/^| `\([a-z_.]*\)`.*/\1/p' docs/recipe.md | sort -u >"$work/keys"
# In `ticks`: words that begin as a key does, and are not a file, no call and no name of a tensor
grep -nHoE '`(run|model|data|train|optimizer|schedule|parallel|precision|eval|checkpoint|failure|log)\.[a-z_.]+[`: =]' "${pages[@]}" >"$work/named"
others='safetensors|pt|pth|yaml|json|jsonl|csv|md|c|h|txt|bin|html|index|state|param_groups|module|unshard|load_state_dict|embed_tokens|layers|norm'
while IFS=: read -r page line word _; do
    key=${word//[\`: =]/}
    [[ $key =~ \.($others)(\.|$) ]] || grep -qE "^${key//./\\.}(\$|\.)" "$work/keys" || bad "$page:$line: there is no key $key"
done <"$work/named"
# every option behind `lockstep VERB` of a line (continued by a backslash)
"$lockstep" --verbs >"$work/verbs" || bad "lockstep --verbs fails"
awk -v table="$work/verbs" '
BEGIN {
    while ((getline row < table) > 0) { split(row, part, "\t"); if (part[1] == "option") has[part[2] " " part[3]] = 1; if (part[1] == "verb") verb[part[2]] = 1 }
}
FNR == 1 { text = "" }
/^error: / { next } # a message may name an option that there is not
{
    if (text == "") start = FNR
    text = text $0
    if (sub(/\\$/, " ", text)) next
    gsub(/`/, " ` ", text); gsub(/[|;&#]/, " & ", text)
    n = split(text, word, /[ \t]+/)
    name = ""
    for (i = 1; i <= n; i++) {
        if (word[i] == "lockstep" && word[i + 1] in verb) name = word[++i]
        else if (word[i] ~ /^([`|;&#]|--)$/) name = ""
        else if (name != "" && match(word[i], /^--[a-z][a-z-]*/) && !((name " " substr(word[i], RSTART, RLENGTH)) in has))
            print FILENAME ":" start ": lockstep " name " has no option " word[i]
    }
    text = ""
}' "${pages[@]}" >"$work/bad"
count <"$work/bad"
grep -rhoE '\bls_[a-z0-9_]+\b' include src bindings | sort -u >"$work/functions"
grep -nHoE '\bls_[a-z0-9_]+\b' docs/*.md docs/*/*.md README.md | sort -t: -k3 -u | while IFS=: read -r page line name; do
    grep -qx -- "$name" "$work/functions" || echo "$page:$line: there is no $name"
done | grep -v 'odls_base_sigkill_timeout\|: there is no ls_$' >"$work/bad"
count <"$work/bad"
# files in a table of docs/internals: of the folder that its head or the name of the page says
for page in docs/internals/*.md; do
    awk -v page="$page" -v own="$(basename "$page" .md)" '
    /^\| files( of `[a-z]+`)? \|/ { folder = own; if (match($0, /`[a-z]+`/)) folder = substr($0, RSTART + 1, RLENGTH - 2); next }
    !/^\|/ { folder = "" }
    folder { split($0, column, "|"); s = column[2]
        while (match(s, /`[a-z_0-9.]+`/)) { print page ":" FNR ": src/" folder "/" substr(s, RSTART + 1, RLENGTH - 2); s = substr(s, RSTART + RLENGTH) } }' "$page"
done | while read -r where file; do [ -e "$file" ] || [ -e "$file.c" ] || [ -d "$file" ] || echo "$where there is no $file.c"; done >"$work/bad"
count <"$work/bad"
# environment.md has every variable that the program reads
{
    grep -rhoE 'getenv\("[A-Z_0-9]+"\)|variable\("[A-Z_0-9]+"\)' src | grep -oE '"[A-Z_0-9]+"'
    grep -rhoE '"LOCKSTEP_[A-Z_]+"' src
} | tr -d '"' | sort -u >"$work/read"
while read -r name; do grep -qF "\`$name\`" docs/environment.md || bad "docs/environment.md has no $name"; done <"$work/read"
grep -oE '`LOCKSTEP_[A-Z_]+`' docs/environment.md | tr -d '`' | sort -u | while read -r name; do
    grep -qx "$name" "$work/read" || echo "docs/environment.md: nothing reads $name"
done >"$work/bad"
count <"$work/bad"
# the messages of troubleshooting.md are in the code (whose literals may be cut in two)
find src -name '*.c' -exec cat {} + | tr '\n' ' ' | sed -E 's/" *"//g' >"$work/literals"
sed -n 's/^| \(`[^|]*`\) | .*/\1/p' docs/howto/troubleshooting.md | grep -oE '`[^`]+`' | tr -d '`' | sed 's/ *\.\.\. */\n/g; s/: *$//' | while read -r part; do
    grep -qF -- "$part" "$work/literals" || echo "docs/howto/troubleshooting.md: no message has \"$part\""
done >"$work/bad"
count <"$work/bad"

# ---- phrases
for verb in $(awk -F'\t' '$1 == "verb" {print $2}' "$work/verbs"); do "$lockstep" "$verb" --help | sed "s/^/lockstep $verb --help: /"; done >"$work/help"
"$lockstep" --help | sed 's/^/lockstep --help: /' >>"$work/help"
find src -name '*.[ch]' | LC_ALL=C sort | xargs awk -f tests/build/literals.awk >"$work/texts"
[ "$(wc -l <"$work/texts")" -gt 5000 ] || bad "tests/build/literals.awk finds only $(wc -l <"$work/texts") texts in src"
find src include tests bench examples bindings -name '*.[ch]' -o -name '*.cu' | LC_ALL=C sort | xargs awk -f tests/build/comments.awk >"$work/comments"
[ "$(wc -l <"$work/comments")" -gt 10000 ] || bad "tests/build/comments.awk finds only $(wc -l <"$work/comments") comments"
grep -v '^#' tests/build/banned_phrases.txt | while IFS=$'\t' read -r phrase instead; do
    [ -n "$phrase" ] || continue
    { grep -anHiP -- "$phrase" "${pages[@]}"; grep -ahiP -- "$phrase" "$work/help" "$work/texts" "$work/comments"; } | cut -c1-140 |
        while IFS= read -r line; do printf '%s  [banned: %s; write: %s]\n' "$line" "$phrase" "$instead"; done
done >"$work/bad"
count <"$work/bad"
if command -v codespell >/dev/null; then
    codespell -q 3 --ignore-words tests/build/spelling.txt "${pages[@]}" recipes "$work/help" >"$work/bad" 2>&1
    count <"$work/bad"
else
    missing="no codespell here (Debian: codespell)"
fi

fi

# ---- commands
mkdir "$work/bin"
ln -s "$lockstep" "$work/bin/lockstep"
export PATH=$work/bin:$PATH LOCKSTEP_CACHE=$work/cache DOCS=$source/docs
unset LOCKSTEP_DATA
plain() { sed -E 's/[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?/N/g; s/N (us|ms|s|min)\b/N s/g; s/[ \t]+/ /g; s/^ //; s/ $//'; }
run() { # PLACE PROGRAM...: runs standard input with it
    local place=$1
    shift
    cat >"$work/script"
    "$@" "$work/script" >"$work/out" 2>"$work/err" </dev/null && return
    bad "$place: exit status $?"
    tail -n 5 "$work/err"
}
printed() { # PLACE: each line of standard input is one that the last block printed
    plain <"$work/out" >"$work/plain"
    plain | while IFS= read -r line; do
        case $line in
        "" | ...) ;;
        *" ...") grep -qF -- "${line% ...}" "$work/plain" || echo "$1: not printed: $line" ;;
        *) grep -qxF -- "$line" "$work/plain" || echo "$1: not printed: $line" ;;
        esac
    done >"$work/bad"
    [ ! -s "$work/bad" ] || cat "$work/out"
    count <"$work/bad"
}
# a page as a script that calls these
script() {
    awk -v page="$1" -v modules="$modules" -v python="$python" '
    /^```/ && block { print "END_OF_BLOCK"; block = 0; next }
    /^```/ && other { other = 0; next }
    /^```yaml file=/ { sub(/.*file=/, ""); print "cat >" $0 " <<\"END_OF_BLOCK\""; block = 1; next }
    function has(name) { return index(modules, " " name " ") }
    /^```sh run( numpy)?$/ && (!/numpy/ || has("numpy")) { print "run " page ":" FNR " bash -eo pipefail <<\"END_OF_BLOCK\""; block = 1; next }
    /^```python run( torch(vision)?| transformers)?$/ && has(NF == 3 ? $3 : "numpy") { print "run " page ":" FNR " " python " <<\"END_OF_BLOCK\""; block = 1; next }
    /^```output$/ { print "printed " page ":" FNR " <<\"END_OF_BLOCK\""; block = 1; next }
    /^```/ { other = 1; next }
    block { print }
    !block && /^<!-- run: / { sub(/^<!-- run: /, ""); sub(/ -->$/, ""); print }' "$1"
}
for page in "${pages[@]}"; do
    grep -qE '^```(sh|python) run' "$page" || continue
    folder=$work/$(basename "$page" .md)
    mkdir "$folder"
    script docs/start/quickstart.md | sed -n '/^cat >first.yaml/,/^END_OF_BLOCK/p' >"$work/first"
    script "$page" >"$work/page"
    cd "$folder" || exit 1
    # shellcheck disable=SC1091
    . "$work/first"
    . "$work/page"
    cd "$source" || exit 1
done
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
[ -z "$missing" ] || { echo "skipped: docs.sh: $missing"; exit 77; }

#!/bin/sh
# demo.sh SOURCE_DIR COMMAND - tools/demo.sh without a network, with a small recipe in place of its own: it says once that the data were not found, goes on with
# the built-in shapes without a warning, and the same command shows the finished run again. One on the real data is left alone.
set -eu
source=$1 command=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fails() { echo "demo.sh: $1"; cat "$root/output"; exit 1; }
count() { [ "$(grep -cE "$2" "$root/output")" = "$1" ] || fails "not $1 times: $2"; }
mkdir "$root/tools" "$root/build" "$root/bin"
cp "$source/tools/demo.sh" "$root/tools/"
echo '#!/bin/sh' > "$root/tools/deps.sh"
cp "$root/tools/deps.sh" "$root/bin/make"
cat > "$root/build/lockstep" << END_OF_COMMAND
#!/bin/sh
verb=\$1 what=\$2
shift 2
[ "\$what" != vit-fashion-mnist ] || what=mlp-mnist
case \$verb in
train) set -- "\$@" --set train.steps=2 ;;
data)
    [ -z "\$DEMO_STATUS" ] || exit \$DEMO_STATUS
    set -- "\$@" --set data.mirror=file:///nowhere ;;
esac
exec "$command" "\$verb" "\$what" "\$@"
END_OF_COMMAND
chmod +x "$root/tools/deps.sh" "$root/bin/make" "$root/build/lockstep"
unset LOCKSTEP_DATA
export DEMO_STATUS= LOCKSTEP_CACHE="$root/cache" PATH="$root/bin:$PATH"
for turn in first second; do
    sh "$root/tools/demo.sh" > "$root/output" 2>&1 || fails "$turn: fails"
    count 1 'mnist is neither in LOCKSTEP_DATA'
    count 1 'goes on with the built-in shapes'
    count 0 'was not found'
    grep -q 'BUILT-IN SHAPES, not real data' "$root/output" || fails "eval does not say what it measured"
    [ -s "$root/runs/demo/report.html" ] && [ -s "$root/runs/demo/predictions.svg" ] || fails "no report or no picture"
done

# a finished demo on the real data stays, whether the data are missing or the search for them is stopped
sed -i 's/"builtin_data":true/"builtin_data":false/' "$root/runs/demo/result.json"
cp "$root/runs/demo/result.json" "$root/before"
status=0
DEMO_STATUS=75 sh "$root/tools/demo.sh" > "$root/output" 2>&1 || status=$?
[ $status = 75 ] || fails "stopped: status $status instead of 75"
sh "$root/tools/demo.sh" > "$root/output" 2>&1 || fails "beside the real data: fails"
cmp -s "$root/before" "$root/runs/demo/result.json" || fails "another demo has replaced the one on the real data"
[ -s "$root/runs/demo-shapes/report.html" ] || fails "no demo on the built-in shapes beside that on the real data"

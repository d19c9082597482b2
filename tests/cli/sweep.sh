#!/usr/bin/env bash
# sweep.sh COMMAND - a sweep over lists and ranges: its runs are those of `train`, beside each other or not; it is stopped, killed and continued; runs that are
# refused or fail do not stop the others; as an array job of Slurm; its page in a browser, where there is one.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/browser.sh"
awk 'BEGIN { srand(1); print "p,q,r,u,v"; for (i = 0; i < 300; i++) { p = rand(); q = rand(); r = rand(); printf "%.6f,%.6f,%.6f,%.6f,%.6f\n", p, q, r, p + q * q, p * r } }' >train.csv
head -n 76 train.csv >eval.csv
short=(mlp-regression --set train.epochs=3)
folder=runs/mlp-regression-sweep

# ---- a grid: every run has the files of the same training alone
grid=("${short[@]}" --set optimizer.lr=1e-2,1e-3 --set 'optimizer.betas=[0.9,0.95],[0.9,0.999]')
try 0 sweep "${grid[@]}" --parallel 2
has err '^sweep  4 runs in runs/mlp-regression-sweep: 0 finished, 0 refused, 4 to train'
has err '^4 of 4  lr=.*: best eval_loss [0-9.]+, '
[ "$(awk 'NR > 1 { print $1 }' out | tr '\n' ' ')" = '1e-2 1e-2 1e-3 1e-3 ' ] || bad "the table is not sorted: $(cat out)"
try 0 train "${short[@]}" -q --set run.name=whole --set optimizer.lr=1e-3 --set 'optimizer.betas=[0.9,0.95]'
for file in model optimizer; do
    cmp runs/whole/checkpoints/latest/$file.safetensors $folder/lr=1e-3,betas=_0.9,0.95_-*/checkpoints/latest/$file.safetensors || bad "a run of a sweep has other bits"
done
try 0 runs $folder; has out '^lr=1e-2,betas=_0\.9,0\.999_-[0-9a-f]{8} +finished +15'

# ---- again: nothing is trained; with one value more one run is, for each value of the other key
try 0 sweep "${grid[@]}" --json; has err ' 4 finished, 0 refused, 0 to train'
[ "$(grep -o '"state":"finished"' out | wc -l)" = 4 ] || bad "not 4 finished runs: $(cat out)"
has out '^\{"folder":"runs/mlp-regression-sweep","metric":"eval_loss","mode":"min","runs":\[\{"number":[01],"run":"runs/mlp-regression-sweep/lr=1e-2,.*"values":\{"optimizer.lr":"1e-2","optimizer.betas":"\[0\.9,0\.9'
grid[4]=optimizer.lr=1e-2,1e-3,1e-4
try 0 sweep "${grid[@]}" --metric eval_rmse; has err ' 4 finished, 0 refused, 2 to train'; has out 'best evaluation rmse|best eval rmse'
# with more epochs all go on
grid[2]=train.epochs=4
try 0 sweep "${grid[@]}"; has err ' 0 finished, 0 refused, 6 to train'
try 0 runs $folder; times 6 out 'finished +20 '

# ---- stopped and killed: the same command continues, with the bits of an undisturbed run
long=(mlp-regression --set train.epochs=200 --set checkpoint.every_epochs=1 --set log.every=1000 --set run.seed=1,2,3)
try 0 train mlp-regression -q --set train.epochs=200 --set checkpoint.every_epochs=1 --set run.name=whole2 --set run.seed=2
rm -rf $folder
"$lockstep" sweep "${long[@]}" --parallel 2 >out 2>err &
until_true test -e $folder/seed=2/checkpoints/latest; kill -TERM $!; wait $!
[ $? = 75 ] || bad "a stopped sweep ends with another status than 75: $(cat err)"
has err 'the same command continues the sweep'
try 0 runs $folder; has out 'stopped'
"$lockstep" sweep "${long[@]}" --parallel 2 >out 2>err &
sweep=$!; until_true grep -q starting\\\|running $folder/seed=[12]/result.json; kill -KILL $sweep; wait $sweep 2>/dev/null
for run in 1 2; do until_true eval '! grep -q ":$(stat -c %i "'$folder/seed=$run/lock.txt'") " /proc/locks'; done
try 0 sweep "${long[@]}"; times 3 out 'finished'
cmp runs/whole2/checkpoints/latest/model.safetensors $folder/seed=2/checkpoints/latest/model.safetensors || bad "a continued run has other bits"

# ---- a combination that is refused, and a run that fails: the others are trained, and both are told
rm -rf $folder
try 1 sweep "${short[@]}" --set optimizer.type=sgd --set train.micro_batch=8,7 --set optimizer.lr=1e-3,1e6
has err '^warning: micro_batch=7,lr=1e-3 is refused: --set train.micro_batch'
has err 'micro_batch=8,lr=1e6 failed: .*its messages are in runs/mlp-regression-sweep/log/micro_batch=8,lr=1e6\.txt'
has err '^error: 3 of 4 runs failed; micro_batch=8,lr=1e6: '
has out '^ +8 +1e-3 +[0-9.]+ .* finished'; has out '^ +7 +1e-3 +refused'
has $folder/sweep.html '>failed</span></td><td><a href="./micro_batch=8,lr=1e6/report.html">report</a>.*finite'
refused 2 'every combination was refused: .*there is no key optimizer.rl|every combination was refused: .*optimizer.rl' sweep mlp-regression --set optimizer.rl=1,2

# ---- draws: a function of the seed and their number; logarithmic, uniform, whole
rm -rf $folder
draws=("${short[@]}" --set optimizer.lr=1e-5..1e-2 --set optimizer.eps=0..0.5:linear --set run.seed=1..1000000)
try 0 sweep "${draws[@]}" --random 3; cp out three; ls $folder >names
try 0 sweep "${draws[@]}" --random 5; has err ' 3 finished, 0 refused, 2 to train'
[ "$(comm -13 <(ls $folder | sort) <(sort names))" = '' ] || bad "five draws do not begin with three"
awk 'NR > 1 { if ($1 < 1e-5 || $1 > 1e-2 || $2 < 0 || $2 > 0.5 || $3 !~ /^[0-9]+$/ || $3 < 1 || $3 > 1e6) print }' out | grep . && bad "a draw is out of its range"
awk 'NR > 1 && $1 < 1e-3 { low++ } END { exit !(low > 0 && low < 5) }' out || bad "draws of 1e-5..1e-2 are not logarithmic: $(cat out)"
refused 2 'a range needs --random N' sweep mlp-regression --set optimizer.lr=1e-5..1e-2
refused 2 'a range needs --random N' sweep mlp-regression --set optimizer.lr=1..3
try 0 sweep mlp-regression --set train.epochs=1 --set run.name=seeds --set run.seed=8..11; has err '^sweep  4 runs'; times 0 err 'about 0 us'
for seed in 8 9 10 11; do has out "^ +$seed "; done
# mean and deviation over the seeds
has out "^seeds  mean best eval loss  deviation  +least  +greatest$"
awk 'NF == 6 && $6 == "finished" { n++; sum += $2; squares += $2 * $2 } NF == 5 && $1 == 4 { mean = $2; deviation = $3 }
    END { d = sqrt((squares - sum * sum / n) / (n - 1)); exit !(n == 4 && (mean / (sum / n) - 1) ^ 2 < 1e-6 && (deviation / d - 1) ^ 2 < 1e-3) }' <(sed 's/ ms / ms_/; s/\([0-9]\) \(ms\|s\)/\1\2/' out) || bad "$what: another mean: $(cat out)"
two=(sweep mlp-regression --set train.epochs=1 --set run.name=seeds --set run.seed=8,9 --set optimizer.lr=1e-2,1e-5)
try 0 "${two[@]}"; has out '^ +lr  seeds  mean best eval loss'; has out '^1e-2 +2 +[0-9.]+ +[0-9.e-]+ +[0-9.]+ +[0-9.]+$'; times 2 out '^1e-[25] +2 '
has runs/seeds-sweep/sweep.html 'Over seeds'
try 0 "${two[@]}" --json; has out '"seeds":\[\{"values":\{"optimizer.lr":"1e-2"\},"runs":2,"mean":[0-9.]+,"deviation":[0-9.e-]+,"least":[0-9.]+,"greatest":[0-9.]+\},\{'
try 0 sweep mlp-regression --set train.epochs=1 --set optimizer.lr=1e-2,1e-5; times 0 out 'seeds'; times 0 runs/mlp-regression-sweep/sweep.html 'Over seeds'
refused 2 'write optimizer.eps=0..1:linear' sweep mlp-regression --random 3 --set optimizer.eps=0..1
refused 2 'from a smaller to a larger' sweep mlp-regression --random 3 --set optimizer.lr=1..1
refused 2 'only 2 combinations' sweep mlp-regression --random 3 --set optimizer.lr=1,2
refused 2 'nothing varies' sweep mlp-regression --set optimizer.lr=1
refused 2 'an empty value' sweep mlp-regression --set optimizer.lr=1,
refused 2 'is there twice' sweep mlp-regression --set optimizer.lr=1,1
refused 2 'two lists' sweep mlp-regression --set optimizer.lr=1,2 --set optimizer.lr=3,4
refused 2 'names its runs itself' sweep mlp-regression --set run.name=a,b
refused 2 'need a folder' sweep mlp-regression --set optimizer.lr=1,2 --set run.storage=s3://bucket/x
refused 2 '--seed needs --random' sweep mlp-regression --set optimizer.lr=1,2 --seed 3

# ---- as many at a time as there are cores
rm -rf $folder
try 0 sweep "${short[@]}" --set train.epochs=1 --set optimizer.lr=1e-3,1e-4 --parallel 2 --set cores_per_worker=1 --set workers=1
has err ' 2 to train, [12] at a time'
cores=$(nproc)
try 0 sweep "${short[@]}" --set train.epochs=1 --set optimizer.lr=1e-3,1e-4,1e-5 --parallel 2 --set threads="$cores"
has err "^warning: --parallel 2: a run needs $cores core"

# ---- an array job of Slurm: each task trains its run
rm -rf $folder
try 0 sweep "${short[@]}" --set optimizer.lr=1e-3,1e-4 --set 'optimizer.betas=[0.9,0.95],[0.9,0.999]' --parallel 3 --slurm
[ ! -e $folder ] || bad "the script of a job trained something"
has out '^#SBATCH --array=0-3%3$'; has out '^#SBATCH --cpus-per-task=1$'
cp out job.sh
for task in 1 3; do SLURM_ARRAY_TASK_ID=$task bash job.sh >out 2>err || bad "task $task of the job fails: $(cat err)"; done
[ "$(ls $folder | grep -c '^lr')" = 2 ] && ls $folder | grep -q 'lr=1e-3,betas=_0.9,0.999_' || bad "two tasks trained $(ls $folder)"
SLURM_ARRAY_TASK_ID=4 bash job.sh >out 2>err; [ $? = 2 ] || bad "a task beyond the runs is not refused"
has err 'this sweep has the runs 0 to 3'
refused 2 'it prints the script' sweep mlp-regression --set optimizer.lr=1,2 --slurm --json

[ $failures -eq 0 ] || finish
try 0 sweep "${short[@]}" --set train.epochs=2 --set optimizer.lr=1e-2,1e-3 --set 'optimizer.betas=[0.9,0.95],[0.9,0.999]' --set model.act=relu,gelu
browser_start
fine $folder/sweep.html
whole $folder/sweep.html
visit $folder/sweep.html 1280 light
says '^8 8$' 'document.querySelectorAll("path.curve").length + " " + sweepTable.tBodies[0].rows.length'
says '^false$' 'plot.innerHTML.includes("NaN")'
hover .plot; says 'optimizer\.lr  1e-[23].*eval_loss  [0-9.]+$' 'tip.textContent.replace(/\n/g, " ")'
js '(plot.focus(), 0)'; key Home; says '^1$' 'document.querySelectorAll("tr.chosen").length'
says '^true$' 'document.querySelector("tr.chosen") === sweepTable.tBodies[0].rows[0]'
click '#table th:nth-child(2) button'; says '^1e-3$' 'sweepTable.tBodies[0].rows[0].cells[1].textContent'
visit $folder/sweep.html 400 dark
hover .plot; says '^fine$' "$PAGE_FAULTS"
quiet
finish

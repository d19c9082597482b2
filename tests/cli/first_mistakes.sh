#!/usr/bin/env bash
# first_mistakes.sh COMMAND - what a newcomer types: names that are nearly right, data in place of a recipe, a folder of runs in place of a run, a table with texts and
# gaps. Each message says what to write.
source "$(dirname "$0")/common.sh"
awk 'BEGIN { srand(3); print "id,site,inside temperature,pressure in the main pipe,humidity of the room,kind"
    for (i = 0; i < 60; i++) printf "%d,%s,%.2f,%.2f,%s,%d\n", i, i % 2 ? "north" : "south", rand(), rand(), i == 31 ? "" : rand(), i % 3 }' >rooms.csv
recipe() {
    cat <<EOT
model: {type: mlp, inputs: {x: [$1]}, outputs: {kind: [3]}, hidden: [4]}
loss: {type: cross_entropy, of: kind}
data: {type: arrays, train: {x: "rooms.csv:$2", kind: rooms.csv}, eval_fraction: 0.2}
train: {epochs: 2, global_batch: 8}
threads: 1
EOT
}
recipe 4 '*,!id,!kind' >texts.yaml
recipe 3 '*,!id,!kind,!site' >gaps.yaml
recipe 2 '*,!id,!kind,!site,!humidity of the room' >rooms.yaml
recipe 5 'id,inside temperature,pressure in the main pipe,kind,humidity of the room' >long.yaml

# ---- the table
refused 1 'rooms.csv line 2, column "site": "south" is not a number; replace texts by numbers, or leave the column out' train texts.yaml
refused 1 'rooms.csv row 31: x\[2\] \(column "humidity of the room"\) is NaN' train gaps.yaml
refused 2 'rooms.csv holds data and is not a recipe' train rooms.csv
refused 2 'rooms.csv holds data and is not a recipe' data rooms.csv
sed -i 's/,,/,0.5,/' rooms.csv
try 0 data long.yaml # its columns are counted, not repeated in every message
has out 'rooms.csv, 5 columns \(48 of 60 rows\)'

# ---- a job script that forgets srun
job() { SLURM_JOB_ID=1 SLURM_JOB_END_TIME=4000000000 try 0 train rooms.yaml --dry-run "$@"; }
idle='^warning: this Slurm job has'
SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=2 job; once err "$idle 4 tasks on 2 hosts, and the run has 1 process on this host: .srun --mpi=pmix lockstep train .... or --hosts slurm"
SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=1 job --workers 2; times 0 err "$idle"
SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=2 SLURM_STEP_NUM_TASKS=1 job; times 0 err "$idle" # srun -n 1 says so
SLURM_JOB_NUM_NODES=1 job; times 0 err "$idle"

# ---- names
try 0 train rooms.yaml
refused 2 'room.yaml: no such recipe; did you mean rooms.yaml\?' train room.yaml
refused 2 'rooms.yml: no such recipe; did you mean rooms.yaml\?' train rooms.yml
refused 2 'did you mean rooms.yaml or runs/rooms\?' eval rooms
refused 2 'did you mean runs/rooms\?' eval runs/room
refused 2 'nor a bundled recipe' eval runs/quite-another
refused 2 'it is a run in runs/, whose epochs .lockstep runs --metrics rooms. shows' runs rooms
refused 2 'folder of runs: name one of them, such as runs/gaps \(.lockstep runs runs. lists them\)' eval runs
mkdir empty
refused 2 'neither a run' eval empty

# ---- metrics
refused 2 'the model has no metric eval_f1; there are train_loss, eval_loss, eval_accuracy; .eval.metrics: \[f1\]. adds it' train rooms.yaml --set run.name=x --set checkpoint.best.metric=eval_f1
refused 2 'mae: it can be f1, auc or perplexity; loss, accuracy, rmse, mae and r2 are always there' train rooms.yaml --set run.name=x --set eval.metrics=mae
finish

# ---- what a name might mean
rm -r runs
mkdir -p there/one; echo '{}' >there/one/result.json; refused 2 'there/one is a run, not a folder of runs: --metrics there/one' runs there/one; rm -r there
mkdir -p runs/mine words; touch runs/mine/recipe.yaml; echo 'model: {type: mlp}' >words.yaml
refused 2 'words.yml: no such recipe; did you mean words.yaml\?$' train words.yml
refused 2 'wrds.yaml: no such recipe; did you mean words.yaml\?$' train wrds.yaml
refused 2 'words is a folder, not a recipe; did you mean words.yaml\?$' train words
refused 2 'runs is a folder, not a recipe: name a file' train runs
refused 2 'runs/mine is a folder, not a recipe; a run keeps its own in runs/mine/recipe.yaml$' train runs/mine
refused 2 'runs/nine: no such recipe; did you mean runs/mine\?$' eval runs/nine
mkdir mine; refused 2 'mine: neither a run .*; did you mean runs/mine\?$' eval mine
refused 2 "optimizer.lr: a number is needed here, not '0,25': write 0.25" train mlp-mnist --set optimizer.lr=0,25
refused 2 "optimizer.lr: a number is needed here, not '25%': write 0.25" train mlp-mnist --set optimizer.lr=25%
refused 2 "optimizer.lr: a number is needed here, not 'a,b'$" train mlp-mnist --set optimizer.lr=a,b
printf 'model:\n\ttype: mlp\n' >words.yaml; refused 2 'words.yaml:2: not YAML: .*: a tab; indent with spaces' train words.yaml
rm -r runs mine words words.yaml

#!/bin/bash
# Tutorial 5: what any number of ranks has saved, any other number loads. (tests/cli/any_ranks.sh and dcp.sh test all pairs, and what goes wrong.)
source "$(dirname "$0")/page.sh"
sudo make deps install

cc examples/checkpoint_any_ranks.c $(pkg-config --cflags --libs lockstep) -pthread -o checkpoint_any_ranks
./checkpoint_any_ranks save checkpoint 8            # saved checkpoint on 8 ranks: net1.weight[0] is ...
./checkpoint_any_ranks load checkpoint 3 again      # three ranks load it, and save what they have
cmp checkpoint/model.safetensors again/model.safetensors
./checkpoint_any_ranks load checkpoint              # one process
mpirun -n 2 ./checkpoint_any_ranks load checkpoint  # as root: mpirun --allow-run-as-root -n 2 ...
lockstep inspect checkpoint --verify                # every byte against its checksum; 408 elements in 4 tensors
has out "408 *elements in 4 tensors"
# for the tutorial's own loading, with Adam's state; 8 files as the tutorial has them
lockstep export checkpoint --to CHECKPOINT --format dcp --optimizer --ranks 8
[ -e CHECKPOINT/__7_0.distcp ] || bad "$what: not 8 files"

# ---- what the tutorial's program has written with PyTorch on two ranks
cp -r "$golden/dcp_toy" CHECKPOINT_DIR
./checkpoint_any_ranks load CHECKPOINT_DIR 3        # the same model and optimizer, on 3 ranks
lockstep inspect CHECKPOINT_DIR                     # tensors of its model
has out net1
lockstep export CHECKPOINT_DIR --to model.pt        # dcp_to_torch_save
lockstep export model.pt --to model --format dcp                # torch_save_to_dcp
[ -e model/.metadata ] || bad "$what: no directory of PyTorch's"

# ---- a recipe's run goes on from such a directory, and leaves one
cat >my-model.yaml <<END
run: {name: my-model}
model: {type: mlp, hidden: [9]}
data: {type: shapes}
train: {epochs: 9, steps: 7, global_batch: 1200, micro_batch: 300}
threads: 1
END
"$lockstep" train my-model.yaml --set run.name=theirs --set train.steps=3 >out 2>err
"$lockstep" export runs/theirs --to dcp --format dcp --optimizer >out 2>err
lockstep train my-model.yaml --set run.name=begins --set model.init=dcp    # begins with its weights
lockstep train my-model.yaml --resume dcp                                  # goes on: moments and steps, too
has err "continues after step 3 of 7, from dcp"
lockstep export runs/my-model --to files --format dcp --optimizer --ranks 8
[ -e files/__7_0.distcp ] || bad "$what: not a file for each of 8 ranks"
lockstep train my-model.yaml --set run.name=ranks --workers 4 --set checkpoint.files=per_rank
ls runs/ranks/checkpoints/latest
[ -e runs/ranks/checkpoints/latest/model-rank-00003.safetensors ] || bad "$what: not a file for each of 4 ranks"
finish

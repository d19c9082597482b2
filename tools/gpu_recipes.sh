# gpu_recipes.sh - the runs that tools/gpu_carry.sh makes on the CPU and tools/gpu_check.sh compares on a GPU: the four tutorials' recipes. Source it.
# small=1: sizes for the emulator, which takes a second for what a GPU does in a microsecond. ResNet18 takes 4 s a step there, almost all for its weights;
# its images must then be files of 8 x 8. (With 2 of them batch norm has two numbers a channel, and every rounding shows in the loss.)
gpu_recipes="vit resnet qwen t5"

# recipe_words NAME DATA: the recipe and its settings, one word a line
recipe_words() {
    local steps=20 words
    [ "${small-0}" = 1 ] && steps=2
    case $1 in
    vit) words="vit-fashion-mnist" ;;
    resnet) words="resnet18-mnist" ;;
    qwen) words="qwen2.5-wikitext model.init=random model.layers=4 model.hidden_size=128 model.heads=4 model.kv_heads=2 model.mlp_size=512 optimizer.lr=1e-3
        data.seq_length=256 data.train_text=$2/wikitext-2/valid.txt data.eval_text=$2/wikitext-2/valid.txt data.tokenizer=$2/tokenizers/qwen2.5/tokenizer.json" ;;
    t5) words="t5-summarise data.train_text=$2/scitldr-a/dev.jsonl data.eval_text=$2/scitldr-a/dev.jsonl data.tokenizer=$2/tokenizers/t5-base/tokenizer.json
        data.train_samples=200 data.eval_samples=20" ;;
    esac
    [ "${small-0}" = 1 ] && case $1 in
    resnet) words="$words model.image_size=8 train.global_batch=8" ;;
    vit) words="$words model.layers=1 model.hidden_size=16 model.mlp_size=16 train.global_batch=2" ;;
    qwen) words="$words model.layers=1 model.hidden_size=32 model.heads=2 model.kv_heads=1 model.mlp_size=32 model.vocab_size=300 data.tokenizer=bytes data.seq_length=16 train.global_batch=1" ;;
    t5) words="$words model.layers=1 model.hidden_size=32 model.heads=2 model.mlp_size=32 model.vocab_size=300 data.tokenizer=bytes
        data.source_length=16 data.target_length=8 train.global_batch=1" ;;
    esac
    set -- $words
    echo "$1"
    shift
    printf -- '--set\n%s\n' "$@" "parallel.mesh={dp: auto}" workers=1 train.steps=$steps eval.every_epochs=-1
}

# Largest relative difference of a loss between the CPU and a GPU. Sums have another order, and steps make it grow; bf16 rounds to 1 in 256.
recipe_tolerance() { case $1 in vit | resnet) echo 2e-3 ;; *) echo 2e-2 ;; esac; }

# losses RUN: the losses of its steps, one a line
losses() { sed -n 's/^{"kind":"step",.*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

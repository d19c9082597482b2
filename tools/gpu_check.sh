#!/bin/bash
# gpu_check.sh [PART...] - checks device cuda on a machine with a GPU: without a network and within ten minutes, with what `make gpu-carry` made here in .gpu.
# One line a part, and a log of each in OUT (gpu-check). A part that fails does not stop the others. Exit status: 0, or 1 if a part failed.
# Over the emulator (LOCKSTEP_CUDA_LIBRARIES names its folder) parts that need a GPU say "not here". docs/gpu.md explains the parts.
set -u
cd "$(dirname "$0")/.." || exit 1
self=$PWD/tools/gpu_check.sh
. tools/gpu_recipes.sh
carried=${GPU_CARRIED:-$PWD/.gpu}
export OUT=${OUT:-$PWD/gpu-check} GPU_CARRIED=$carried
seconds=${GPU_CHECK_SECONDS:-570} # for everything
export LOCKSTEP_DATA=$carried/data LOCKSTEP_KERNEL_CACHE=$OUT/results/cache LOCKSTEP_CACHE=$OUT/results/cache LD_LIBRARY_PATH=$carried/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LOCKSTEP_CUDA_LIBRARIES=${LOCKSTEP_CUDA_LIBRARIES-} # empty: the machine's own
[ -d src/device/gpu/kernels ] && export LOCKSTEP_KERNELS=$PWD/src/device/gpu/kernels # a mended kernel needs no new binary
[ -e "$carried/small" ] && small=1
not_here() { echo "$*"; exit 77; }
needs_gpu() { [ -z "${LOCKSTEP_CUDA_LIBRARIES-}" ] || not_here "the emulator, no GPU"; command -v nvidia-smi >/dev/null || not_here "no nvidia-smi"; }

# ---- the parts; the last line that each prints is its result

part_machine() {
    ldd --version | head -n 1
    uname -a
    nvcc --version 2>&1 | tail -n 2
    for tool in compute-sanitizer ncu nsys; do command -v $tool || echo "no $tool"; done
    python3 -c 'import torch; print("torch", torch.__version__)
try:
    import transformers; print("transformers", transformers.__version__)
except ImportError: print("no transformers")' 2>&1 | tail -n 3
    "$carried/lockstep" doctor --no-measure || exit 1
    needs_gpu
    nvidia-smi
    echo "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1), glibc $(ldd --version | sed -n '1s/.* //p')"
}

# NVRTC itself, also where the emulator's stands in
part_compile() { env -u LOCKSTEP_CUDA_LIBRARIES "$carried/gpu_compile_all" "$carried/texts" tests/gpu/nvrtc/spills.txt --all; }

# every case of the op suite against ref, in f64
part_ops() { LS_TEST_BITS=$OUT/results/bits.txt "$carried/gpu_test_ops"; }

# products by NVIDIA's library
part_cublaslt() {
    LS_TEST_KERNELS=cublaslt LS_TEST_OPS=linear,linear_dx,linear_dw,batch_matmul "$carried/gpu_test_ops" >"$OUT/results/cublaslt" 2>&1
    local status=$?
    cat "$OUT/results/cublaslt"
    ! grep -q "library for matrix products is missing" "$OUT/results/cublaslt" || not_here "no libcublasLt"
    return $status
}

# Each line of the files is an op, a type, a case and a hash of its result. Tensor cores add in an order that the emulator does not know.
by_tensor_cores='^(linear|linear_dx|linear_dw|batch_matmul|attention|attention_grad|attention_cached|conv2d|conv2d_dx|conv2d_dw) (bf16|f16) '
part_bits() {
    [ -s "$OUT/results/bits.txt" ] || { echo "part ops left no results"; exit 1; }
    local name
    for name in emulated here; do
        local from=$OUT/results/bits.txt
        [ $name = emulated ] && from=$carried/bits.txt
        grep -Ev "$by_tensor_cores" "$from" | sort >"$OUT/results/$name.txt"
    done
    diff "$OUT/results/emulated.txt" "$OUT/results/here.txt"
    local same all; same=$(comm -12 "$OUT/results/emulated.txt" "$OUT/results/here.txt" | wc -l) all=$(wc -l <"$OUT/results/emulated.txt")
    echo "$same of $all results have the emulator's bits"
    [ "$same" -gt 0 ] && [ "$same" -eq "$all" ]
}

sanitize() { # TOOL OPS
    needs_gpu
    command -v compute-sanitizer >/dev/null || not_here "no compute-sanitizer"
    LS_TEST_OPS=$2 compute-sanitizer --tool "$1" --error-exitcode 9 "$carried/gpu_test_ops"
}
part_memcheck() { sanitize memcheck layer_norm,softmax,linear,linear_dw,attention,attention_grad,conv2d,embedding_grad,adam,muon,sum_to; }
part_racecheck() { sanitize racecheck layer_norm,layer_norm_grad,softmax,linear,attention,attention_grad,conv2d,muon,adafactor; }

# run NAME WORDS...: a recipe on the GPU, in $OUT/results/runs/NAME
run() {
    local name=$1
    shift
    "$carried/lockstep" train "${words[@]}" --set device=cuda --set run.storage="$OUT/results/runs" --set run.name="$name" --no-progress "$@"
}
# same A B: the runs have the same losses and weights
same() {
    diff <(losses "$OUT/results/runs/$1") <(losses "$OUT/results/runs/$2") >&2 && cmp "$OUT/results/runs/$1/checkpoints/latest/model.safetensors" "$OUT/results/runs/$2/checkpoints/latest/model.safetensors"
}
part_recipe() { # NAME: 20 steps like the CPU's; without graphs, and interrupted, the same bits
    local golden=$carried/goldens/$1.txt steps half tolerance apart words
    [ -s "$golden" ] || not_here "nothing of the CPU's was carried"
    mapfile -t words < <(recipe_words "$1" "$carried/data")
    steps=$(wc -l <"$golden") half=$(($(wc -l <"$golden") / 2)) tolerance=$(recipe_tolerance "$1")
    run "$1" || exit 1
    apart=$(paste "$golden" <(losses "$OUT/results/runs/$1") | awk -v tolerance=$tolerance '
        { d = $1 - $2; d = (d < 0 ? -d : d) / ($1 > 1 ? $1 : 1); if (NF != 2 || $2 != $2 + 0 || d != d + 0) bad = 1; if (d > most) most = d }
        END { printf "%.1e", most; exit bad || most > tolerance }') || { echo "losses differ by $apart from the CPU's: $tolerance is allowed"; exit 1; }
    LOCKSTEP_CUDA_GRAPHS=0 run "$1-plain" || exit 1
    same "$1" "$1-plain" || { echo "without graphs: other bits"; exit 1; }
    run "$1-resumed" --set train.steps=$half && run "$1-resumed" || exit 1
    same "$1" "$1-resumed" || { echo "interrupted after $half steps and resumed: other bits"; exit 1; }
    echo "$steps losses within $apart of the CPU's; without graphs and resumed: the same bits"
}
for recipe in $gpu_recipes; do eval "part_$recipe() { part_recipe $recipe; }"; done

# our kernels, as bytes and FLOP in a second
part_kernels() { if [ -n "${LOCKSTEP_CUDA_LIBRARIES-}" ]; then "$carried/bench_gpu" --small; else "$carried/bench_gpu"; fi; }

# all beside PyTorch, with the card's ceilings
part_bench() {
    needs_gpu
    python3 -c 'import torch; assert torch.cuda.is_available()' || not_here "no PyTorch with CUDA"
    python3 bench/gpu.py --carried "$carried" --seconds "${left:-300}" --json "$OUT/bench.json"
}

if [ "${1-}" = --part ]; then "part_$2"; exit; fi

# ---- one after the other

[ -x "$carried/lockstep" ] || { echo "gpu_check.sh: there is no $carried/lockstep: \`make gpu-carry\` makes it, on a machine that builds Lockstep" >&2; exit 1; }
rm -rf "$OUT/results"
mkdir -p "$OUT/results" || exit 1
: >"$OUT/result.txt"
failed=0
check() { # NAME SECONDS
    local name=$1 limit=$2 start=$SECONDS status word
    export left=$((seconds - SECONDS))
    [ $limit -le $left ] || limit=$left
    if [ $limit -lt 5 ]; then
        word="no time" status=1
        : >"$OUT/$name.log"
    else
        timeout -k 5 $limit bash "$self" --part $name >"$OUT/$name.log" 2>&1
        status=$?
        case $status in 0) word=ok ;; 77) word="not here" ;; 124 | 137) word="too long" ;; *) word=FAILED ;; esac
    fi
    case $status in 0 | 77) ;; *) failed=1 ;; esac
    printf '%-10s %-8s %4d s  %s\n' $name "$word" $((SECONDS - start)) "$(grep -v '^ *$' "$OUT/$name.log" | tail -n 1 | cut -c1-120)" | tee -a "$OUT/result.txt"
}
limit_of() { case $1 in machine) echo 30 ;; compile | memcheck | racecheck) echo 70 ;; ops) echo 150 ;; bits) echo 10 ;; kernels) echo 60 ;; bench) echo 560 ;; *) echo 40 ;; esac; }
[ $# -gt 0 ] || set -- machine ops bits cublaslt $gpu_recipes kernels compile memcheck racecheck bench
for name; do check "$name" "$(limit_of "$name")"; done
rm -rf "$OUT/results"
[ $failed = 0 ]

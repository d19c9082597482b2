#!/bin/bash
# gpu_check.sh [--rest] [PART...] - checks device cuda on a machine with a GPU: without a network, with what `make gpu-carry` put into .gpu here.
# Without PART: all parts, the most useful first, within GPU_CHECK_SECONDS (570); --rest leaves out those that were ok in an earlier call.
#
# A machine that is lent for half an hour, in calls of ten minutes with an empty folder OUT each: make gpu-carry, carry .gpu and the working tree there, and
#   1. tools/gpu_check.sh                     # if there is only one call, this one
#   2. tools/gpu_check.sh --rest              # what the time did not suffice for; bench goes on where it was
#   3. tools/gpu_check.sh --rest bench        # or a part that failed, with mended kernels
# On a machine without what the first call left in gpu-check: put result.txt and bench.json of its OUT into gpu-check and carry that, too.
#
# A line a part, also in OUT/result.txt, and a log of each in OUT (gpu-check). A part that fails does not stop the others. Exit status: 0, or 1 if one failed.
# GPU_CHECK_NVRTC=carried: NVRTC of .gpu, though the machine has one. GPU_CHECK_KEPT: another folder for gpu-check, which has what a later call goes on with.
# Over the emulator (LOCKSTEP_CUDA_LIBRARIES names its folder) parts that need a GPU say "not here". docs/gpu.md explains the parts.
set -u
cd "$(dirname "$0")/.." || exit 1
self=$PWD/tools/gpu_check.sh
. tools/gpu_recipes.sh
kept=${GPU_CHECK_KEPT:-$PWD/gpu-check}
export OUT=${OUT:-$kept} GPU_CHECK_KEPT=$kept
carried=$kept/carried
seconds=${GPU_CHECK_SECONDS:-570} # for everything
export MACHINE_LIBRARY_PATH=${MACHINE_LIBRARY_PATH-${LD_LIBRARY_PATH-}}
export LOCKSTEP_DATA=$carried/data LOCKSTEP_KERNEL_CACHE=$kept/kernels LOCKSTEP_CACHE=$kept/cache LD_LIBRARY_PATH=$carried/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LOCKSTEP_CUDA_LIBRARIES=${LOCKSTEP_CUDA_LIBRARIES-} # empty: the machine's own
[ -d src/device/gpu/kernels ] && export LOCKSTEP_KERNELS=$PWD/src/device/gpu/kernels # a mended kernel needs no new binary
small=0
[ -e "$carried/small" ] && small=1
not_here() { echo "$*"; exit 77; }
needs_gpu() { [ -z "${LOCKSTEP_CUDA_LIBRARIES-}" ] || not_here "the emulator, no GPU"; }

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
    local found
    "$carried/lockstep" doctor --no-measure || exit 1
    found=$("$carried/lockstep" doctor --no-measure | sed -n 's/^  cuda  *cannot be used: //p')
    [ -z "$found" ] || { echo "$found"; exit 1; }
    needs_gpu
    command -v nvidia-smi || { echo "no nvidia-smi, glibc $(ldd --version | sed -n '1s/.* //p')"; exit; }
    nvidia-smi
    echo "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1), glibc $(ldd --version | sed -n '1s/.* //p')"
}

# All kernels of the op suite for this GPU, on all cores, into the cache: the suite itself compiles one after the other.
# Over the emulator: by NVRTC itself, for all architectures, where it is installed.
part_compile() {
    if [ -n "$LOCKSTEP_CUDA_LIBRARIES" ]; then
        env -u LOCKSTEP_CUDA_LIBRARIES "$carried/gpu_compile_all" "$carried/texts" tests/gpu/nvrtc/spills.txt
    else
        "$carried/gpu_compile_all" "$carried/texts" tests/gpu/nvrtc/spills.txt --all --keep here
    fi
}

# every case of the op suite against ref, in f64
part_ops() { LS_TEST_BITS=$kept/bits.txt "$carried/gpu_test_ops"; }

# products by NVIDIA's library
part_cublaslt() {
    local said=$OUT/cublaslt.txt status=0
    LS_TEST_KERNELS=cublaslt LS_TEST_OPS=${LS_TEST_OPS:-linear,linear_dx,linear_dw,batch_matmul} "$carried/gpu_test_ops" >"$said" 2>&1 || status=$?
    cat "$said"
    ! grep -q "library for matrix products is missing" "$said" || not_here "no libcublasLt"
    return $status
}

# Each line of the files is an op, a type, a case and a hash of its result. Tensor cores add in an order that the emulator does not know.
by_tensor_cores='^(linear|linear_dx|linear_dw|batch_matmul|attention|attention_grad|attention_cached|conv2d|conv2d_dx|conv2d_dw) (bf16|f16) '
part_bits() {
    [ -s "$kept/bits.txt" ] || { echo "part ops left no results"; exit 1; }
    local same all
    grep -Ev "$by_tensor_cores" "$carried/bits.txt" | sort >"$kept/bits_emulated.txt"
    grep -Ev "$by_tensor_cores" "$kept/bits.txt" | sort >"$kept/bits_here.txt"
    diff "$kept/bits_emulated.txt" "$kept/bits_here.txt"
    same=$(comm -12 "$kept/bits_emulated.txt" "$kept/bits_here.txt" | wc -l) all=$(wc -l <"$kept/bits_emulated.txt")
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

# run NAME WORDS...: a recipe on the GPU, in $kept/runs/NAME
run() {
    local name=$1
    shift
    "$carried/lockstep" train "${words[@]}" --set device=cuda --set run.storage="$kept/runs" --set run.name="$name" --no-progress "$@"
}
# same A B: the runs have the same losses and weights
same() {
    diff <(losses "$kept/runs/$1") <(losses "$kept/runs/$2") >&2 && cmp "$kept/runs/$1/checkpoints/latest/model.safetensors" "$kept/runs/$2/checkpoints/latest/model.safetensors"
}
part_recipe() { # NAME: 20 steps like the CPU's; the same bits if half of them run without graphs, and the run is then resumed
    local golden=$carried/goldens/$1.txt steps half tolerance apart words
    [ -s "$golden" ] || not_here "nothing of the CPU's was carried"
    mapfile -t words < <(recipe_words "$1" "$carried/data")
    steps=$(wc -l <"$golden") half=$(($(wc -l <"$golden") / 2)) tolerance=$(recipe_tolerance "$1")
    rm -rf "$kept/runs"
    run "$1" || exit 1
    apart=$(paste "$golden" <(losses "$kept/runs/$1") | awk -v tolerance=$tolerance '
        { d = $1 - $2; d = (d < 0 ? -d : d) / ($1 > 1 ? $1 : 1); if (NF != 2 || $2 != $2 + 0 || d != d + 0) bad = 1; if (d > most) most = d }
        END { printf "%.1e", most; exit bad || most > tolerance }') || { echo "losses differ by $apart from the CPU's: $tolerance is allowed"; exit 1; }
    LOCKSTEP_CUDA_GRAPHS=0 run "$1-halves" --set train.steps=$half && run "$1-halves" || exit 1
    same "$1" "$1-halves" && { echo "$steps losses within $apart of the CPU's; half of the steps without graphs, resumed with graphs: the same bits"; exit; }
    LOCKSTEP_CUDA_GRAPHS=0 run "$1-plain" || exit 1
    same "$1" "$1-plain" || { echo "without graphs: other bits"; exit 1; }
    echo "interrupted after $half steps and resumed: other bits"
    exit 1
}
for recipe in $gpu_recipes; do eval "part_$recipe() { part_recipe $recipe; }"; done

# our kernels, as bytes and FLOP in a second
part_kernels() { if [ -n "${LOCKSTEP_CUDA_LIBRARIES-}" ]; then "$carried/bench_gpu" --small; else "$carried/bench_gpu"; fi; }

# all beside PyTorch, with the card's ceilings
part_bench() {
    needs_gpu
    python3 -c 'import torch; assert torch.cuda.is_available()' || not_here "no PyTorch with CUDA"
    LD_LIBRARY_PATH=$MACHINE_LIBRARY_PATH python3 bench/gpu.py --carried "$carried" --libraries "$LD_LIBRARY_PATH" --seconds $((${limit:-300} - 10)) --out "$kept"
    local status=$?
    [ "$kept" = "$OUT" ] || cp "$kept/bench.json" "$kept/bench.md" "$OUT"
    return $status
}

if [ "${1-}" = --part ]; then "part_$2"; exit; fi

# ---- one after the other

rest=0
[ "${1-}" = --rest ] && rest=1 && shift
mkdir -p "$kept" "$OUT" || exit 1
archive=${GPU_CARRIED:-$PWD/.gpu}/carried.tar.gz
[ -e "$archive" ] || { echo "gpu_check.sh: there is no $archive: \`make gpu-carry\` makes it, on a machine that builds Lockstep" >&2; exit 1; }
rm -rf "$carried" && mkdir "$carried" && gzip -dc "$archive" | tar -xf - -C "$carried" || { echo "gpu_check.sh: $archive cannot be unpacked into $carried" >&2; exit 1; }
if [ -z "$LOCKSTEP_CUDA_LIBRARIES" ] && { [ "${GPU_CHECK_NVRTC-}" = carried ] || "$carried/lockstep" doctor --no-measure 2>&1 | grep -q 'no compiler for kernels'; }; then
    LD_LIBRARY_PATH=$carried/nvrtc:$LD_LIBRARY_PATH
fi
small=0
[ -e "$carried/small" ] && small=1
touch "$kept/result.txt"
failed=0
was_ok() { { [ $1 != compile ] || [ -d "$kept/kernels" ]; } && grep -q "^$1 *ok " "$kept/result.txt"; } # (another machine has no kernels yet)
check() { # NAME SECONDS
    local name=$1 start=$SECONDS left=$((seconds - SECONDS)) status word line
    export limit=$2
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
    line=$(printf '%-10s %-8s %4d s  %s' $name "$word" $((SECONDS - start)) "$(grep -v '^ *$' "$OUT/$name.log" | tail -n 1 | cut -c1-120)")
    echo "$line"
    { grep -v "^$name " "$kept/result.txt"; echo "$line"; } >"$kept/result.new"
    mv "$kept/result.new" "$kept/result.txt"
    [ "$kept" = "$OUT" ] || cp "$kept/result.txt" "$OUT"
}
limit_of() { case $1 in machine) echo 30 ;; compile) echo 120 ;; ops | cublaslt) echo 150 ;; memcheck | racecheck) echo 120 ;; bits) echo 10 ;; bench) echo 560 ;; *) echo 60 ;; esac; }
[ $# -gt 0 ] || set -- machine compile ops bits cublaslt $gpu_recipes kernels bench memcheck racecheck
for name; do
    [ $rest = 1 ] && was_ok "$name" && continue
    check "$name" $(($(limit_of "$name") * (small ? 50 : 1))) # (the emulator, beside other tests)
done
[ $failed = 0 ]

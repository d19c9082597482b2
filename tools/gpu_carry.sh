#!/bin/bash
# gpu_carry.sh BUILD [OUT] - `make gpu-carry`: writes OUT/carried.tar.gz (.gpu/carried.tar.gz), which has what tools/gpu_check.sh needs on a machine with a
# GPU that has no network and no compiler: programs that need libc and libm alone, NVRTC, parts of the data sets of LOCKSTEP_DATA, and what the CPU and the
# emulator of GPUs computed here.
# nvrtc=FOLDER: NVRTC's two libraries lie there; else pip downloads them, in the oldest version with code for Hopper that was tried: it is a quarter of the
# newest one, and its code runs with drivers for CUDA 12, too. small=1: for a test, in seconds, without NVRTC unless `nvrtc` names it.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/tools/gpu_recipes.sh"
build=$(cd "$1" && pwd) || exit 1
there=${2:-$top/.gpu}
most_mib=${most_mib:-48}   # of the 64 that may travel with the working tree
oldest_glibc=2.35          # of Ubuntu 22.04
nvrtc_package=nvidia-cuda-nvrtc-cu12==12.6.85
nvrtc=${nvrtc:+$(cd "$nvrtc" && pwd)}
data=${LOCKSTEP_DATA:-}

fail() { echo "gpu_carry.sh: $*" >&2; exit 1; }
mkdir -p "$there" && there=$(cd "$there" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
out=$work/carried
mkdir -p "$out/lib" "$out/nvrtc" "$out/data" "$out/goldens" "$out/texts" || exit 1

# ---- programs

# of_target TARGET WORD: what Ninja's file says
of_target() { awk -v target="build $1: " -v word="$2 = " 'index($0, target) == 1 { on = 1 } on && /^$/ { exit } on && (i = index($0, word)) == 3 { print substr($0, length(word) + 3); exit }' build.ninja; }
objects_of() { awk -v target="build $1: " 'index($0, target) == 1 { sub(/ \|.*/, ""); for (i = 4; i <= NF; i++) print $i; exit }' build.ninja; }

# program TARGET: links it again, with Debian's static libraries where there are any. A build of shared libraries (dev) is copied, and runs only here.
program() {
    local to=$out/${1##*/} libraries objects file name
    cd "$build" || exit 1
    libraries=$(of_target "$1" LINK_LIBRARIES)
    objects=$(objects_of "$1")
    [ -n "$objects" ] || fail "$build/build.ninja does not know $1"
    case $libraries in
    *libls_base.so*)
        cp "$1" "$to" || fail "$1 is not built"
        return
        ;;
    esac
    for file in $libraries; do
        case $file in
        *libcmocka.so) name=$file; cp -L "$file" "$out/lib/libcmocka.so.0" ;; # (there is no other)
        /*.so) name=${file%.so}.a; [ -e "$name" ] || name=$(${CC:-cc} -print-file-name="$(basename "$name")"); [ -e "$name" ] || name=$file ;;
        *) name=$file ;;
        esac
        printf '%s\n' "$name"
    done >"$work/libraries"
    ${CC:-cc} -O3 $(of_target "$1" LINK_FLAGS) -o "$to" $objects $(cat "$work/libraries") -lm -lpthread -ldl || fail "$1 cannot be linked again"
    strip "$to"
    file=$(objdump -p "$to" | awk '/NEEDED/ && $2 !~ /^(lib(c|m|cmocka)[.]so|ld-linux)/ { print $2 }' | tr '\n' ' ')
    [ -z "$file" ] || echo "gpu_carry.sh: ${1##*/} still needs $file" >&2
}
for target in lockstep tests/gpu_test_ops tests/gpu_compile_all bench/bench_gpu; do program $target; done
glibc=$(objdump -T "$out/lockstep" "$out/gpu_test_ops" "$out/gpu_compile_all" "$out/bench_gpu" | sed -n 's/.*[( ]GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$glibc" $oldest_glibc | sort -V | tail -n 1)" = $oldest_glibc ] ||
    echo "gpu_carry.sh: the programs need glibc $glibc; a machine with $oldest_glibc (Ubuntu 22.04) cannot run them: build on an older system" >&2

# ---- NVIDIA's compiler

if [ -z "$nvrtc" ] && [ "${small-0}" != 1 ]; then
    if python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work" "$nvrtc_package" >"$work/log" 2>&1 && python3 -m zipfile -e "$work"/nvidia_cuda_nvrtc*.whl "$work/wheel"; then
        nvrtc=$work/wheel/nvidia/cuda_nvrtc/lib
    else
        echo "gpu_carry.sh: no NVRTC is carried, so the machine with the GPU must have it: pip download $nvrtc_package: $(grep -i error "$work/log" | tail -n 1)" >&2
    fi
fi
for file in ${nvrtc:+"$nvrtc"/libnvrtc*.so.*}; do
    case $file in *.alt.*) continue ;; esac
    cp -L "$file" "$out/nvrtc/" || exit 1
done
[ -z "$nvrtc" ] || ls "$out"/nvrtc/libnvrtc.so.1* >/dev/null || fail "nvrtc=$nvrtc has no libnvrtc.so"

# ---- data: the first images and pages

mkdir -p "$out/data/tokenizers"
cut_images() { { printf '\0\0\010\003\0\0\020\0'; zcat "$1" | tail -c +9 | head -c $((8 + 784 * 4096)); } | gzip -9n >"$2"; }
cut_labels() { { printf '\0\0\010\001\0\0\020\0'; zcat "$1" | tail -c +9 | head -c 4096; } | gzip -9n >"$2"; }
for set in mnist fashion-mnist; do
    [ -d "$data/$set" ] || { echo "gpu_carry.sh: LOCKSTEP_DATA has no $set" >&2; continue; }
    mkdir -p "$out/data/$set"
    for part in train t10k; do
        if [ "${small-0}" = 1 ]; then
            cp "$data/$set/$part"-*.gz "$out/data/$set"
            continue
        fi
        cut_images "$data/$set/$part-images-idx3-ubyte.gz" "$out/data/$set/$part-images-idx3-ubyte.gz"
        cut_labels "$data/$set/$part-labels-idx1-ubyte.gz" "$out/data/$set/$part-labels-idx1-ubyte.gz"
    done
done
for file in wikitext-2/valid.txt scitldr-a/dev.jsonl; do
    [ -e "$data/$file" ] || { echo "gpu_carry.sh: LOCKSTEP_DATA has no $file" >&2; continue; }
    mkdir -p "$out/data/${file%/*}" && cp "$data/$file" "$out/data/$file"
done
for name in qwen2.5 t5-base; do
    [ "${small-0}" = 1 ] && continue # (bytes)
    mkdir -p "$out/data/tokenizers/$name" && cp "$data/$name/tokenizer.json" "$data/$name/config.json" "$out/data/tokenizers/$name" || exit 1
done
chmod -R u+w "$out/data"

# ---- what the CPU computes

for recipe in $gpu_recipes; do
    mapfile -t words < <(recipe_words $recipe "$out/data")
    if LOCKSTEP_DATA=$out/data "$out/lockstep" train "${words[@]}" --set device=cpu --set run.storage="$work/runs" --set run.name=$recipe --no-progress >"$work/log" 2>&1; then
        losses "$work/runs/$recipe" >"$out/goldens/$recipe.txt"
    else
        echo "gpu_carry.sh: no goldens of $recipe: $(grep '^error' "$work/log")" >&2
    fi
done

# ---- what the emulator computes: the bits of all ops; and the texts of all kernels that they use

LD_LIBRARY_PATH=$out/lib LOCKSTEP_CUDA_LIBRARIES=$build/tests/gpu/shim LOCKSTEP_KERNEL_CACHE=${LOCKSTEP_KERNEL_CACHE:-$work/cache} LOCKSTEP_KERNEL_DUMP=$out/texts LS_TEST_BITS=$out/bits.txt \
    "$out/gpu_test_ops" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "the op suite fails on the emulator"; }

[ "${small-0}" = 1 ] && echo 1 >"$out/small"
(cd "$top" && git rev-parse HEAD) >"$out/commit.txt" 2>/dev/null
tar -C "$out" -cf - . | gzip -9n >"$work/carried.tar.gz" || exit 1
mib=$(du -m "$work/carried.tar.gz" | cut -f1)
[ "$mib" -le "$most_mib" ] || fail "the archive has $mib MiB; at most $most_mib may travel"
mv "$work/carried.tar.gz" "$there/carried.tar.gz" || exit 1
echo "$there/carried.tar.gz: $mib MiB; programs for glibc $glibc, NVRTC $(ls "$out/nvrtc" | sed -n 's/libnvrtc-builtins.so.//p' | grep . || echo "not carried"), $(ls "$out/goldens" | wc -l) recipes, $(ls "$out/texts" | wc -l) texts of kernels, $(wc -l <"$out/bits.txt") results of ops"

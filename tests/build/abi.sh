#!/bin/sh
# tools/abi: the headers are what bindings/abi.txt says; it notices a function that vanishes, an argument, a member and the value of an enum
# that change, and lets more come. Usage: abi.sh SOURCE_DIR CC
set -eu
source=$1
export CC="$2"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$source/tools/abi" --check

mkdir "$root/tools" "$root/bindings"
cp "$source/tools/abi" "$source/tools/abi.awk" "$root/tools"
cp -r "$source/include" "$root"
cp "$source/CHANGELOG.md" "$root"
cp "$source/bindings/abi.txt" "$root/bindings"
cd "$root"
change() { # HEADER SED WANT: changes a header; WANT: the line that no longer holds, or "" where nothing may be wrong
    cp "include/lockstep/$1" kept.h
    sed -i "$2" "include/lockstep/$1"
    if cmp -s kept.h "include/lockstep/$1"; then echo "abi.sh: $2 changes nothing" >&2; exit 1; fi
    status=0
    tools/abi --check 2> log || status=$?
    if [ -n "$3" ]; then
        [ $status = 1 ] && grep -qF -- "    $3" log || { echo "abi.sh: $2 is not noticed" >&2; cat log >&2; exit 1; }
    else
        [ $status = 0 ] || { echo "abi.sh: $2 is refused" >&2; cat log >&2; exit 1; }
    fi
    mv kept.h "include/lockstep/$1"
}
change types.h 's/^LS_API int64_t ls_type_rows.*//' 'function int64_t ls_type_rows(const ls_type *t)'
change types.h 's/bool ls_dtype_is_float(ls_dtype t)/bool ls_dtype_is_float(int t)/' 'function _Bool ls_dtype_is_float(ls_dtype t)'
change types.h 's/^    int64_t strides/    int32_t strides/' 'struct ls_tensor 144 8'
change types.h 's/^    void \*data;/    ls_type first; void *data;/' 'member ls_tensor.data 0 8 void *'
change mesh.h 's/^        int64_t size;/        int64_t length;/' 'member ls_mesh.axes[].size 32 8 int64_t'
change types.h 's/LS_F32, LS_F64/LS_F64, LS_F32/' 'value ls_dtype LS_F32 0'
change data.h 's/int64_t (\*count)(const ls_dataset \*set, int64_t i, int k)/int64_t (*count)(const ls_dataset *set, int64_t i)/' \
    'member ls_dataset.count 64 8 int64_t (*)(const ls_dataset *set, int64_t i, int k)'
change types.h 's/, LS_DTYPE_COUNT/, LS_NEW, LS_DTYPE_COUNT/; s/^LS_API int64_t ls_type_rows/LS_API int ls_new(void);\n&/' ''

# Another version has another interface, and the file is then written anew; of a version that was released it is not.
sed -i 's/0\.1\.0/0.2.0/' include/lockstep/status.h
if tools/abi --check 2> log; then exit 1; fi
grep -q 'abi 0.1, and the headers are of abi 0.2: run tools/abi --write' log || { cat log >&2; exit 1; }
tools/abi --write
tools/abi --check
printf '\n## 0.2.0\n' >> CHANGELOG.md
sed -i 's/^LS_API int64_t ls_type_rows.*//' include/lockstep/types.h
if tools/abi --write 2> log; then exit 1; fi
grep -q '0.2.0 is released' log && grep -q 'ls_type_rows' log || { cat log >&2; exit 1; }

#!/bin/sh
# tools/check_layers finds every kind of broken rule, and accepts the rules kept. Usage: layers.sh SOURCE_DIR
set -eu
checker=$1/tools/check_layers
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$1/ARCHITECTURE.md" "$root"
mkdir -p "$root/src/base" "$root/src/graph" "$root/src/ops" "$root/src/device/cpu" "$root/src/data" "$root/src/cli"

cat > "$root/src/data/good.c" << 'END'
#include "local.h"
#include "base/str.h"
#include "data/other.h"
#include "lockstep/graph.h"
#include <zlib.h>
/* printf("in a comment") and
 * exit(1) in a longer one */
static const char *text = "printf(1)"; // exit(1)
snprintf(a, 1, "x"); my_exit(1); ls_sys_rename(a, b); w->write(a); fd = open(path, O_RDONLY);
END
echo '#include "graph/op.h"' > "$root/src/ops/good.c"
printf '#include "graph/attrs.h"\n#include "graph/tensor_attrs.h"\n#include "graph/elementwise.list"\n' > "$root/src/device/cpu/good.c"
mkdir -p "$root/include/lockstep"
echo 'LS_API int ls_count(int a);' > "$root/include/lockstep/status.h"
printf '#include "status.h"\nLS_API ls_value ls_graph_input(ls_graph *g,\n    int n);\n' > "$root/include/lockstep/graph.h"
printf '#include "graph.h"\n' > "$root/include/lockstep/lockstep.h"
printf 'int ls_count(int a)\n{\n}\n' > "$root/src/base/count.c"
printf '#include "lockstep/graph.h"\nls_value ls_graph_input(ls_graph *g, int n)\n{\n}\n' > "$root/src/graph/good.c"
printf '#include "internal.h"\n#include "data/set_own.h"\n' > "$root/src/data/own.c"
echo '#include "graph/graph.h"' > "$root/src/ops/good.c"
printf '#include "data/good.h"\nint main(void) { printf("hello"); exit(2); }\n' > "$root/src/cli/good.c"
"$checker" "$root" || { echo "a clean tree is refused" >&2; exit 1; }

refused() { # SOURCE LINE, MESSAGE
    case "$1" in include/*) file=$1 ;; *) file=src/$1 ;; esac
    printf '%s\n' "$2" > "$root/$file"
    if found=$("$checker" "$root"); then
        echo "not found: $2" >&2
        exit 1
    fi
    case "$found" in
        *"$file:1: "*"$3"*) ;;
        *) printf 'for %s expected "%s", got:\n%s\n' "$2" "$3" "$found" >&2; exit 1 ;;
    esac
    rm "$root/$file"
}
refused base/bad.c '#include "graph/graph.h"' 'of graph (level 1)'
refused base/bad.c '# include  "lockstep/graph.h"' 'of graph (level 1)'
refused device/bad.h '#include "graph/graph.h"' 'kernels know the attributes of ops, but no graph'
refused device/cpu/bad.c '#include "graph/op.h"' 'kernels know the attributes of ops, but no graph'
refused data/bad.c '#include "device/cpu/isa.h"' 'is private to src/device'
refused ops/bad.c '#include "device/device.h"' 'of device (level 2)'
refused data/bad.h '#include "models/x.h"' 'of models (level 6)'
refused graph/bad.c '#include "plan/plan.h"' 'of plan (level 3)'
refused data/bad.c '#include "../base/str.h"' 'write the path from src/'
refused data/bad.c '#include "nowhere/x.h"' 'unknown folder'
refused data/bad.c '#include "lockstep/unheard.h"' 'there is no include/lockstep/unheard.h'
refused include/lockstep/empty.h 'typedef int ls_empty;' 'no folder implements a function of this header'
echo '#include "graph.h"' > "$root/include/lockstep/types_only.h" # of the folder of graph.h
refused base/bad.c '#include "lockstep/types_only.h"' 'of graph (level 1)'
echo '#include "lockstep/types_only.h"' > "$root/src/graph/types.h"
"$checker" "$root" || { echo "a header with types alone is refused" >&2; exit 1; }
rm "$root/include/lockstep/types_only.h" "$root/src/graph/types.h"
printf 'int ls_low(int a)\n{\n}\n' > "$root/src/base/low.c"
refused include/lockstep/low.h '#include "graph.h" /* LS_API int ls_low(int a); */' 'of graph (level 1)'
rm "$root/src/base/low.c"
refused cli/bad.c '#include "data/internal.h"' 'is private to src/data'
refused cli/bad.c '#include "data/set_own.h"' 'is private to src/data'
refused graph/bad.c '#include <curl/curl.h>' 'only src/net may'
refused graph/bad.c "#include <zlib.h>" "only src/data or src/ckpt may"
refused data/bad.c 'if (x) printf("hello");' 'prints or exits'
refused data/bad.c 'return ls_fail(LS_E_USAGE, "data.path %s: no such folder", path);' 'names a key of recipes'
refused data/bad.c 'fprintf(stderr, "x");' 'prints or exits'
refused data/bad.c '    exit(1);' 'prints or exits'
refused cli/bad.c 'if (rename(a, b)) return;' 'no fault point'
refused data/bad.c 'fd = open(path, O_RDONLY | O_CREAT, 0666);' 'no fault point'
mkdir "$root/src/new"
refused new/bad.c 'int x;' 'has no level'

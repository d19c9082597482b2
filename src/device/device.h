/* device.h - a device: a table of kernels, which compute ops, and the facts that choose among them
 * (instruction set, threads).
 *
 * It knows tensors and attributes, but not graphs. A kernel gets addresses that were fixed when the session
 * was made. It allocates nothing and does not fail: what it cannot compute is refused by `supports` when the
 * step is compiled.
 *
 * Rules for results: they must not depend on threads, nor a row's result on other rows; sums are cut into
 * blocks whose size is fixed for each level. Products and sums of bf16 and f16 tensors are computed in f32,
 * and rounded to nearest even when they are stored. Kernels of one level give the same bits on every machine
 * that has the level. */
#pragma once
#include "base/box.h"
#include "graph/attrs.h"

typedef enum ls_isa {
    LS_ISA_GENERIC,
    LS_ISA_AVX2,
    LS_ISA_AVX512,
    LS_ISA_AVX512BF16,
    LS_ISA_AMX,
    LS_ISA_COUNT
} ls_isa;
const char *ls_isa_name(ls_isa isa); /* "generic" "avx2" "avx512" "avx512bf16" "amx" */
bool ls_isa_parse(const char *name, ls_isa *out);
ls_isa ls_isa_best(void); /* the best level of this CPU and operating system */

typedef struct ls_kernel_args {
    int n_in, n_out;
    /* Inputs. The list reaches up to the op's max_in. An optional input that is absent has data NULL and
     * type.ndim -1. */
    const ls_tensor *in;
    /* Outputs. One may share memory with an input only if the op's row allows it (in place), or requires it
     * (alias). */
    const ls_tensor *out;
    const void *attrs; /* the op's struct in graph/attrs.h; NULL if it has none */
    /* the box of the operand that has @ in the op's rule, in its whole tensor; NULL: it is whole */
    const ls_box *at;
    void *workspace; /* as many bytes as `workspace` returned, aligned to 64 bytes, with arbitrary contents */
    int threads;
    ls_isa isa;
} ls_kernel_args;

/* For dimension d of the operand with a box: where the box begins in the whole, and the size of the whole. */
static inline int64_t ls_at_start(const ls_kernel_args *a, int d) { return a->at ? a->at->start[d] : 0; }
static inline int64_t ls_at_whole(const ls_kernel_args *a, int d, int64_t here)
{
    return a->at ? a->at->whole[d] : here;
}

typedef struct ls_kernel {
    const char *op; /* name of the op */
    void (*run)(const ls_kernel_args *a);
    /* Bytes of scratch memory: a pure function of shapes, isa and threads (data pointers are NULL). NULL:
     * none. */
    size_t (*workspace)(const ls_kernel_args *a);
    /* NULL: the kernel takes everything that the op's shape rule allows. Else it returns NULL for yes, or a
     * short reason ("f64 is for device ref"). */
    const char *(*supports)(const ls_kernel_args *a);
    /* Masks of operands (LS_OPERAND). rows_in, rows_out: these inputs and outputs may be row-strided: their
     * last dimension is contiguous, and one stride leads from row to row over all other dimensions. any_in:
     * these inputs may have any strides, also 0. All other operands must be contiguous; the planner copies
     * those that are not. */
    uint32_t rows_in, rows_out, any_in;
} ls_kernel;
#define LS_OPERAND(i) (1u << (i)) /* operand i, counted from 0, in a mask of inputs or of outputs */

typedef struct ls_device ls_device;
typedef struct ls_device_ops {
    const char *name;
    /* Ends with a row whose op is NULL. NULL: the kernels depend on the level, see `tables`. */
    const ls_kernel *kernels;
    /* The tables of a level, in the order in which they are searched; ends with NULL. NULL: the level was not
     * compiled. */
    const ls_kernel *const *(*tables)(ls_isa level);
    bool computes; /* false for the device null */
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    ls_isa isa;
    int threads;
    const ls_kernel *overrides; /* searched before ops->kernels (kernels: onednn); NULL: none */
};

extern const ls_device_ops ls_device_ref, ls_device_cpu, ls_device_null;
/* products and convolutions by oneDNN; ends with a row whose op is NULL; only in builds with oneDNN */
extern const ls_kernel ls_kernels_onednn[];

typedef struct ls_device_opts {
    int isa;             /* an ls_isa; -1: LOCKSTEP_ISA, else the best of this machine */
    int threads;         /* 0: all cores that this process may use */
    const char *kernels; /* "own" | "onednn" */
    bool elsewhere;      /* for a plan of another machine: this machine need not have the level */
} ls_device_opts;
#define LS_DEVICE_DEFAULTS .isa = -1, .threads = 0, .kernels = "own", .elsewhere = false

/* name: "cpu", "ref", "null". LS_E_UNSUPPORTED gives the reason. Local. */
ls_status ls_device_open(ls_device *out, const char *name, const ls_device_opts *o);

/* The kernel for an op with these operands; NULL with a reason. A device never uses another device's
 * kernels. */
const ls_kernel *ls_device_find(const ls_device *d, const char *op, const ls_kernel_args *shapes,
                                const char **why);

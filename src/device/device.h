/* device.h - what runs an op. A device is a table of kernels plus the few facts that choose among them
 * (instruction set, threads).
 *
 * Knows tensors and attributes, not graphs: the layers above translate. A kernel gets pointers that were
 * fixed when the session was made, allocates nothing, and does not fail: whatever can be refused is refused
 * by `supports` when the step is compiled.
 *
 * Results must not depend on threads, nor a row's result on the rows beside it (ARCHITECTURE.md, "The same
 * bits"): sums are cut into blocks of a size fixed per ISA level. Products and sums of bf16/f16 tensors are
 * f32, rounded to nearest even when stored. Kernels of one level give the same bits on all such machines. */
#pragma once
#include "attrs.h"
#include "base/box.h"

typedef enum ls_isa { LS_ISA_GENERIC, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_AVX512BF16, LS_ISA_COUNT } ls_isa;
const char *ls_isa_name(ls_isa isa); /* "generic" "avx2" "avx512" "avx512bf16" */
bool ls_isa_parse(const char *name, ls_isa *out);
ls_isa ls_isa_best(void); /* what this CPU and operating system offer */

typedef struct ls_kernel_args {
    int n_in, n_out;
    /* an absent optional input has data NULL and type.ndim -1; entries reach up to the op's max_in, trailing
     * ones too */
    const ls_tensor *in;
    /* may share memory with an input only where the op's row says so (in place, or a mandatory alias) */
    const ls_tensor *out;
    const void *attrs; /* the op's struct of attrs.h, NULL if it has none */
    const ls_box *at;  /* where the operand that the op's row names is in its whole tensor; NULL: all of it */
    void *workspace;   /* as many bytes as `workspace` asked for, 64-byte aligned, contents undefined */
    int threads;
    ls_isa isa;
} ls_kernel_args;

/* Of that operand's dimension d: where it begins in the whole, and the size of the whole. */
static inline int64_t ls_at_start(const ls_kernel_args *a, int d) { return a->at ? a->at->start[d] : 0; }
static inline int64_t ls_at_whole(const ls_kernel_args *a, int d, int64_t here)
{
    return a->at ? a->at->whole[d] : here;
}

typedef struct ls_kernel {
    const char *op; /* name of the op's row */
    void (*run)(const ls_kernel_args *a);
    /* Bytes of scratch as a pure function of shapes, isa and threads (data pointers are NULL). NULL: none. */
    size_t (*workspace)(const ls_kernel_args *a);
    /* NULL: takes whatever the op's shape rule allows. Else: a short reason why not ("f64 is for device
     * ref"), or NULL for yes. */
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
    const ls_kernel *kernels; /* ended by a row with op NULL; NULL where the kernels depend on the level: */
    /* tables to search in order, ended by NULL; NULL: this level was not built */
    const ls_kernel *const *(*tables)(ls_isa level);
    bool computes; /* false: null */
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    ls_isa isa;
    int threads;
    const ls_kernel *overrides; /* searched before ops->kernels (kernels: onednn); NULL if none */
};

extern const ls_device_ops ls_device_ref, ls_device_cpu, ls_device_null;
/* products and convolutions through the library; ended by op NULL; only present with oneDNN */
extern const ls_kernel ls_kernels_onednn[];

typedef struct ls_device_opts {
    int isa;             /* an ls_isa, or -1: LOCKSTEP_ISA, else the best here */
    int threads;         /* 0: all cores this process may use */
    const char *kernels; /* "own" | "onednn" */
    bool elsewhere;      /* plan for another machine: the ISA level need not exist here */
} ls_device_opts;
#define LS_DEVICE_DEFAULTS .isa = -1, .threads = 0, .kernels = "own", .elsewhere = false

/* name: "cpu", "ref", "null". Fails with LS_E_UNSUPPORTED and the reason. Local. */
ls_status ls_device_open(ls_device *out, const char *name, const ls_device_opts *o);

/* The kernel for an op with these operands, or NULL with a reason. A device without a kernel for an op
 * refuses; it never borrows. */
const ls_kernel *ls_device_find(const ls_device *d, const char *op, const ls_kernel_args *shapes,
                                const char **why);

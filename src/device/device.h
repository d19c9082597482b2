/* device.h - a device: tables of kernels, which compute ops, and the facts that choose among them (what the
 * device is made of, threads).
 *
 * It knows tensors and attributes, but not graphs. A kernel gets addresses that were fixed when the session
 * was made. It allocates nothing and does not fail: what it cannot compute is refused by `supports` when the
 * step is compiled.
 *
 * Rules for results: they must not depend on threads, nor a row's result on other rows; sums are cut into
 * blocks whose size is fixed for each level. Products and sums of bf16 and f16 tensors are computed in f32,
 * and rounded to nearest even when they are stored. Kernels of one arch give the same bits on every machine
 * that has it. */
#pragma once
#include "base/box.h"
#include "graph/attrs.h"

/* What a device is made of: all that its kernels ask about it, so that a plan for another machine is exact.
 * Constant; each device has a table of them. Other folders use the name only. */
typedef struct ls_arch {
    const char *name; /* in messages, plans, checkpoints and calibrations: "avx2" */
    int level;        /* for the device's own kernels; of the CPU an ls_isa (device/cpu/isa.h) */
} ls_arch;

enum { LS_KERNEL_INPUTS = 12 }; /* no op's max_in is larger, but for those that take any number */

typedef struct ls_kernel_args {
    int n_in, n_out;
    /* Inputs. The list reaches up to the op's max_in. An optional input that is absent has data NULL and
     * type.ndim -1; all behind n_in are absent. */
    const ls_tensor *in;
    /* Outputs. One may share memory with an input only if the op's row allows it (in place), or requires it
     * (alias). */
    const ls_tensor *out;
    const void *attrs; /* the op's struct in graph/attrs.h; NULL if it has none */
    /* the box of the operand that has @ in the op's rule, in its whole tensor; NULL: it is whole */
    const ls_box *at;
    void *workspace; /* as many bytes as `workspace` returned, aligned to 64 bytes, with arbitrary contents */
    int threads;
    const ls_arch *arch; /* the device's */
    /* where a kernel of a device with queues of its own puts its work (device/queue.h); NULL: it is done when
     * `run` returns */
    struct ls_queue *queue;
} ls_kernel_args;

/* For dimension d of the operand with a box: where the box begins in the whole, and the size of the whole. */
static inline int64_t ls_at_start(const ls_kernel_args *a, int d) { return a->at ? a->at->start[d] : 0; }
static inline int64_t ls_at_whole(const ls_kernel_args *a, int d, int64_t here)
{
    return a->at ? a->at->whole[d] : here;
}
/* Attention's query i, of `here` queries, stands at key i + this: the last query of the whole sequence at the
 * last of `keys`. */
static inline int64_t ls_at_apart(const ls_kernel_args *a, int64_t here, int64_t keys)
{
    return keys - ls_at_whole(a, 1, here) + ls_at_start(a, 1);
}

typedef struct ls_kernel {
    const char *op; /* name of the op */
    void (*run)(const ls_kernel_args *a);
    /* Bytes of scratch memory: a pure function of shapes, arch and threads (data pointers are NULL).
     * NULL: none. */
    size_t (*workspace)(const ls_kernel_args *a);
    /* NULL: the kernel takes everything that the op's shape rule allows. Else it returns NULL for yes, or a
     * short reason ("f64 is for device ref"). */
    const char *(*supports)(const ls_kernel_args *a);
    /* Masks of operands (LS_OPERAND). rows_in, rows_out: these inputs and outputs may be row-strided: their
     * last dimension is contiguous, and one stride leads from row to row over all other dimensions. any_in:
     * these inputs may have any strides, also 0. All other operands must be contiguous; the planner copies
     * those that are not. */
    uint32_t rows_in, rows_out, any_in;
    const char *by; /* "tf32", "cublaslt": which of ls_device_opts.kernels has it; NULL: own */
} ls_kernel;
#define LS_OPERAND(i) (1u << (i)) /* operand i, counted from 0, in a mask of inputs or of outputs */

/* What a device can do by its data sheet. */
typedef struct ls_rates {
    double flops, narrow_flops; /* FLOP/s of products of f32, and of bf16 and f16 */
    double memory, copies;      /* B/s of its memory, and of copies from and to the host */
    char source[192];           /* where this is from: "GPU 0 (NAME): 108 multiprocessors at 1.41 GHz, ..." */
} ls_rates;

typedef struct ls_device ls_device;
typedef struct ls_queue_ops ls_queue_ops;
typedef struct ls_link_ops ls_link_ops;
typedef struct ls_device_ops {
    const char *name;
    /* Sets d->arch and d->here. word: the name of an arch; NULL: the device chooses. LS_E_UNSUPPORTED: this
     * machine cannot run it, and it is not for `elsewhere`. */
    ls_status (*choose)(ls_device *d, const char *word, bool elsewhere);
    /* The archs that this machine can run, from the slowest (0) on; NULL behind the last. */
    const ls_arch *(*usable)(int i);
    /* The tables of kernels, in the order in which they are searched; ends with NULL. Each table ends with a
     * row whose op is NULL. The kernels for an arch that this machine lacks answer `workspace` and
     * `supports`, and cannot run. NULL: none was built. */
    const ls_kernel *const *(*tables)(const ls_arch *arch);
    /* FLOP/s of f32 numbers, or of bf16 where the arch has instructions for them, with all threads busy: the
     * best of `attempts` short bursts. Products are compared with it. Not reentrant. NULL: the device is not
     * measured. */
    double (*peak)(const ls_arch *arch, ls_dtype type, int threads, int attempts);
    /* The same by its data sheet, for a device without `peak`. NULL: it has none. */
    void (*rates)(ls_rates *out, const ls_device *d);
    /* The name of what the device is here, for people and files. NULL: the processor's. */
    void (*hardware)(char out[64], const ls_device *d);
    const ls_queue_ops *queue; /* memory and the order of work (device/queue.h) */
    const ls_link_ops *link;   /* between the devices of ranks (device/link.h); NULL: there is none */
    bool computes;             /* false for the device null */
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    const ls_arch *arch;
    bool here; /* this machine can run it; false only for a plan of another machine */
    int threads;
    bool linked;                /* collectives of its programs go from device to device (link.h) */
    const ls_kernel *overrides; /* searched before ops->tables (kernels: not own); NULL: none */
};

/* Whether its speed can be measured. */
static inline bool ls_device_measured(const ls_device *d) { return d->ops->peak || d->ops->rates; }

extern const ls_device_ops ls_device_ref, ls_device_cpu, ls_device_null;
extern const ls_device_ops ls_device_cuda;     /* NVIDIA's GPUs (device/cuda) */
extern const ls_device_ops ls_device_emulated; /* for tests (device/emulated) */
/* products of device cuda by cuBLASLt (device/cuda/cublaslt.c); ends with a row whose op is NULL */
extern const ls_kernel ls_kernels_cublaslt[];
/* Must be called first. LS_E_UNSUPPORTED, with where it was looked for, if the library cannot be loaded. */
ls_status ls_cublaslt_open(void);
/* Whether a program that names no device gets a GPU (device/cuda). Says once which. */
struct ls_device_opts;
bool ls_cuda_takes_auto(const struct ls_device_opts *o);

typedef struct ls_device_opts {
    const char *isa; /* the arch's name; NULL: the GPU's; of device cpu LOCKSTEP_ISA, else the best here */
    int threads;     /* 0: all cores that this process may use */
    const char *kernels; /* "own"; of device cuda "tf32" (f32 alone), "cublaslt" */
    bool elsewhere;      /* for a plan of another machine: this machine need not have the arch */
} ls_device_opts;
#define LS_DEVICE_DEFAULTS .isa = NULL, .threads = 0, .kernels = "own", .elsewhere = false

/* name: "cpu", "cuda", "ref", "null" or, for tests, "emulated". NULL: what LOCKSTEP_DEVICE names, else
 * "cuda" where there is a GPU, else "cpu".
 * LS_E_UNSUPPORTED gives the reason. Local. */
ls_status ls_device_open(ls_device *out, const char *name, const ls_device_opts *o);
/* The CPU of the host that works beside device d, which these options made. */
ls_status ls_device_host(ls_device *out, const ls_device *d, const ls_device_opts *o);
/* Sets d->linked, for programs of several ranks: whether the device has a link, or may have one if it is not
 * here. An error if a link is wanted that cannot be had. Says once how values travel. */
ls_status ls_device_link(ls_device *d);
/* The device, by name, whose bits this one gives for the same arch: "cpu" for "emulated"; others have their
 * own. */
const char *ls_device_bits(const char *name);

/* The kernel for an op with these operands; NULL with a reason. A device never uses another device's
 * kernels. */
const ls_kernel *ls_device_find(const ls_device *d, const char *op, const ls_kernel_args *shapes,
                                const char **why);

/* gpu.h - what the rows of a GPU's kernels (this folder) need: to launch a kernel of `kernels/`, whatever
 * the GPU's maker. A row's `run` fills a struct of arguments and puts launches into the queue.
 *
 * A file of kernels is compiled when one of its functions is first launched, with the text `before` in front
 * of it: definitions such as "#define X bf16\n", or a function that was written for this call. File and text
 * together name what was compiled, which is kept on disk. */
#pragma once
#include <stdio.h>

#include "device/queue.h"
#include "kernels/types.h"

struct ls_combination;
typedef struct ls_gpu_launch {
    const char *file;     /* "layer_norm.cu" */
    const char *function; /* the kernel's name in it */
    const char *before;   /* the text in front of the file; NULL: none */
    int64_t blocks;       /* at most 2^31 - 1; 0: nothing is launched */
    const void *args;     /* the kernel's struct; copied */
    size_t bytes;
} ls_gpu_launch;

/* The queue keeps what fails, for `wait`. */
void ls_gpu_run(struct ls_queue *q, const ls_gpu_launch *l);
void ls_gpu_fill(struct ls_queue *q, void *to, int byte, size_t bytes);
void ls_gpu_copy(struct ls_queue *q, void *to, const void *from, size_t bytes);

/* combine.c: the task of that name (device/link.h) */
void ls_gpu_combine(struct ls_queue *q, const struct ls_combination *c);

static inline gpu_address ls_gpu_at(const void *p) { return (gpu_address)(uintptr_t)p; }
static inline int64_t ls_gpu_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }
static inline bool ls_gpu_present(const ls_tensor *t) { return t->type.ndim >= 0; }
static inline int64_t ls_gpu_count(const ls_type *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= t->dims[d];
    return n;
}
/* The name of a type in the dialect; the same as ls_dtype_name. */
static inline const char *ls_gpu_type(const ls_tensor *t) { return ls_dtype_name(t->type.dtype); }

/* `supports` of rows that compute in f32. */
const char *ls_gpu_no_f64(const ls_kernel_args *a);

/* Tables of rows; each ends with a row whose op is NULL. */
extern const ls_kernel ls_gpu_elements[], ls_gpu_moves[], ls_gpu_norms[], ls_gpu_totals[], ls_gpu_products[],
    ls_gpu_pictures[], ls_gpu_attention[], ls_gpu_tokens[], ls_gpu_recurrent[], ls_gpu_updates[],
    ls_gpu_dequantize[], ls_gpu_groups[];
/* kernels: tf32; searched before the others */
extern const ls_kernel ls_gpu_products_tf32[];
extern const ls_kernel *const ls_gpu_tables[]; /* all of them; ends with NULL */

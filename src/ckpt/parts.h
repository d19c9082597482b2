/* parts.h - tensors that files hold in parts: chunks of a DCP directory, what each rank wrote of a
 * checkpoint. Private to src/ckpt, but for `inspect --html`, which shows the parts. */
#pragma once
#include "base/box.h"
#include "lockstep/weights.h"

/* W [out, in] + scale * B [out, rank] A [rank, in], summed in f32 (elements.c) */
struct ls_weight_sum {
    const ls_weight *w, *a, *b;
    double scale;
    bool transposed; /* W is [in, out], and the product is turned */
};

struct ls_weight_parts {
    /* NULL, or what the numbers are made of (nf4.h); then n is 0, and `read` reads elements first .. first +
     * n - 1
     */
    const struct ls_nf4_weight *nf4;
    ls_status (*read)(const struct ls_nf4_weight *q, ls_dtype to, int64_t first, int64_t n, void *out);
    int64_t n;
    struct ls_weight_part {
        ls_box box;
        ls_weight *tensor;
    } * at;
    const struct ls_weight_sum *sum; /* not NULL: the tensor is this sum, and n is 0 */
};

/* Whether n parts, each of which is not an empty box, are each element of a tensor of `all` elements once. If
 * not, `what` says why. Sorts them: structs of `size` bytes that begin with an ls_box. Where `stop` (may be
 * NULL) says so, it ends as if they were not. */
bool ls_parts_cover(void *parts, size_t size, int64_t n, int64_t all, bool (*stop)(void), char what[100]);
/* The elements `first` to `first + n` of the whole tensor that a part has: they follow one another in the
 * part, too. Returns the number of the first one in the part; *count receives how many they are. */
int64_t ls_part_run(const struct ls_weight_part *p, int64_t first, int64_t n, int64_t *count);
/* The largest box that holds elements `first`, `first + 1`, ... of `box` (in row-major order, at most `count`
 * of them). Returns how many it holds. A run of elements falls into at most 2 * ndim - 1 such boxes. */
int64_t ls_box_cut(ls_box *out, const ls_box *box, int64_t first, int64_t count);

/* sum_to.c - sums, and largest elements, over the dimensions that broadcasting would expand. Terms are added
 * in order in blocks of SUM_BLOCK, and blocks in a balanced tree, in f32. The bits of an output depend only
 * on its terms and the level. */
#include "table.h"
#include "tree_sum.h"
#include "walk.h"

enum { SUM_BLOCK = 32, SUM_RUN = 1024 };

typedef struct sum_job {
    walk kept, summed;
    ls_dtype t;
    void *out;
    /* columns: contiguous outputs of a kept row; vectors: of VF_LANES outputs in each */
    int64_t terms, columns, vectors;
} sum_job;

SIMD_FN int64_t offset_of(const walk *w, int64_t i)
{
    int64_t left;
    return w->ndim == 1 ? i * w->strides[0] : walk_at(w, i, &left);
}

/* Outputs that are contiguous: a vector of them at a time. A task is (kept row, vector). */
SIMD_FN void sum_columns(ls_dtype T, const sum_job *j, int64_t begin, int64_t end)
{
    for (int64_t task = begin; task < end; task++) {
        const int64_t row = task / j->vectors, c = task % j->vectors * VF_LANES, o = row * j->columns + c;
        const int n = (int)min_i64(VF_LANES, j->columns - c);
        const int64_t base = offset_of(&j->kept, o);
        tree_vf tree = { .count = 0 };
        for (int64_t s = 0; s < j->terms;) {
            const int64_t stop = min_i64(s + SUM_BLOCK, j->terms);
            vf block = vf_zero();
            if (n == VF_LANES)
                for (; s < stop; s++)
                    block += vf_get(j->kept.data, T, base + offset_of(&j->summed, s));
            else
                for (; s < stop; s++)
                    block += vf_get_n(j->kept.data, T, base + offset_of(&j->summed, s), n);
            tree_vf_add(&tree, block);
        }
        vf_put_n(j->out, T, o, tree_vf_total(&tree), n);
    }
}

/* Terms that are contiguous: a run of them at a time. A task is an output. */
SIMD_FN void sum_runs(ls_dtype T, const sum_job *j, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const int64_t base = offset_of(&j->kept, o);
        tree_f32 tree = { .count = 0 };
        for (int64_t s = 0; s < j->terms;) {
            int64_t left, at = walk_at(&j->summed, s, &left) + base, k = 0;
            left = min_i64(left, SUM_RUN);
            vf s0 = vf_zero(), s1 = s0, s2 = s0, s3 = s0;
            for (; k + 4 * VF_LANES <= left; k += 4 * VF_LANES) {
                s0 += vf_get(j->kept.data, T, at + k);
                s1 += vf_get(j->kept.data, T, at + k + VF_LANES);
                s2 += vf_get(j->kept.data, T, at + k + 2 * VF_LANES);
                s3 += vf_get(j->kept.data, T, at + k + 3 * VF_LANES);
            }
            for (; k < left; k += VF_LANES)
                s0 += vf_get_n(j->kept.data, T, at + k, (int)min_i64(VF_LANES, left - k));
            tree_f32_add(&tree, vf_sum((s0 + s1) + (s2 + s3)));
            s += left;
        }
        f_put(j->out, T, o, tree_f32_total(&tree));
    }
}

static void columns_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sum_job *j = context;
    (void)worker;
    BY_FLOAT(j->t, sum_columns, j, begin, end);
}

static void runs_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sum_job *j = context;
    (void)worker;
    BY_FLOAT(j->t, sum_runs, j, begin, end);
}

/* The largest has no order that matters: NaN wins. */
SIMD_FN float larger(float x, float y) { return x != x || x > y ? x : y; }

SIMD_FN void max_columns(ls_dtype T, const sum_job *j, int64_t begin, int64_t end)
{
    for (int64_t task = begin; task < end; task++) {
        const int64_t row = task / j->vectors, c = task % j->vectors * VF_LANES, o = row * j->columns + c;
        const int n = (int)min_i64(VF_LANES, j->columns - c);
        const int64_t base = offset_of(&j->kept, o);
        vf all = vf_set1(-__builtin_inff());
        for (int64_t s = 0; s < j->terms; s++) {
            const vf x = vf_get_n(j->kept.data, T, base + offset_of(&j->summed, s), n);
            all = vf_select(vf_isnan(all), all, vf_max(all, x)); /* (of two with NaN, max gives the second) */
        }
        vf_put_n(j->out, T, o, all, n);
    }
}

SIMD_FN void max_runs(ls_dtype T, const sum_job *j, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const int64_t base = offset_of(&j->kept, o);
        vf lanes = vf_set1(-__builtin_inff());
        float all = -__builtin_inff(), lane[VF_LANES];
        for (int64_t s = 0; s < j->terms;) {
            int64_t left, at = walk_at(&j->summed, s, &left) + base, k = 0;
            for (; k + VF_LANES <= left; k += VF_LANES) {
                const vf x = vf_get(j->kept.data, T, at + k);
                lanes = vf_select(vf_isnan(lanes), lanes, vf_max(lanes, x));
            }
            for (; k < left; k++)
                all = larger(all, f_get(j->kept.data, T, at + k));
            s += left;
        }
        vf_store(lane, lanes);
        for (int k = 0; k < VF_LANES; k++)
            all = larger(all, lane[k]);
        f_put(j->out, T, o, all);
    }
}

static void max_columns_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sum_job *j = context;
    (void)worker;
    BY_FLOAT(j->t, max_columns, j, begin, end);
}

static void max_runs_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sum_job *j = context;
    (void)worker;
    BY_FLOAT(j->t, max_runs, j, begin, end);
}

/* Cuts the outputs into tasks: of runs where terms are contiguous, else of vectors of columns. */
static void sum_to_reduce(const ls_kernel_args *a, ls_range_fn runs, ls_range_fn columns)
{
    const ls_tensor *in = &a->in[0], *out = &a->out[0];
    const int shift = in->type.ndim - out->type.ndim;
    int64_t kd[LS_MAX_DIMS], ks[LS_MAX_DIMS], sd[LS_MAX_DIMS], ss[LS_MAX_DIMS];
    int nk = 0, ns = 0;
    for (int d = 0; d < in->type.ndim; d++) {
        const bool keep = d >= shift && out->type.dims[d - shift] == in->type.dims[d];
        if (keep) {
            kd[nk] = in->type.dims[d];
            ks[nk++] = in->strides[d];
        } else {
            sd[ns] = in->type.dims[d];
            ss[ns++] = in->strides[d];
        }
    }
    sum_job j = { .kept = walk_make(in->data, nk, kd, ks),
                  .summed = walk_make(in->data, ns, sd, ss),
                  .t = in->type.dtype,
                  .out = out->data };
    const int64_t outputs = count_of(out);
    j.terms = outputs ? count_of(in) / outputs : 0;
    if (j.summed.strides[j.summed.ndim - 1] == 1 && j.terms > 1) {
        ls_parallel_for(threads_for(a, outputs * j.terms), outputs, runs, &j);
    } else {
        j.columns = j.kept.dims[j.kept.ndim - 1];
        if (j.kept.strides[j.kept.ndim - 1] != 1)
            j.columns = 1;
        j.vectors = (j.columns + VF_LANES - 1) / VF_LANES;
        ls_parallel_for(threads_for(a, outputs * j.terms), outputs / j.columns * j.vectors, columns, &j);
    }
}

KERNEL(sum_to) { sum_to_reduce(a, runs_task, columns_task); }
KERNEL(max_to) { sum_to_reduce(a, max_runs_task, max_columns_task); }

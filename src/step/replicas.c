/* replicas.c - see replicas.h. Every rank makes a digest of its range of each tensor. Ranks first exchange
 * sums of them, one for each way in which axes of the mesh divide tensors: ranks whose places on these axes
 * are the same must have the same sum. Only if they have not, they exchange the digest of each tensor. */
#include "replicas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/element_digest.h"
#include "ckpt/pieces.h"
#include "comm/axes.h"
#include "comm/group_calls.h"
#include "state.h"
#include "trainer.h"

/* Sums that ranks exchange: these, then one for each set of axes, then one of the states that belong to no
 * parameter and are whole on every rank. */
enum { SUM_MODEL, SUM_OPTIMIZER, SUM_SETS, HOST_BYTES = 64, NAMED_RANKS = 8 };

typedef struct replicas {
    ls_trainer *t;
    const ls_mesh *mesh;
    ls_state_lists l;
    ls_pieces pieces;
    int64_t n;         /* tensors that ranks compare: parameters, moments, the other states */
    uint64_t *digests; /* [n] */
    int n_sums;
    uint64_t *sums; /* [n_sums] */
    int *first;     /* [ranks] room: the first rank that has a part */
} replicas;

/* Tensor i of those that are compared. */
static const ls_tensor_list *list_of(const replicas *r, int64_t *i)
{
    if (*i < r->l.sliced_model)
        return &r->l.model;
    *i -= r->l.sliced_model;
    return &r->l.optimizer;
}

static const char *tensor_name(const replicas *r, int64_t i)
{
    const ls_tensor_list *l = list_of(r, &i);
    return l->tensors[i].name;
}

/* The number of its sum: of the axes that divide it. */
static int sum_of(const replicas *r, int64_t i)
{
    const bool model = i < r->l.sliced_model;
    i -= model ? 0 : r->l.sliced_model;
    if (!model && i >= r->l.sliced_optimizer)
        return r->n_sums - 1;
    return SUM_SETS + (int)(model ? r->l.model_copies : r->l.optimizer_copies)[i].sharded_by;
}

/* Which part of the tensors of this sum a rank has: ranks with the same number have equal copies. */
static int64_t part_of(const replicas *r, int sum, int rank)
{
    const ls_sharding *s = &r->t->compiled.units.sharding;
    const char *pipeline = ls_mesh_axis(r->mesh, LS_ROLE_PIPELINE);
    const bool whole = sum == r->n_sums - 1;
    int64_t part = 0;
    for (int i = 0; i < r->mesh->n; i++) {
        const char *axis = r->mesh->axes[i].name;
        const bool divides = !strcmp(axis, pipeline) || (!whole && (((unsigned)(sum - SUM_SETS) >> i & 1) ||
                                                                    ls_mesh_group_has(s->shard, axis)));
        if (divides)
            part = part * r->mesh->axes[i].size + ls_mesh_position(r->mesh, rank, axis);
    }
    return part;
}

/* ---- digests */

/* Adds up this rank's range of tensor i. */
static ls_status add_range(replicas *r, const ls_tensor_list *l, int64_t i, uint64_t *sum)
{
    const ls_dtype type = l->tensors[i].tensor.type.dtype;
    const size_t size = ls_dtype_size(type);
    const uint64_t seed = ls_element_seed(l->tensors[i].name, type);
    const ls_range *range = &l->mine[i];
    for (int64_t k = 0, n; k < range->count; k += n) {
        const void *data;
        const int64_t first = ls_range_piece(range, k, &n);
        LS_TRY(ls_piece_get(&r->pieces, range, type, k, &n, &data));
        *sum += ls_element_digest(seed, data, size, first, n);
    }
    return LS_OK;
}

/* Of equal copies, the first counts for the digest of all values. */
static ls_status add_all(replicas *r)
{
    const bool first_rank = r->t->compiled.parallel.rank == 0;
    for (int64_t k = 0; k < r->n; k++) {
        int64_t i = k;
        const int sum = sum_of(r, k);
        const ls_tensor_list *l = list_of(r, &i);
        const bool model = l == &r->l.model;
        const bool counts = sum == r->n_sums - 1
                                ? first_rank
                                : (model ? r->l.model_copies : r->l.optimizer_copies)[i].copy == 0;
        LS_TRY(add_range(r, l, i, &r->digests[k]));
        r->sums[sum] += r->digests[k];
        r->sums[model ? SUM_MODEL : SUM_OPTIMIZER] += counts ? r->digests[k] : 0;
    }
    for (int64_t i = r->l.sliced_model; i < r->l.model.n && first_rank; i++) /* buffers */
        LS_TRY(add_range(r, &r->l.model, i, &r->sums[SUM_MODEL]));
    return LS_OK;
}

static ls_status replicas_begin(replicas *r, ls_trainer *t)
{
    *r = (replicas){ .t = t, .mesh = &t->compiled.parallel.mesh };
    LS_TRY(ls_trainer_lists(&r->l, t));
    r->n = r->l.sliced_model + r->l.optimizer.n;
    r->n_sums = SUM_SETS + (1 << r->mesh->n) + 1;
    r->digests = ls_sys_calloc((size_t)r->n + 1, sizeof *r->digests);
    r->sums = ls_sys_calloc((size_t)r->n_sums, sizeof *r->sums);
    r->first = ls_sys_calloc(t->group ? (size_t)ls_group_size(t->group) : 1, sizeof *r->first);
    LS_TRY(ls_sys_have(r->digests && r->sums ? r->first : NULL));
    return ls_pieces_open(&r->pieces, NULL);
}

static void replicas_end(replicas *r)
{
    (void)ls_pieces_close(&r->pieces, LS_OK); /* (nothing was put) */
    ls_state_lists_release(&r->l);
    free(r->digests);
    free(r->sums);
    free(r->first);
}

/* ---- what differs */

/* A rank whose number is not that of the first rank with the same part of this sum; -1: there is none. Rank
 * q's number is all[q * stride]. */
static int unequal(const replicas *r, int sum, const uint64_t *all, int64_t stride, int ranks)
{
    int *first = r->first;
    for (int q = 0; q < ranks; q++)
        first[q] = -1;
    for (int q = 0; q < ranks; q++) {
        const int64_t part = part_of(r, sum, q); /* (there are no more parts than ranks) */
        if (first[part] < 0)
            first[part] = q;
        else if (all[first[part] * stride] != all[q * stride])
            return q;
    }
    return -1;
}

static bool all_agree(const replicas *r, const uint64_t *all, int ranks)
{
    bool agree = true;
    for (int s = SUM_SETS; s < r->n_sums && agree; s++)
        agree = unequal(r, s, all + s, r->n_sums, ranks) < 0;
    return agree;
}

/* "rank 1 (host b)", "ranks 0, 2 and 3": those of the n ranks of which `wanted` is true. */
static void list_ranks(ls_str *out, const int *ranks, const bool *wanted, int n, const char *hosts)
{
    int count = 0, said = 0;
    for (int k = 0; k < n; k++)
        count += wanted[k];
    ls_str_add(out, count == 1 ? "rank " : "ranks ");
    for (int k = 0; k < n && said < NAMED_RANKS; k++) {
        if (!wanted[k])
            continue;
        const char *between = !said ? "" : said + 1 == count ? " and " : ", ";
        ls_str_printf(out, "%s%d", between, ranks[k]);
        if (hosts)
            ls_str_printf(out, " (host %s)", hosts + (size_t)ranks[k] * HOST_BYTES);
        said++;
    }
    if (count > said)
        ls_str_printf(out, " and %d more", count - said);
}

/* The ranks that have the part of tensor i that `like` has, and which of them are in the minority; without a
 * majority, all are. *n: their number. Returns whether there is a majority. */
static bool divide(const replicas *r, int64_t i, const uint64_t *all, int ranks, int like, int *of, bool *odd,
                   int *n)
{
    const int sum = sum_of(r, i);
    uint64_t most = 0;
    int most_count = 0;
    *n = 0;
    for (int rank = 0; rank < ranks; rank++)
        if (part_of(r, sum, rank) == part_of(r, sum, like))
            of[(*n)++] = rank;
    for (int k = 0; k < *n; k++) {
        int count = 0;
        for (int m = 0; m < *n; m++)
            count += all[of[m] * r->n + i] == all[of[k] * r->n + i];
        if (count > most_count) {
            most_count = count;
            most = all[of[k] * r->n + i];
        }
    }
    const bool majority = 2 * most_count > *n;
    for (int k = 0; k < *n; k++)
        odd[k] = !majority || all[of[k] * r->n + i] != most;
    return majority;
}

static ls_status replicas_say(const replicas *r, const uint64_t *all, int ranks, const char *hosts,
                              ls_replicas *out)
{
    int64_t first = -1, tensors = 0;
    int like = 0, n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const int rank = unequal(r, sum_of(r, i), all + i, r->n, ranks);
        tensors += rank >= 0;
        if (rank >= 0 && first < 0) {
            first = i;
            like = rank;
        }
    }
    int *of = ls_sys_malloc(sizeof *of * (size_t)ranks);
    bool *odd = ls_sys_malloc(sizeof *odd * (size_t)ranks);
    ls_status s = ls_sys_have(of && odd && first >= 0 ? of : NULL);
    ls_str text = { 0 };
    if (s == LS_OK) {
        const bool majority = divide(r, first, all, ranks, like, of, odd, &n);
        const char *name = tensor_name(r, first);
        for (int k = n - 1; k >= 0; k--)
            out->reporter = odd[k] ? of[k] : out->reporter;
        ls_str_printf(&text, majority ? "the copy of %s on " : "the copies of %s on ", name);
        list_ranks(&text, of, odd, n, hosts);
        for (int k = 0; k < n; k++)
            odd[k] = !odd[k];
        if (majority) {
            ls_str_add(&text, " is not that of ");
            list_ranks(&text, of, odd, n, NULL);
        } else {
            ls_str_printf(&text, " differ, and no majority of %d copies says which is right", n);
        }
        if (tensors > 1)
            ls_str_printf(&text, " (%lld tensors differ in all)", (long long)tensors);
        s = ls_str_status(&text);
        snprintf(out->what, sizeof out->what, "%s", ls_str_text(&text));
    }
    ls_str_release(&text);
    free(of);
    free(odd);
    return s;
}

static ls_status find(replicas *r, ls_replicas *out)
{
    ls_group *g = r->t->group;
    char host[HOST_BYTES] = "", *hosts = NULL;
    uint64_t *all = NULL;
    out->differ = true;
    gethostname(host, sizeof host - 1);
    ls_status s = ls_group_all_gather_new(g, r->digests, sizeof *r->digests * (size_t)r->n, (void **)&all);
    if (s == LS_OK)
        s = ls_group_all_gather_new(g, host, sizeof host, (void **)&hosts);
    if (s == LS_OK)
        s = replicas_say(r, all, ls_group_size(g), hosts, out);
    free(all);
    free(hosts);
    return s;
}

static ls_status replicas_compare(replicas *r, ls_replicas *out)
{
    ls_group *g = r->t->group;
    out->model = r->sums[SUM_MODEL];
    out->optimizer = r->sums[SUM_OPTIMIZER];
    if (!g)
        return LS_OK;
    const int ranks = ls_group_size(g);
    uint64_t *all;
    LS_TRY(ls_group_all_gather_new(g, r->sums, sizeof *r->sums * (size_t)r->n_sums, (void **)&all));
    out->model = out->optimizer = 0;
    for (int q = 0; q < ranks; q++) {
        out->model += all[q * r->n_sums + SUM_MODEL];
        out->optimizer += all[q * r->n_sums + SUM_OPTIMIZER];
    }
    const bool agree = all_agree(r, all, ranks);
    free(all);
    return agree ? LS_OK : find(r, out);
}

ls_status ls_trainer_compare_replicas(ls_trainer *t, ls_replicas *out)
{
    LS_TRAINER_USE(t);
    replicas r;
    *out = (ls_replicas){ .model = 0 };
    ls_status s = replicas_begin(&r, t);
    if (s == LS_OK)
        s = add_all(&r);
    s = ls_checkpoint_together(t->group, s);
    if (s == LS_OK)
        s = replicas_compare(&r, out);
    replicas_end(&r);
    return s;
}

/* ---- what it costs */

ls_status ls_replicas_cost(int64_t *bytes, int *copies, const ls_compiled *c)
{
    ls_state_lists l;
    *bytes = 0;
    *copies = 1;
    LS_TRY(ls_state_lists_make(&l, c, NULL));
    for (int64_t i = 0; i < l.model.n; i++)
        *bytes += (int64_t)ls_state_range_bytes(&l.model, i);
    for (int64_t i = 0; i < l.optimizer.n; i++)
        *bytes += (int64_t)ls_state_range_bytes(&l.optimizer, i);
    for (int64_t i = 0; i < l.sliced_model; i++)
        *copies = l.model_copies[i].copies > *copies ? l.model_copies[i].copies : *copies;
    ls_state_lists_release(&l);
    return LS_OK;
}

double ls_replicas_speed(void)
{
    enum { PIECE = LS_PIECES_READ / sizeof(float), PIECES = 64, TIMES = 3 };
    float *x = ls_sys_malloc(sizeof *x * PIECE * (PIECES + 1)), *piece = x ? x + PIECE * PIECES : NULL;
    volatile uint64_t kept = 0;
    double best = 0;
    for (size_t i = 0; x && i < (size_t)PIECE * PIECES; i++)
        x[i] = (float)i;
    for (int i = 0; x && i < TIMES; i++) {
        const double began = ls_now();
        for (size_t k = 0; k < PIECES; k++) {
            memcpy(piece, x + k * PIECE, LS_PIECES_READ);
            kept += ls_element_digest((uint64_t)i, piece, sizeof *piece, 0, PIECE);
        }
        best = fmax(best, (double)(LS_PIECES_READ * PIECES) / (ls_now() - began));
    }
    (void)kept;
    free(x);
    return best;
}

/* ---- a fault on purpose */

ls_status ls_trainer_flip(ls_trainer *t, uint64_t which)
{
    LS_TRAINER_USE(t);
    ls_state_lists l;
    uint8_t element[16];
    ls_status s = ls_trainer_lists(&l, t);
    LS_TRY(s);
    int64_t i = (int64_t)(which % (uint64_t)l.sliced_model);
    for (int64_t k = 0; k < l.sliced_model && l.model.mine[i].count == 0; k++)
        i = (i + 1) % l.sliced_model; /* this rank has nothing of it */
    const ls_range *r = &l.model.mine[i];
    if (r->count > 0) {
        const ls_type one = LS_TYPE(l.model.tensors[i].tensor.type.dtype, 1);
        const size_t size = ls_dtype_size(one.dtype);
        const ls_place p = ls_place_part(&r->place, r->count / 2, &one);
        s = ls_session_read(&p, element, size);
        element[size / 2] ^= 4;
        if (s == LS_OK)
            s = ls_session_put(&p, element, size);
        if (s == LS_OK)
            s = ls_session_wait(t->session);
    }
    ls_state_lists_release(&l);
    return s;
}

/* test_pieces.c - tensors in a session's memory are saved, loaded and copied as those in host memory are,
 * whatever their sizes are beside the piece's; a device that fails fails the save. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "ckpt/elements.h"
#include "ckpt/pieces.h"
#include "execute/internal.h"
#include "lockstep/graph.h"
#include "support/ranks.h"
#include "support/support.h"

enum { TENSORS = 6, PIECE = 8 << 20 /* bytes of a checksum's, and whole ones of others */ };
static const char *const NAMES[TENSORS] = { "below", "full", "above", "half", "columns", "one" };
/* A rank has a run of elements of each, or columns of "columns": rows of it are not part of a piece. */
static const ls_type TYPES[TENSORS] = { { .dtype = LS_F32, .ndim = 1, .dims = { PIECE / 4 - 1 } },
                                        { .dtype = LS_F32, .ndim = 1, .dims = { PIECE / 4 } },
                                        { .dtype = LS_F32, .ndim = 1, .dims = { PIECE / 4 + 1 } },
                                        { .dtype = LS_BF16, .ndim = 1, .dims = { PIECE + 3 } },
                                        { .dtype = LS_F64, .ndim = 2, .dims = { 1500, 1502 } },
                                        { .dtype = LS_I64, .ndim = 0 } };

/* Element e of a tensor: a number that every float type has. */
static void set(void *data, ls_dtype d, int64_t at, int64_t e)
{
    const int64_t number = e % 251 - 77;
    const float f = (float)number;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (d == LS_BF16)
        ((uint16_t *)data)[at] = (uint16_t)(bits >> 16);
    else if (d == LS_F32)
        ((float *)data)[at] = f;
    else if (d == LS_F64)
        ((double *)data)[at] = (double)number;
    else
        ((int64_t *)data)[at] = number;
}

/* What a rank has, in a session's memory and in the host's. */
typedef struct part {
    ls_graph *graph;
    ls_plan *plan;
    ls_session *session;
    ls_box box;
    ls_named_tensor tensors[TENSORS];
    ls_range here[TENSORS], host[TENSORS];
    char *data[TENSORS];
} part;

static void drop(part *p)
{
    ls_session_destroy(&p->session);
    ls_plan_destroy(&p->plan);
    ls_graph_destroy(&p->graph);
    for (int i = 0; i < TENSORS; i++)
        free(p->data[i]);
}

static ls_status make_session(part *p)
{
    ls_device d;
    ls_type spares[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        spares[i] = LS_TYPE(p->tensors[i].tensor.type.dtype, p->here[i].count);
    LS_TRY(ls_device_open(&d, NULL, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    LS_TRY(ls_graph_create(&p->graph, "pieces"));
    ls_output(p->graph, "y", ls_relu(p->graph, ls_input(p->graph, "x", LS_TYPE(LS_F32, 8))));
    LS_TRY(ls_graph_finish(p->graph));
    LS_TRY(ls_plan_create(&p->plan, p->graph, &d, NULL));
    LS_TRY(ls_session_create(&p->session, 1, &p->plan,
                             &(ls_session_opts){ .n_spares = TENSORS, .spares = spares }));
    for (int i = 0; i < TENSORS; i++)
        p->here[i].place = ls_session_spare(p->session, i);
    return LS_OK;
}

/* Makes rank `rank` of `ranks`; its floats have the type `floats` if that is one. */
static ls_status make(part *p, int rank, int ranks, ls_dtype floats)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < TENSORS; i++) {
        ls_type type = TYPES[i];
        const int64_t all = ls_type_count(&type);
        type.dtype = ls_dtype_is_float(floats) && ls_dtype_is_float(type.dtype) ? floats : type.dtype;
        p->tensors[i] = (ls_named_tensor){ NAMES[i], ls_tensor_of(NULL, &type) };
        ls_range *r = &p->here[i];
        r->first = all * rank / ranks;
        r->count = all * (rank + 1) / ranks - r->first;
        if (type.ndim == 2) {
            p->box = ls_box_of(&type);
            ls_box_slice(&p->box, 1, type.dims[1] * rank / ranks, type.dims[1] / ranks);
            *r = (ls_range){ .count = ls_box_count(&p->box), .box = &p->box };
        }
        p->host[i] = *r;
        p->host[i].data = p->data[i] = calloc((size_t)r->count + 1, ls_dtype_size(type.dtype));
    }
    return make_session(p);
}

static void fill(part *p)
{
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0, n; k < p->host[i].count; k += n) {
            const int64_t first = ls_range_piece(&p->host[i], k, &n);
            for (int64_t e = 0; e < n; e++)
                set(p->data[i], p->tensors[i].tensor.type.dtype, k + e, first + e);
        }
}

static ls_status put(const part *p)
{
    for (int i = 0; i < TENSORS; i++)
        LS_TRY(ls_session_write(&p->here[i].place, p->data[i], ls_type_bytes(&p->here[i].place.type)));
    return LS_OK;
}

/* Whether the session has what the host has. */
static ls_status same(const part *p)
{
    for (int i = 0; i < TENSORS; i++) {
        const size_t bytes = ls_type_bytes(&p->here[i].place.type);
        char *got = malloc(bytes + 1);
        ls_status s = ls_session_read(&p->here[i].place, got, bytes);
        size_t at = 0;
        while (s == LS_OK && at < bytes && got[at] == p->data[i][at])
            at++;
        free(got);
        if (s != LS_OK || at < bytes)
            return ls_fail(LS_E_INTERNAL, "\"%s\" differs at byte %zu of %zu", NAMES[i], at, bytes);
    }
    return LS_OK;
}

static ls_tensor_list list(const part *p, const ls_range *mine)
{
    return (ls_tensor_list){ TENSORS, p->tensors, mine, TENSORS, TENSORS };
}

static ls_status save(const part *p, const ls_range *mine, const char *dir, ls_group *g, bool per_rank)
{
    return ls_checkpoint_save(
        dir,
        &(ls_checkpoint_contents){
            .config = "{}", .trainer = "{}", .model = list(p, mine), .per_rank = per_rank, .replace = true },
        g, NULL);
}

static ls_status load(const part *p, const char *dir, ls_group *g, ls_verify how)
{
    ls_checkpoint c;
    const ls_tensor_list l = list(p, p->here);
    LS_TRY(ls_checkpoint_open(&c, dir, how, g));
    const ls_status s = ls_ranges_load(c.weights, &l,
                                       &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .convert = true });
    ls_checkpoint_release(&c);
    return s;
}

typedef struct job {
    const char *host, *here;
    bool per_rank;
    ls_verify how;
    ls_dtype floats; /* of what is loaded */
} job;

static ls_status both_ways(const job *j, ls_group *g, part *p, int rank, int ranks)
{
    LS_TRY(make(p, rank, ranks, LS_I64));
    fill(p);
    LS_TRY(put(p));
    LS_TRY(save(p, p->host, j->host, g, j->per_rank));
    LS_TRY(save(p, p->here, j->here, g, j->per_rank));
    drop(p);
    LS_TRY(make(p, rank, ranks, j->floats));
    fill(p);
    LS_TRY(load(p, j->here, g, j->how));
    return same(p);
}

static ls_status run(ls_group *g, void *context)
{
    part p;
    const ls_status s = both_ways(context, g, &p, g ? ls_group_rank(g) : 0, g ? ls_group_size(g) : 1);
    drop(&p);
    return s;
}

static void saved_and_loaded(void **state)
{
    (void)state;
    static const char *const WHOLE[] = { "model.safetensors", "manifest.json" }, *const PARTS[] = {
        "model-rank-00000.safetensors", "model-rank-00001.safetensors", "manifest.json"
    };
    static const ls_dtype FLOATS[] = { LS_I64, LS_F32, LS_F64, LS_I64 };
    char host[512], here[512];
    snprintf(host, sizeof host, "%s", ls_test_path("host/c"));
    snprintf(here, sizeof here, "%s", ls_test_path("here/c"));
    for (int k = 0; k < 4; k++) {
        const bool several = k % 2, per_rank = k == 3;
        job j = { host, here, per_rank, k < 2 ? LS_VERIFY_LOADED : LS_VERIFY_SIZES, FLOATS[k] };
        ASSERT_OK(several ? run_ranks(2, run, &j) : run(NULL, &j));
        for (int f = 0; f < (per_rank ? 3 : 2); f++)
            ls_test_same_file(host, here, per_rank ? PARTS[f] : WHOLE[f]);
    }
}

/* One file of whole tensors; copies from one session to another that has another type. */
static void weights_are_saved_and_copied(void **state)
{
    (void)state;
    part p, q;
    char host[512];
    ls_named_tensor whole[TENSORS];
    ASSERT_OK(make(&p, 0, 1, LS_I64));
    ASSERT_OK(make(&q, 0, 1, LS_F32));
    fill(&p);
    fill(&q);
    ASSERT_OK(put(&p));
    for (int i = 0; i < TENSORS; i++)
        whole[i] = (ls_named_tensor){ NAMES[i], ls_tensor_of(p.data[i], &TYPES[i]) };
    snprintf(host, sizeof host, "%s", ls_test_dir());
    const ls_tensor_list from = list(&p, p.here), to = list(&q, q.here);
    ASSERT_OK(ls_weights_save(ls_test_path("host/model.safetensors"), TENSORS, whole));
    ASSERT_OK(ls_tensors_save(ls_test_path("here/model.safetensors"), &from));
    ls_test_same_file(ls_test_path("host"), ls_test_path("here"), "model.safetensors");
    ASSERT_OK(ls_tensors_copy(&to, &from));
    ASSERT_OK(same(&q));
    drop(&p);
    drop(&q);
}

/* The number of the first bad element does not begin again with a piece. */
static void bad_numbers_are_found_in_later_pieces(void **state)
{
    (void)state;
    part p;
    ASSERT_OK(make(&p, 0, 1, LS_I64));
    fill(&p);
    ((double *)p.data[4])[PIECE / 8 + 5] = NAN;
    ASSERT_OK(put(&p));
    ASSERT_FAILS(save(&p, p.here, ls_test_path("nan"), NULL, false), LS_E_NUMERIC, "\"columns\"",
                 "element 1048581 of 2253000");
    drop(&p);
}

static ls_status broken(void *context)
{
    (void)context;
    return ls_fail(LS_E_IO, "the device is on fire");
}

static void break_device(const part *p) { p->session->ops->host(p->session->queue, broken, NULL); }

/* What the device does not give is not saved, and what was saved before is whole. */
static void a_failing_device_fails_the_save(void **state)
{
    (void)state;
    part p, q;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("fire/c"));
    ASSERT_OK(make(&p, 0, 1, LS_I64));
    ASSERT_OK(make(&q, 0, 1, LS_I64));
    fill(&p);
    ASSERT_OK(put(&p));
    ASSERT_OK(save(&p, p.here, dir, NULL, false));
    break_device(&p);
    ASSERT_FAILS(save(&p, p.here, dir, NULL, false), LS_E_IO, "saving checkpoint", "the device is on fire");
    assert_int_equal(ls_test_count(ls_test_path("fire")), 1);
    break_device(&q);
    ASSERT_FAILS(load(&q, dir, NULL, LS_VERIFY_LOADED), LS_E_IO, "the device is on fire");
    const ls_tensor_list from = list(&p, p.here), to = list(&q, q.here);
    break_device(&p);
    ASSERT_FAILS(ls_tensors_save(ls_test_path("fire/model.safetensors"), &from), LS_E_IO, "on fire");
    break_device(&q);
    ASSERT_FAILS(ls_tensors_copy(&to, &from), LS_E_IO, "on fire");
    assert_int_equal(ls_test_count(ls_test_path("fire")), 1);
    ASSERT_OK(load(&q, dir, NULL, LS_VERIFY_FULL));
    fill(&q);
    ASSERT_OK(same(&q));
    drop(&p);
    drop(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_and_loaded),
        cmocka_unit_test(weights_are_saved_and_copied),
        cmocka_unit_test(bad_numbers_are_found_in_later_pieces),
        cmocka_unit_test(a_failing_device_fails_the_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

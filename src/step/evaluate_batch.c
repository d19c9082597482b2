/* evaluate_batch.c - evaluates a batch of the caller's, and gives him the results row by row. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "comm/axes.h"
#include "comm/group_calls.h"
#include "trainer.h"

enum { RESULTS = 3 }; /* losses, predicted classes, probabilities */

static size_t loss_bytes(const ls_trainer *t)
{
    return sizeof(float) * (size_t)ls_type_count(&t->rows[0].type);
}

ls_status ls_trainer_put_real(ls_trainer *t, int64_t real)
{
    t->eval_real = (int32_t)real;
    return ls_place_present(&t->real[0]) ? ls_session_put(&t->real[0], &t->eval_real, sizeof t->eval_real)
                                         : LS_OK;
}

/* Fetches the results that are asked for, and waits. */
static ls_status fetch(const ls_trainer *t, void *const to[RESULTS])
{
    const ls_place *rows = &t->rows[0];
    float *loss = to[0];
    double *wide = NULL;
    ls_status s = LS_OK;
    if (loss && rows->type.dtype == LS_F64)
        s = ls_sys_have(wide = ls_sys_malloc(ls_type_bytes(&rows->type)));
    if (s == LS_OK && loss)
        s = ls_session_fetch(rows, wide ? (void *)wide : loss, ls_type_bytes(&rows->type));
    if (s == LS_OK && to[1])
        s = ls_session_fetch(&t->eval_predicted, to[1], ls_type_bytes(&t->eval_predicted.type));
    if (s == LS_OK && to[2])
        s = ls_session_fetch(&t->eval_probability, to[2], ls_type_bytes(&t->eval_probability.type));
    if (s == LS_OK)
        s = ls_session_wait(t->session);
    for (int64_t i = 0; wide && s == LS_OK && i < ls_type_count(&rows->type); i++)
        loss[i] = (float)wide[i];
    free(wide);
    return s;
}

/* The rank that has the results of this rank's samples. */
static int with_results(const ls_mesh *m, int rank)
{
    int r = 0;
    while (!ls_mesh_has_results(m, r) || ls_mesh_data_rank(m, r) != ls_mesh_data_rank(m, rank))
        r++;
    return r;
}

/* The same in a pipeline, where only ranks of the last stage have results: they send them to all. */
static ls_status fetch_from_others(const ls_trainer *t, void *const to[RESULTS])
{
    const int ranks = ls_group_size(t->group),
              from = with_results(&t->compiled.parallel.mesh, ls_group_rank(t->group));
    size_t mine[RESULTS] = { 0 }, *sizes = NULL, most = 0;
    if (ls_trainer_has_results(t)) {
        mine[0] = loss_bytes(t);
        mine[1] = ls_place_present(&t->eval_predicted) ? ls_type_bytes(&t->eval_predicted.type) : 0;
        mine[2] = ls_place_present(&t->eval_probability) ? ls_type_bytes(&t->eval_probability.type) : 0;
    }
    LS_TRY(ls_session_wait(t->session));
    LS_TRY(ls_group_all_gather_new(t->group, mine, sizeof mine, (void **)&sizes));
    for (int r = 0; r < ranks; r++) {
        const size_t n = sizes[RESULTS * r] + sizes[RESULTS * r + 1] + sizes[RESULTS * r + 2];
        most = n > most ? n : most;
    }
    memcpy(mine, sizes + RESULTS * from, sizeof mine);
    free(sizes);
    char *all = NULL, *own = ls_sys_calloc(most, 1);
    ls_status s = ls_checkpoint_together(t->group, ls_sys_have(own));
    if (s == LS_OK && ls_trainer_has_results(t))
        s = fetch(t, (void *[RESULTS]){ own, mine[1] ? own + mine[0] : NULL,
                                        mine[2] ? own + mine[0] + mine[1] : NULL });
    if (s == LS_OK)
        s = ls_group_all_gather_new(t->group, own, most, (void **)&all);
    const char *at = all ? all + (size_t)from * most : NULL;
    for (int i = 0; i < RESULTS && s == LS_OK; at += mine[i++])
        if (to[i])
            memcpy(to[i], at, mine[i]);
    free(all);
    free(own);
    return s;
}

ls_status ls_trainer_eval(ls_trainer *t, const void *inputs, const int32_t *targets, float *loss,
                          int32_t *predicted, float *probability)
{
    LS_ARG(t);
    LS_ARG(inputs);
    LS_ARG(targets);
    LS_TRAINER_USE(t);
    const bool pipeline = t->compiled.units.sharding.stages > 1;
    if (probability && !ls_place_present(&t->eval_probability) && !pipeline)
        return ls_fail(LS_E_ARG, "a language model's evaluation gives no probabilities");
    if (predicted && !ls_place_present(&t->eval_predicted) && !pipeline)
        return ls_fail(LS_E_ARG, "the model has no output \"logits\", so it predicts no classes");
    LS_TRY(ls_trainer_feed_pair(t, inputs, targets, -1, "ls_trainer_eval"));
    LS_TRY(ls_trainer_put_real(t, t->compiled.eval_batch));
    LS_TRY(ls_trainer_eval_fed(t));
    void *const to[RESULTS] = { loss, predicted, probability };
    return pipeline ? fetch_from_others(t, to) : fetch(t, to);
}

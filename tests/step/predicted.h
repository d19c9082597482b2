/* predicted.h - helpers of the tests of predictors: the small ViT's logits, and a model with fields of its
 * own. */
#pragma once
#include "lockstep/nn.h"
#include "lockstep/predictor.h"
#include "step/images.h"

enum { CLASSES = 5 };

static inline ls_tensor rows_of(const void *data, ls_type type)
{
    return ls_tensor_of((void *)(uintptr_t)data, &type);
}

static inline ls_status predict(ls_predictor *p, int first, int n, const char *output, ls_type type, void *to)
{
    const ls_tensor in = rows_of(images + first * PIXELS, LS_TYPE(LS_U8, n, 1, 8, 8)),
                    out = rows_of(to, type);
    LS_TRY(ls_predictor_put(p, "images", &in));
    LS_TRY(ls_predictor_run(p, n));
    return ls_predictor_get(p, output, &out);
}

static inline ls_status logits(ls_predictor *p, int first, int n, float *to)
{
    return predict(p, first, n, "logits", LS_TYPE(LS_F32, n, CLASSES), to);
}

enum { IN = 3, OUT = 2 };

static inline ls_status build_own(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT)),
             id = ls_input(g, "id", LS_TYPE(LS_I32, batch));
    ls_value t = ls_linear(g, "fc", ls_tanh(g, x), OUT);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, t, y)), 1, LS_BY_ELEMENT, NULL);
    ls_output(g, "y", t); /* named as the target is, and as a parameter */
    ls_output(g, "fc.weight", ls_reshape(g, ls_mul_const(g, t, 2), 2 * batch, 1));
    ls_output(g, "x", x);
    ls_output(g, "id", id);
    ls_output(g, "error", ls_sub(g, t, y));
    return ls_graph_finish(g);
}

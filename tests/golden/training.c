/* training.c - see training.h. */
#include "golden/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lockstep/data.h"
#include "support/small_vit.h"
#include "support/values.h"
#include "support/levels.h"

const ls_vit_config training_vit = { TUTORIAL_VIT };
const ls_mlp_config training_mlp = { .image_size = 4,
                                     .in_channels = 1,
                                     .classes = 5,
                                     .n_hidden = 2,
                                     .hidden = { 12, 9 },
                                     .act = LS_MLP_ACT_GELU,
                                     .mean = 0.5,
                                     .std = 0.5 };
const ls_resnet_config training_resnet = {
    .depth = 18, .image_size = 16, .in_channels = 1, .classes = 10, .mean = 0.5, .std = 0.5
};

ls_status training_build_vit(ls_graph *g, const void *config, int64_t batch)
{
    return ls_vit_build(g, config, batch);
}

ls_status training_build_mlp(ls_graph *g, const void *config, int64_t batch)
{
    return ls_mlp_build(g, config, batch);
}

ls_status training_build_resnet(ls_graph *g, const void *config, int64_t batch)
{
    return ls_resnet_build(g, config, batch);
}

training_data training_data_of(const ls_weights *golden)
{
    const ls_weight *images = golden_get(golden, "images");
    training_data d = { .n = images->type.dims[0], .size = (int)images->type.dims[3] };
    d.images = golden_values_as(images, LS_U8);
    d.labels = golden_values_as(golden_get(golden, "labels"), LS_I32);
    return d;
}

training_data training_data_fashion_mnist(const char *folder, int64_t n)
{
    ls_dataset *set;
    ASSERT_OK(ls_dataset_open(&set, "fashion-mnist", LS_SPLIT_TRAIN, .path = folder, .download = false,
                              .fallback = false));
    training_data d = { .n = n,
                        .size = (int)set->fields[0].type.dims[1],
                        .images = malloc((size_t)n * 28 * 28),
                        .labels = malloc(sizeof(int32_t) * (size_t)n) };
    for (int64_t i = 0; i < n; i++)
        ASSERT_OK(set->read(set, i, (void *const[]){ d.images + i * 28 * 28, &d.labels[i] }));
    ls_dataset_close(&set);
    return d;
}

void training_data_release(training_data *d)
{
    free(d->images);
    free(d->labels);
    *d = (training_data){ 0 };
}

ls_trainer *training_start(ls_build_fn build, const void *config, const ls_trainer_opts *o)
{
    ls_trainer *t = NULL;
    ls_trainer_opts own = *o;
    if (!o->device && training_elsewhere())
        own.isa = NULL; /* no level of the CPU */
    ASSERT_OK(ls_trainer_create_with(&t, build, config, &own));
    ASSERT_OK(ls_trainer_init(t, 0));
    ls_named_tensor p[256];
    int n = training_parameters(t, p, 256);
    assert_in_range(n, 1, 256);
    for (int i = 0; i < n; i++)
        golden_parameter(p[i].name, &p[i].tensor.type, p[i].tensor.data);
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
    return t;
}

const char *training_describe(const ls_trainer_opts *o)
{
    static char text[160];
    snprintf(text, sizeof text, "%s %s %s, %d threads, %d micro-batches of %d%s",
             o->device ? o->device : "auto", o->isa ? o->isa : "", ls_dtype_name(o->param), o->threads,
             (int)o->micro_batches, (int)o->micro_batch, o->recompute ? ", recompute" : "");
    return text;
}

void training_steps(ls_trainer *t, const training_data *d, int64_t batch, int first, int n, double lr,
                    double *losses)
{
    int64_t m_count = t->compiled.micro_batches, rows = t->compiled.micro_batch;
    size_t pixels = (size_t)d->size * (size_t)d->size;
    assert_int_equal(m_count * rows, batch);
    uint8_t *images = malloc(pixels * (size_t)batch);
    int32_t *labels = malloc(sizeof *labels * (size_t)batch);
    for (int k = 0; k < n; k++) {
        for (int64_t m = 0; m < m_count; m++)
            for (int64_t r = 0; r < rows; r++) {
                int64_t from = (first + k) * batch + r * m_count + m, to = m * rows + r;
                assert_true(from < d->n);
                memcpy(images + pixels * (size_t)to, d->images + pixels * (size_t)from, pixels);
                labels[to] = d->labels[from];
            }
        ls_step_result result;
        ASSERT_OK(ls_trainer_step(t, images, labels, batch, lr, &result));
        losses[k] = result.loss;
    }
    free(images);
    free(labels);
}

/* Gives the first `n` of a list copies of their values. */
static bool get_all(ls_trainer *t, ls_named_tensor *p, int n)
{
    for (int i = 0; i < n; i++) {
        p[i].tensor.data = malloc(ls_type_bytes(&p[i].tensor.type) + 1);
        if (!p[i].tensor.data || ls_trainer_get(t, p[i].name, &p[i].tensor) != LS_OK) {
            training_release(p, i + 1);
            return false;
        }
    }
    return true;
}

int training_parameters(ls_trainer *t, ls_named_tensor *out, int max)
{
    const int n = ls_trainer_parameters(t, out, max);
    return get_all(t, out, n < max ? n : max) ? n : -1;
}

int training_buffers(ls_trainer *t, ls_named_tensor *out, int max)
{
    const int n = ls_trainer_buffers(t, out, max);
    return get_all(t, out, n < max ? n : max) ? n : -1;
}

ls_status training_set(ls_trainer *t, const ls_named_tensor *p, int n)
{
    for (int i = 0; i < n; i++)
        LS_TRY(ls_trainer_set(t, p[i].name, &p[i].tensor));
    return LS_OK;
}

void training_release(ls_named_tensor *p, int n)
{
    for (int i = 0; i < n; i++) {
        free(p[i].tensor.data);
        p[i].tensor.data = NULL;
    }
}

ls_named_tensor training_gradient(const ls_trainer *t, int i)
{
    const ls_slot *s = &t->compiled.units.slots[i];
    const ls_place part = ls_place_part(&t->grads[0], s->offset, &s->type);
    return (ls_named_tensor){ s->name, ls_tensor_of(place_copy(&part), &s->type) };
}

void training_expect_losses(const char *what, const double *losses, int n, const ls_weight *want,
                            double absolute)
{
    double *expected = golden_values(want);
    assert_true(n <= golden_count(want));
    for (int k = 0; k < n; k++)
        if (!(fabs(losses[k] - expected[k]) <= absolute))
            fail_msg("%s: loss of step %d is %.17g, PyTorch has %.17g: off by %.3g, allowed %.3g", what,
                     k + 1, losses[k], expected[k], fabs(losses[k] - expected[k]), absolute);
    free(expected);
}

bool training_elsewhere(void)
{
    const char *device = getenv("LOCKSTEP_DEVICE");
    return device && *device && strcmp(ls_device_bits(device), "cpu") != 0;
}

int training_levels(ls_isa levels[LS_ISA_COUNT])
{
    if (training_elsewhere()) {
        levels[0] = LS_ISA_GENERIC;
        return 1;
    }
    int n = 0;
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
        levels[n++] = (ls_isa)isa;
    return n;
}

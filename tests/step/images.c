/* images.c - see images.h. */
#include "step/images.h"
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "lockstep/nn.h"
#include "step/state.h"

uint8_t images[SAMPLES * PIXELS];
int32_t labels[SAMPLES];

int make_images(void **state)
{
    (void)state;
    draw_stripes(SAMPLES, images, labels);
    return 0;
}

void wake_head(ls_trainer *t)
{
    ls_named_tensor p[64];
    int n = training_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, "heads.head.weight"))
            for (int64_t k = 0; k < ls_type_count(&p[i].tensor.type); k++) {
                double x = 0.2 * sin((double)k + 1);
                if (p[i].tensor.type.dtype == LS_F64)
                    ((double *)p[i].tensor.data)[k] = x;
                else
                    ((float *)p[i].tensor.data)[k] = (float)x;
            }
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
}

ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    if (to[0])
        memcpy(to[0], images + i * PIXELS, PIXELS);
    if (to[1])
        *(int32_t *)to[1] = labels[i];
    return LS_OK;
}

const ls_field SAMPLE_FIELDS[2] = {
    { .name = "images", .type = { LS_U8, 3, { 1, 8, 8 } } },
    { .name = "labels", .type = { .dtype = LS_I32 }, .below = 5, .ignorable = true },
};

const ls_dataset SAMPLE_SET = { .name = "test",
                                .source = "test",
                                .split = LS_SPLIT_EVAL,
                                .n = SAMPLES,
                                .n_fields = 2,
                                .fields = SAMPLE_FIELDS,
                                .read = read_sample };

/* test_memory.c - out of memory while a model is built, a step is compiled and a trainer is made, saved and
 * loaded: every allocation is refused in turn, and each time the call ends with LS_E_MEMORY, and frees what
 * it has. Under AddressSanitizer the leaks would be seen. */
#include <stdio.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "step/images.h"

typedef struct step {
    ls_trainer_opts o;
    ls_vit_config vit;
    bool save;
} step;

static ls_status make(void *context)
{
    const step *s = context;
    ls_trainer *t = NULL;
    static int saved;
    char name[32];
    snprintf(name, sizeof name, "checkpoint-%d", saved++); /* its removal may be refused memory, too */
    const char *dir = ls_test_path(name);
    ls_status status = ls_trainer_create_with(&t, training_build_vit, &s->vit, &s->o);
    if (status == LS_OK && s->save) {
        status = ls_trainer_init(t, 5);
        if (status == LS_OK)
            status = ls_trainer_save_checkpoint(t, dir);
        if (status == LS_OK)
            status = ls_trainer_load_checkpoint(t, dir);
        if (ls_dir_exists(dir))
            ls_checkpoint_remove(dir);
    }
    ls_trainer_destroy(&t);
    return status;
}

static const ls_trainer_opts PLAIN = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2 };

/* All passes that one process has: bf16, clipping, recomputation, sums of micro-batches, a frozen part. */
static const ls_trainer_opts FULL = { LS_TRAINER_DEFAULTS,
                                      .threads = 1,
                                      .micro_batch = 2,
                                      .micro_batches = 2,
                                      .clip_norm = 0.5,
                                      .param = LS_F16,
                                      .recompute = "class:EncoderBlock",
                                      .freeze = "conv_proj" };

static step of(const ls_trainer_opts *o, bool save)
{
    step s = { *o, VIT, save };
    s.vit.layers = 1;
    return s;
}

static void a_step_is_made(void **state)
{
    (void)state;
    step plain = of(&PLAIN, false), full = of(&FULL, false);
    assert_true(ls_test_memory(make, &plain, 7) > 100);
    assert_true(ls_test_memory(make, &full, 11) > 100);
}

static void a_checkpoint_is_saved_and_loaded(void **state)
{
    (void)state;
    step s = of(&PLAIN, true);
    assert_true(ls_test_memory(make, &s, 13) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_made),
        cmocka_unit_test(a_checkpoint_is_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}

/* checkpoint_calls.c - checkpoints of a trainer without a run around it: the public calls. */
#include <stdlib.h>

#include "base/argument.h"
#include "base/sys.h"
#include "ckpt/checkpoint_head.h"
#include "state.h"
#include "torch_settings.h"
#include "trainer.h"

ls_status ls_trainer_save_checkpoint(ls_trainer *t, const char *dir)
{
    LS_ARG(t);
    LS_ARG(dir);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_save_checkpoint"));
    LS_TRY(ls_trainer_needs_parameters(t, "ls_trainer_save_checkpoint"));
    const int ranks = t->group ? ls_group_size(t->group) : 1;
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_checkpoint_head_write(&j, &(ls_checkpoint_head){ .step = -1, .last_epoch = -1, .world = ranks });
    ls_torch_groups_write(&j, t);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    char *json = ls_str_take(&j.out);
    const ls_checkpoint_contents texts = { .config = "{}\n", .trainer = json, .max_file = (uint64_t)5 << 30 };
    ls_status s = ls_checkpoint_together(t->group, ls_sys_have(json));
    if (s == LS_OK)
        s = ls_trainer_save_state(t, dir, &texts, NULL);
    free(json);
    return s;
}

static ls_status load_dcp(ls_trainer *t, const char *dir)
{
    ls_dcp_state s;
    ls_status status = ls_checkpoint_together(t->group, ls_dcp_state_open(&s, dir, NULL));
    /* PyTorch's SGD does not count its steps; there was at least one, which made the buffers */
    if (status == LS_OK)
        status = ls_trainer_load_dcp(t, &s, 1);
    ls_dcp_state_release(&s);
    return status;
}

ls_status ls_trainer_load_checkpoint(ls_trainer *t, const char *dir)
{
    LS_ARG(t);
    LS_ARG(dir);
    LS_TRAINER_USE(t);
    ls_checkpoint c;
    if (ls_dcp_is(dir) && !ls_checkpoint_is(dir))
        return load_dcp(t, dir);
    LS_TRY(ls_checkpoint_open(&c, dir, LS_VERIFY_LOADED, t->group));
    ls_status s = ls_trainer_load_state(t, &c, NULL);
    ls_checkpoint_release(&c);
    return s;
}

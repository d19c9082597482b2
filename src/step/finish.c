/* finish.c - the last passes of programs. */
#include "compile_own.h"
#include "ops/linear_loss.h"
#include "passes/join_loss.h"
#include "passes/passes.h"

int64_t ls_logits_at_a_time = 1 << 26; /* 128 MiB in 16 bits */

ls_status ls_program_join_loss(ls_graph **g, const ls_device *d)
{
    const ls_linear_loss_attrs attrs = { .rows = LS_LOSS_BLOCK };
    const ls_tensor number = { .type = LS_TYPE(LS_F32, 1, 1) }, in[LS_KERNEL_INPUTS] = { number, number };
    const ls_kernel_args shapes = { .n_in = 3, .in = in, .attrs = &attrs };
    const bool has = ls_device_find(d, ls_op_linear_cross_entropy.name, &shapes, NULL);
    return has ? ls_pass_join_loss(g, ls_logits_at_a_time) : LS_OK;
}

ls_status ls_program_finish(ls_graph **g, const ls_device *d)
{
    LS_TRY(ls_pass_cse(g));
    LS_TRY(ls_pass_dce(g));
    LS_TRY(ls_pass_fuse(g));
    LS_TRY(ls_pass_take_codes(g, d));
    LS_TRY(ls_pass_dce(g));
    return ls_graph_verify(*g);
}

/* Equal nodes are merged first, so that a head has one loss and one argmax. */
ls_status ls_evaluation_finish(ls_graph **g, const ls_device *d)
{
    LS_TRY(ls_pass_cse(g));
    LS_TRY(ls_pass_dce(g));
    LS_TRY(ls_program_join_loss(g, d));
    return ls_program_finish(g, d);
}

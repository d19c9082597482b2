/* table.c - the reference device: a kernel for every op, for any float type and any strides of every operand.
 */
#include "device/queue.h"
#include "ref.h"

#define ANY_STRIDES .rows_in = UINT32_MAX, .rows_out = UINT32_MAX, .any_in = UINT32_MAX
#define ROW(name)                                      \
    {                                                  \
        .op = #name, .run = ls_ref_##name, ANY_STRIDES \
    }
#define ROW_WORKSPACE(name)                                                                    \
    {                                                                                          \
        .op = #name, .run = ls_ref_##name, .workspace = ls_ref_##name##_workspace, ANY_STRIDES \
    }

/* clang-format off */
static const ls_kernel KERNELS[] = {
#define ELEMENTWISE(opcode, name) ROW(name),
#include "graph/elementwise.list"
#undef ELEMENTWISE
    ROW(cast), ROW_WORKSPACE(fused), ROW(dequantize_scales), ROW(dequantize),
    ROW(fill), ROW(permute), ROW(pack), ROW(broadcast_to), ROW(sum_to), ROW(max_to),
    ROW(cumsum), ROW(gather), ROW_WORKSPACE(scatter_add),
    { .op = "copy", .run = ls_ref_broadcast_to, ANY_STRIDES },
    ROW(random_key), ROW(dropout),
    ROW_WORKSPACE(linear), ROW_WORKSPACE(linear_dx), ROW_WORKSPACE(linear_dw),
    ROW(top_k), ROW(group_order), ROW(dispatch), ROW(combine), ROW(grouped_linear), ROW(grouped_linear_dx),
        ROW(grouped_linear_dw), ROW(received_groups),
    ROW(group_norm), ROW_WORKSPACE(group_norm_grad),
    ROW(batch_matmul), ROW(lstm), ROW_WORKSPACE(lstm_grad), ROW(gru), ROW_WORKSPACE(gru_grad),
    ROW_WORKSPACE(conv2d), ROW_WORKSPACE(conv2d_dx), ROW_WORKSPACE(conv2d_dw),
    ROW(max_pool2d), ROW_WORKSPACE(max_pool2d_grad), ROW(avg_pool2d), ROW(avg_pool2d_grad),
    ROW(resize2d), ROW_WORKSPACE(resize2d_grad),
    ROW(batch_norm), ROW(batch_norm_grad), ROW(batch_norm_eval), ROW(batch_norm_update),
    ROW(layer_norm), ROW_WORKSPACE(layer_norm_grad), ROW(rms_norm), ROW_WORKSPACE(rms_norm_grad),
    ROW(embedding), ROW_WORKSPACE(embedding_grad), ROW(rope), ROW(shift_right), ROW(position_bias),
        ROW_WORKSPACE(position_bias_grad),
    ROW_WORKSPACE(attention), ROW_WORKSPACE(attention_grad),
    ROW(cache_write), ROW_WORKSPACE(cache_reorder), ROW_WORKSPACE(attention_cached),
    ROW(softmax), ROW(softmax_grad), ROW(log_softmax), ROW(log_softmax_grad),
    ROW(cross_entropy), ROW(cross_entropy_grad), ROW(argmax),
        ROW(row_sum), ROW(row_sum_grad),
        ROW_WORKSPACE(linear_cross_entropy),
        ROW(cross_entropy_part), ROW(argmax_part), ROW(argmax_join),
    ROW(max_abs), ROW(sum_squares), ROW(norm_from_squares), ROW(is_finite),
    ROW(count_step), ROW(adam), ROW(sgd), ROW(loss_scale_update),
    ROW(group_rate), ROW(lion), ROW(ema), ROW(muon_momentum), ROW_WORKSPACE(muon), ROW_WORKSPACE(adafactor),
    { 0 },
};
/* clang-format on */

static const ls_arch ARCH = { .name = "generic" };

static const ls_arch *usable(int i) { return i == 0 ? &ARCH : NULL; }

static ls_status ref_choose(ls_device *d, const char *word, bool elsewhere)
{
    (void)elsewhere;
    if (word)
        return ls_fail(LS_E_UNSUPPORTED, "isa=%s: device ref has no instruction sets to choose from", word);
    d->arch = &ARCH;
    d->here = true;
    return LS_OK;
}

static const ls_kernel *const *ref_tables(const ls_arch *arch)
{
    static const ls_kernel *const all[] = { KERNELS, NULL };
    (void)arch;
    return all;
}

const ls_device_ops ls_device_ref = { .name = "ref",
                                      .choose = ref_choose,
                                      .usable = usable,
                                      .tables = ref_tables,
                                      .queue = &ls_queue_direct,
                                      .computes = true };

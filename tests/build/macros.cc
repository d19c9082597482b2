// macros.cc - every macro of the public headers in C++17 and C++20 (tests/build/macros.sh compiles it and
// looks that none is missing).
#include <cstdio>
#include <lockstep/lockstep.h>
#include <lockstep/tokenizer.h>

static_assert(LS_VERSION_MAJOR >= 0 && LS_VERSION_MINOR >= 0 && LS_VERSION_PATCH >= 0, LS_VERSION);
static const int64_t sizes[] = { LS_MAX_DIMS, LS_MESH_AXES, LS_RECIPE_LIST, LS_IGNORE_LABEL };
#define ROLE(name, role) { name, role },
static const struct {
    const char *name;
    ls_axis_role role;
} roles[] = { LS_MESH_NAMES(ROLE) };

LS_API ls_status tried(ls_status s, const ls_trainer_opts *o LS_OR_DEFAULTS);
ls_status tried(ls_status s, const ls_trainer_opts *)
{
    LS_TRY(s);
    LS_TRY_TO(s, ls_graph_status(nullptr), end);
end:
    return s;
}

// A module: its keys, its table and its symbol.
static const ls_module_key no_keys[] = { LS_MODULE_KEYS_END };
static ls_status build_nothing(ls_graph *, const void *, int64_t) { return LS_OK; }
LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static ls_model_module module = { LS_MODULE_DEFAULTS };
    module.name = "macros", module.version = "1", module.build = build_nothing, module.keys = no_keys;
    return &module;
}

// Options: what the macros of defaults say, and what the functions give.
template <class T> bool uses(const T &a, const T &b) { return &a != &b; }
bool defaults()
{
    const ls_arrays_load_opts a = { LS_ARRAYS_LOAD_DEFAULTS };
    const ls_arrays_save_opts b = { LS_ARRAYS_SAVE_DEFAULTS };
    const ls_batch_norm_opts c = { LS_BATCH_NORM_DEFAULTS };
    const ls_conv2d_opts d = { LS_CONV2D_DEFAULTS };
    const ls_conv_opts e = { LS_CONV_DEFAULTS };
    const ls_dataset_options f = { LS_DATASET_DEFAULTS };
    const ls_generate_opts g = { LS_GENERATE_DEFAULTS };
    const ls_generator_opts h = { LS_GENERATOR_DEFAULTS };
    const ls_linear_opts i = { LS_LINEAR_DEFAULTS };
    const ls_lora_opts lora = { LS_LORA_DEFAULTS };
    const ls_loader_options j = { LS_LOADER_DEFAULTS };
    const ls_optimizer k = { LS_OPTIMIZER_DEFAULTS };
    const ls_optimizer_group groups = { LS_OPTIMIZER_GROUP_DEFAULTS };
    const ls_images_options images = { LS_IMAGES_DEFAULTS };
    const ls_pairs_options l = { LS_PAIRS_DEFAULTS };
    const ls_parallel m = { LS_PARALLEL_DEFAULTS };
    const ls_report_opts n = { LS_REPORT_DEFAULTS };
    const ls_run_opts o = { LS_RUN_DEFAULTS };
    const ls_run_profile_opts profile = { LS_RUN_PROFILE_DEFAULTS };
    const ls_sampling p = { LS_SAMPLING_DEFAULTS };
    const ls_text_options q = { LS_TEXT_DEFAULTS };
    const ls_trainer_opts r = { LS_TRAINER_DEFAULTS };
    const ls_update_opts s = { LS_UPDATE_DEFAULTS };
    const ls_weights_export_opts t = { LS_WEIGHTS_EXPORT_DEFAULTS };
    const ls_weights_load_opts u = { LS_WEIGHTS_LOAD_DEFAULTS };
    const ls_scaler v = { LS_SCALER_DEFAULTS };
    const ls_predictor_opts w = { LS_PREDICTOR_DEFAULTS };
    const ls_live_opts y = { LS_LIVE_DEFAULTS };
    const ls_recurrent_opts recurrent = { LS_RECURRENT_DEFAULTS };
    return uses(a, ls_arrays_load_opts_default()) && uses(b, ls_arrays_save_opts_default()) &&
           uses(c, ls_batch_norm_opts_default()) && uses(d, ls_conv2d_opts_default()) &&
           uses(e, ls_conv_opts_default()) && uses(f, ls_dataset_options_default()) &&
           uses(g, ls_generate_opts_default()) && uses(h, ls_generator_opts_default()) &&
           uses(i, ls_linear_opts_default()) && uses(j, ls_loader_options_default()) &&
           uses(k, ls_optimizer_default()) && uses(groups, ls_optimizer_group_default()) &&
           uses(images, ls_images_options_default()) && uses(l, ls_pairs_options_default()) &&
           uses(m, ls_parallel_default()) && uses(n, ls_report_opts_default()) &&
           uses(o, ls_run_opts_default()) && uses(profile, ls_run_profile_opts_default()) &&
           uses(p, ls_sampling_default()) &&
           uses(q, ls_text_options_default()) && uses(r, ls_trainer_opts_default()) &&
           uses(s, ls_update_opts_default()) && uses(t, ls_weights_export_opts_default()) &&
           uses(u, ls_weights_load_opts_default()) && uses(v, ls_scaler_default()) &&
           uses(w, ls_predictor_opts_default()) && uses(y, ls_live_opts_default()) &&
           uses(recurrent, ls_recurrent_opts_default()) && uses(lora, ls_lora_opts_default());
}

// Values: every builder call. The graph's first error is the one of the first call that cannot be.
void values(ls_graph *g, ls_value x, ls_value ids)
{
    LS_SCOPE(g, "scope", "Block");
    ls_wide_begin(g), ls_wide_end(g);
    const ls_type t = LS_TYPE(LS_F32, 4, 8), one = LS_SCALAR(LS_F32);
    const ls_init zero = {};
    const ls_conv_opts conv = ls_conv_opts_default();
    const ls_pool_opts pool = { { 2, 2 }, { 2, 2 }, { 0, 0 } };
    const ls_scaling scaling = ls_scaling_of(g, "x", 8);
    const ls_value none = LS_NONE, both[] = { x, x };
    const int64_t dims[] = { 4, 8 };
    ls_param(g, "p", t, zero), ls_state(g, "s", t, zero), ls_buffer(g, "b", t, zero), ls_fill(g, one, 1);
    ls_add(g, x, x), ls_sub(g, x, x), ls_mul(g, x, x), ls_div(g, x, x), ls_max(g, x, x), ls_min(g, x, x),
        ls_neg(g, x), ls_sqrt(g, x), ls_exp(g, x), ls_log_e(g, x);
    ls_tanh(g, x), ls_square(g, x), ls_relu(g, x), ls_gelu(g, x), ls_gelu_tanh(g, x), ls_silu(g, x),
        ls_swiglu(g, x, x), ls_add_const(g, x, 1);
    ls_pow(g, x, x), ls_gt(g, x, x), ls_ge(g, x, x), ls_eq(g, x, x), ls_where(g, x, x, x), ls_abs(g, x),
        ls_sign(g, x), ls_sin(g, x), ls_cos(g, x), ls_sigmoid(g, x);
    ls_softplus(g, x), ls_hardswish(g, x), ls_leaky_relu(g, x, 0.01), ls_elu(g, x, 1), ls_pow_const(g, x, 2),
        ls_clamp(g, x, 0, 1);
    ls_mul_const(g, x, 2), ls_div_const(g, x, 2), ls_cast(g, x, LS_BF16), ls_sum_to(g, x, 2, dims),
        ls_slice(g, x, 0, 0, 2), ls_concat(g, 0, 2, both);
    ls_reshape(g, x, 8, 4), ls_permute(g, x, 1, 0), ls_broadcast(g, x, 2, 4, 8), ls_argmax(g, x),
        ls_softmax(g, x);
    ls_sum(g, x, 0, true), ls_mean(g, x, -1, false), ls_variance(g, x, LS_ALL_DIMS, false, 1),
        ls_amax(g, x, 1, true);
    ls_log_softmax(g, x), ls_argmax_over(g, x, 0, true), ls_cumsum(g, x, -1), ls_gather(g, x, 0, ids),
        ls_index_select(g, x, 0, ids), ls_scatter_add(g, x, 0, ids, x), ls_index_add(g, x, 0, ids, x);
    ls_lstm(g, "lstm", x, 3), ls_gru(g, "gru", x, 3);
    ls_embedding(g, "emb", ids, 4, 3);
    ls_group_norm(g, "gn", x, 2, 1e-5), ls_instance_norm(g, "in", x, true, 1e-5);
    ls_matmul(g, x, x, false, true), ls_group_norm_op(g, x, 2, x, x, 1e-5);
    ls_linear(g, "fc", x, 3), ls_conv2d(g, "conv", x, 3, 3), ls_batch_norm(g, "bn", x),
        ls_loss_rows(g, LS_LOSS_MSE, ls_scale(g, scaling, x), ls_unscale(g, scaling, x), 1),
        ls_dropout(g, "drop", x, 0.5), ls_attention_dropout(g, "drop2", x, 0.5);
    ls_matmul_wt(g, x, x, none), ls_layer_norm_op(g, x, x, x, 1e-5), ls_rms_norm_op(g, x, x, 1e-5),
        ls_embedding_op(g, ids, x), ls_rope(g, x, none, 4, 1e4);
    const ls_rope_scaling slow = { 2, 1, 4, 16 };
    ls_rope_scaled(g, x, none, 4, 1e4, &slow);
    ls_conv1d(g, "conv1", x, 3, 3), ls_conv3d(g, "conv3", x, 3, 3), ls_conv_transpose1d(g, "up1", x, 3, 2),
        ls_conv_transpose2d(g, "up2", x, 3, 2), ls_conv_transpose3d(g, "up3", x, 3, 2);
    ls_conv1d_op(g, x, x, none, &conv), ls_conv3d_op(g, x, x, none, &conv),
        ls_conv_transpose3d_op(g, x, x, none, &conv), ls_conv_transpose1d_op(g, x, x, none, &conv),
        ls_conv_transpose2d_op(g, x, x, none, &conv);
    ls_conv2d_op(g, x, x, none, &conv), ls_max_pool2d(g, x, &pool), ls_adaptive_avg_pool2d(g, x, 1, 1),
        ls_avg_pool2d(g, x, &pool, true), ls_resize2d(g, x, 4, 4, LS_RESIZE_BILINEAR),
        ls_batch_norm_op(g, x, x, x, 1e-5);
    ls_batch_norm_eval(g, x, x, x, x, x, 1e-5), ls_batch_norm_update(g, x, x, x, x, none, 0.1),
        ls_attention_window(g, ls_attention(g, x, x, x, none, 4, 1, true), 2);
    ls_packed_attention(g, x, x, x, ids, 4, 1);
    ls_padded_attention(g, x, x, x, none, ids, 0, 4, 1), ls_position_bias(g, x, 4, 4, 8, true),
        ls_shift_right(g, ids, 0, 0), ls_cache_write(g, x, x, ids);
    ls_attention_cached(g, x, x, x, ids, none, 4, 1), ls_cache_reorder(g, x, ids),
        ls_cross_entropy(g, x, ids), ls_cross_entropy_smooth(g, x, ids, 0.1), ls_output(g, "never", x);
    ls_correct(g, x, ids), ls_loss(g, "loss", x, 1, LS_BY_SAMPLE, nullptr),
        ls_loss_scalar(g, "penalty", x, 0.5), ls_measure(g, "m", x, LS_MEAN, LS_BY_VALID, "ids"),
        ls_measure_against(g, "f1", LS_F1, x, ids, LS_BY_VALID, "ids");
}

// Objects: the calls that take options, without them and with them.
ls_status objects(ls_build_fn build)
{
    ls_trainer *trainer = nullptr;
    ls_trainer_opts o = ls_trainer_opts_default();
    o.micro_batch = 2;
    o.freeze = LS_LORA_NAMES;
    o.freeze = LS_LORA_FREEZE;
    ls_trainer_create(&trainer, build, nullptr);
    ls_trainer_create(&trainer, build, nullptr, &o);
    ls_graph *g = nullptr;
    ls_add_lora(g);
    ls_predictor *predictor = nullptr;
    ls_predictor_of(&predictor, trainer);
    ls_predictor_open(&predictor, "folder");
    ls_live *live = nullptr;
    ls_live_open(&live, trainer);
    ls_generator *generator = nullptr;
    ls_generator_create(&generator, nullptr, nullptr);
    ls_generator_create_t5(&generator, nullptr, nullptr);
    ls_generator_open(&generator, "folder");
    ls_dataset *set = nullptr;
    ls_dataset_open(&set, "nothing", LS_SPLIT_TRAIN);
    ls_images_open(&set, LS_SPLIT_TRAIN, 3, 8);
    ls_text_open(&set, LS_SPLIT_TRAIN, "", "", 8);
    ls_pairs_open(&set, LS_SPLIT_TRAIN, "", "", 8, 8);
    ls_loader *loader = nullptr;
    ls_loader_create(&loader, set, nullptr);
    ls_weights_load(nullptr, 0, nullptr);
    ls_weights_export(nullptr, "file");
    ls_arrays_save(nullptr, 0, nullptr, nullptr);
    ls_arrays_saving *saving = nullptr;
    ls_arrays_save_async(&saving, nullptr, 0, nullptr, nullptr);
    ls_arrays_load(nullptr, 0, nullptr, nullptr);
    ls_run *run = nullptr;
    ls_run_open(&run, nullptr, "name", nullptr);
    ls_run_profile(run, trainer);
    return ls_report(run, nullptr, 0, nullptr);
}

int main()
{
    ls_graph *g = nullptr;
    LS_TRY(ls_graph_create(&g, "macros"));
    const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), ids = ls_input(g, "ids", LS_TYPE(LS_I32, 4));
    const ls_value y = ls_linear(g, "fc", ls_permute(g, ls_reshape(g, x, 8, 4), 1, 0), 3);
    ls_linear_opts plain = ls_linear_opts_default();
    plain.bias = false;
    ls_output(g, "y", ls_linear(g, "head", y, 2, &plain));
    const ls_type t = ls_value_type(g, ls_broadcast(g, y, 2, 4, 3));
    LS_TRY(ls_graph_finish(g));
    values(g, x, ids);
    ls_graph_destroy(&g);
    const bool sane = defaults() && lockstep_module()->abi == LS_MODULE_ABI && objects(nullptr) == LS_E_ARG &&
                      tried(LS_E_IO) == LS_E_IO && *LS_FILE && sizes[0] == 8 &&
                      roles[0].role == LS_ROLE_REPLICATE;
    std::printf("%s %s %d %lld %d\n", ls_version(), LS_VERSION, t.ndim, (long long)ls_type_count(&t),
                (int)sane);
    return 0;
}

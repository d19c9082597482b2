// functions.cc - a C++17 program that needs no macro of the public headers and no GNU extension: a model, a trainer,
// a step, everything that takes options with NULL and with a filled struct. Free of warnings under -Wall -Wextra
// -pedantic with g++ and clang++ (tests/build/macros.sh), and run by tests/build/install.sh.
#define LS_NO_CALL_SITES // ls_add and the others are the functions themselves
#include <lockstep/lockstep.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static ls_value input(ls_graph *g, const char *name, ls_dtype type, std::initializer_list<int64_t> dims)
{
    return ls_input(g, name, ls_type_from(type, dims));
}

// y = W2 gelu(W1 x), its square error; with NULL and with options.
extern "C" ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const int64_t hidden = *static_cast<const int64_t *>(config);
    ls_linear_opts plain = ls_linear_opts_default();
    plain.bias = false;
    const ls_value x = input(g, "x", LS_F32, { batch, 4 }), y = input(g, "y", LS_F32, { batch, 1 });
    ls_scope_push(g, "mlp", nullptr);
    const ls_value h = ls_gelu(g, ls_linear_with(g, "in", x, hidden, nullptr)),
                   p = ls_linear_with(g, "out", h, 1, &plain);
    ls_scope_pop(g);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, p, y)), 1, LS_BY_ELEMENT, nullptr);
    const std::vector<int64_t> flat = { batch, 2, 2 }, swapped = { 0, 2, 1 };
    const ls_value square = ls_reshape_dims(g, x, 3, flat.data());
    ls_output(g, "y", p);
    ls_output(g, "turned", ls_permute_dims(g, square, 3, swapped.data()));
    return ls_graph_finish(g);
}

// A module: its keys, its table, and its symbol without the macro.
struct settings {
    int64_t hidden;
};
static const ls_module_key keys[] = {
    { "hidden", LS_MODULE_INT, offsetof(settings, hidden), "8", 1, 64, nullptr, "width of the layer" },
    LS_MODULE_KEYS_END,
};
extern "C" const ls_model_module *lockstep_module()
{
    static ls_model_module module = ls_model_module_default();
    module.keys = keys, module.settings = sizeof(settings);
    module.name = "functions", module.version = "1", module.build = build;
    return &module;
}

static ls_status train(double *loss)
{
    const int64_t hidden = 8, batch = 16;
    ls_trainer_opts options = ls_trainer_opts_default();
    options.micro_batch = batch, options.threads = 1, options.padding = true;
    options.optimizer = ls_optimizer_default(), options.scaler = ls_scaler_default();
    options.parallel = ls_parallel_over(nullptr);
    ls_trainer *t = nullptr;
    ls_status s = ls_trainer_create_with(&t, build, &hidden, &options);
    if (s == LS_OK)
        s = ls_trainer_init(t, 1);
    std::vector<float> x(batch * 4, 0.5F), y(batch, 1.F);
    const ls_type tx = ls_type_from(LS_F32, { batch, 4 }), ty = ls_type_from(LS_F32, { batch, 1 });
    const ls_tensor vx = ls_tensor_of(x.data(), &tx), vy = ls_tensor_of(y.data(), &ty);
    ls_step_result r = {};
    for (int step = 0; step < 20 && s == LS_OK; step++) {
        s = ls_trainer_put(t, "x", &vx, 0);
        if (s == LS_OK)
            s = ls_trainer_put(t, "y", &vy, 0);
        if (s == LS_OK)
            s = ls_trainer_run(t, batch, 1e-2, &r);
    }
    *loss = r.loss;
    ls_trainer_destroy(&t);
    return s;
}

// Each call is refused for what is missing, and not for its options.
static bool options_may_be_null()
{
    ls_dataset *set = nullptr;
    ls_loader *loader = nullptr;
    ls_run *run = nullptr;
    ls_trainer *trainer = nullptr;
    ls_generator *generator = nullptr;
    ls_arrays_saving *saving = nullptr;
    ls_predictor *predictor = nullptr;
    ls_live *live = nullptr;
    const ls_status all[] = { ls_add_lora_with(nullptr, nullptr),
                              ls_dataset_open_with(&set, "nothing", LS_SPLIT_TRAIN, nullptr),
                              ls_images_open_with(&set, LS_SPLIT_TRAIN, 3, 8, nullptr),
                              ls_text_open_with(&set, LS_SPLIT_TRAIN, "", "", 8, nullptr),
                              ls_pairs_open_with(&set, LS_SPLIT_TRAIN, "", "", 8, 8, nullptr),
                              ls_loader_create_with(&loader, nullptr, nullptr, nullptr),
                              ls_run_open_with(&run, nullptr, "name", nullptr, nullptr),
                              ls_report_with(nullptr, nullptr, 0, nullptr, nullptr),
                              ls_run_profile_with(nullptr, nullptr, nullptr),
                              ls_trainer_create_with(&trainer, nullptr, nullptr, nullptr),
                              ls_generator_create_with(&generator, nullptr, nullptr, nullptr),
                              ls_generator_create_t5_with(&generator, nullptr, nullptr, nullptr),
                              ls_generator_open_with(&generator, "no such folder", nullptr),
                              ls_predictor_of_with(&predictor, nullptr, nullptr),
                              ls_predictor_open_with(&predictor, "no such folder", nullptr),
                              ls_live_open_with(&live, nullptr, nullptr),
                              ls_weights_load_with(nullptr, 0, nullptr, nullptr),
                              ls_weights_export_with(nullptr, "file", nullptr),
                              ls_arrays_save_with(nullptr, 0, nullptr, nullptr, nullptr),
                              ls_arrays_save_async_with(&saving, nullptr, 0, nullptr, nullptr, nullptr),
                              ls_arrays_load_with(nullptr, 0, nullptr, nullptr, nullptr) };
    bool refused = true;
    for (const ls_status s : all)
        refused = refused && s != LS_OK;
    return refused;
}

// Layers with NULL are those with the defaults: the same graph.
static ls_value layers(ls_graph *g, bool null)
{
    const ls_conv2d_opts conv = ls_conv2d_opts_default();
    const ls_batch_norm_opts norm = ls_batch_norm_opts_default();
    const ls_linear_opts linear = ls_linear_opts_default();
    const ls_conv_opts plain = ls_conv_opts_default();
    ls_value x = input(g, "x", LS_F32, { 2, 3, 8, 8 });
    const ls_value w = input(g, "w", LS_F32, { 4, 4, 1, 1 }), none = {};
    x = ls_conv2d_with(g, "conv", x, 4, 3, null ? nullptr : &conv);
    x = ls_batch_norm_with(g, "bn", x, null ? nullptr : &norm);
    x = ls_conv2d_op(g, x, w, none, null ? nullptr : &plain);
    const ls_value x1 = input(g, "x1", LS_F32, { 2, 3, 8 }), x3 = input(g, "x3", LS_F32, { 2, 3, 4, 4, 4 });
    ls_output(g, "y1", ls_conv1d_with(g, "conv1d", x1, 4, 3, null ? nullptr : &conv));
    ls_output(g, "up1", ls_conv_transpose1d_with(g, "up1d", x1, 4, 3, null ? nullptr : &conv));
    ls_output(g, "y3", ls_conv3d_with(g, "conv3d", x3, 4, 3, null ? nullptr : &conv));
    const ls_recurrent_opts recurrent = ls_recurrent_opts_default();
    ls_output(g, "lstm", ls_lstm_with(g, "lstm", x1, 3, null ? nullptr : &recurrent).y);
    ls_output(g, "gru", ls_gru_with(g, "gru", x1, 3, null ? nullptr : &recurrent).h);
    x = ls_conv_transpose2d_with(g, "up", x, 4, 1, null ? nullptr : &conv);
    ls_output(g, "up3", ls_conv_transpose3d_with(g, "up3", x3, 4, 1, null ? nullptr : &conv));
    x = ls_conv_transpose2d_op(g, x, w, none, null ? nullptr : &plain);
    x = ls_patch_embedding(g, "patches", x, 2, 8, null ? nullptr : &linear);
    return ls_linear_with(g, "fc", x, 5, null ? nullptr : &linear);
}

static bool layers_may_have_null()
{
    std::string text[2];
    for (int null = 0; null < 2; null++) {
        ls_graph *g = nullptr;
        if (ls_graph_create(&g, "layers") != LS_OK)
            return false;
        ls_output(g, "y", layers(g, null == 1));
        const ls_status s = ls_graph_finish(g);
        char *printed = ls_graph_print(g, false);
        text[null] = s == LS_OK && printed ? printed : "";
        std::free(printed);
        ls_graph_destroy(&g);
    }
    return !text[0].empty() && text[0] == text[1];
}

int main()
{
    double loss = 0;
    if (train(&loss) != LS_OK || !options_may_be_null() || !layers_may_have_null())
        return std::puts(ls_error_message()), 1;
    const ls_model_module *module = lockstep_module();
    if (module->size != sizeof *module || module->abi != LS_MODULE_ABI || !module->library || module->open)
        return std::puts("the defaults of a module"), 1;
    return std::printf("%s\n", loss < 0.1 ? "trained" : "not trained"), 0;
}

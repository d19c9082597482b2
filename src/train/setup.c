/* setup.c - recipe -> builder, options, data. The only place that knows both vocabularies. */
#include "setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/str.h"
#include "recipe/recipe_fields.h"

static void language_model(ls_setup *s, const ls_recipe *r)
{
    const bool qwen = r->model.type == LS_MODEL_QWEN2;
    s->classes = (int)r->model.vocab_size;
    s->build = (ls_build_fn)(void (*)(void))ls_decoder_build;
    s->config.decoder = (ls_decoder_config){
        .seq_length = r->data.seq_length, .vocab_size = r->model.vocab_size, .hidden_size = r->model.hidden_size, .mlp_size = r->model.mlp_size,
        .layers = r->model.layers, .heads = r->model.heads, .kv_heads = r->model.kv_heads ? r->model.kv_heads : r->model.heads,
        .head_dim = r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads, .norm_eps = r->model.norm_eps,
        .rope_theta = r->model.rope_theta, .init_deviation = r->model.init_deviation, .attention_dropout = r->model.attention_dropout, .tied = r->model.tied, .qkv_bias = qwen,
        .block = qwen ? "Qwen2DecoderLayer" : "LlamaDecoderLayer" };
}

static void t5(ls_setup *s, const ls_recipe *r)
{
    s->classes = (int)r->model.vocab_size;
    s->build = (ls_build_fn)(void (*)(void))ls_t5_build;
    s->config.t5 = (ls_t5_config){
        .source_length = r->data.source_length, .target_length = r->data.target_length, .vocab_size = r->model.vocab_size, .hidden_size = r->model.hidden_size,
        .mlp_size = r->model.mlp_size, .layers = r->model.layers, .decoder_layers = r->model.decoder_layers ? r->model.decoder_layers : r->model.layers,
        .heads = r->model.heads, .head_dim = r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads, .buckets = r->model.position_buckets,
        .max_distance = r->model.position_distance, .norm_eps = r->model.norm_eps, .init_factor = r->model.init_factor,
        .gated = r->model.feed_forward == LS_FEED_FORWARD_GATED_GELU, .tied = r->model.tied,
        .scale_output = r->model.scale_output == LS_SCALE_OUTPUT_TRUE ? 1 : r->model.scale_output == LS_SCALE_OUTPUT_FALSE ? -1 : 0, .dropout = r->model.dropout,
        .pad_token = 0 /* as the data set fills sources up */, .start_token = r->model.start_token };
}

static void model(ls_setup *s, const ls_recipe *r)
{
    if (ls_model_choice_is_pairs(r->model.type)) {
        t5(s, r);
        return;
    }
    if (ls_model_choice_is_text(r->model.type)) {
        language_model(s, r);
        return;
    }
    s->channels = (int)r->model.in_channels;
    s->size = (int)r->model.image_size;
    s->classes = (int)r->model.classes;
    if (r->model.type == LS_MODEL_VIT) {
        s->build = (ls_build_fn)(void (*)(void))ls_vit_build;
        s->config.vit = (ls_vit_config){ r->model.image_size, r->model.patch_size, r->model.in_channels, r->model.layers, r->model.heads,
                                         r->model.hidden_size, r->model.mlp_size, r->model.classes, r->data.mean, r->data.std, r->model.dropout, r->model.attention_dropout };
        return;
    }
    if (r->model.type != LS_MODEL_MLP) {
        const int64_t depth = r->model.type == LS_MODEL_RESNET18 ? 18 : r->model.type == LS_MODEL_RESNET34 ? 34 : 50;
        s->build = (ls_build_fn)(void (*)(void))ls_resnet_build;
        s->config.resnet = (ls_resnet_config){ depth, r->model.image_size, r->model.in_channels, r->model.classes, r->data.mean, r->data.std };
        return;
    }
    s->build = (ls_build_fn)(void (*)(void))ls_mlp_build;
    s->config.mlp = (ls_mlp_config){ r->model.image_size, r->model.in_channels, r->model.classes, r->model.hidden.n, { 0 },
                                     (ls_mlp_activation)r->model.act, r->data.mean, r->data.std };
    memcpy(s->config.mlp.hidden, r->model.hidden.at, sizeof s->config.mlp.hidden);
}

/* parallel.recompute: none | units | class:NAME. `units` means the class that parallel.units names. */
static ls_status recompute(ls_setup *s, const ls_recipe *r)
{
    const char *what = r->parallel.recompute;
    if (!strcmp(what, "none"))
        return LS_OK;
    if (!strcmp(what, "units"))
        what = r->parallel.units;
    if (strncmp(what, "class:", 6))
        return ls_fail(LS_E_USAGE, "parallel.recompute: units needs parallel.units: class:NAME (it is \"%s\"), or say class:NAME here", what);
    if (strlen(what + 6) >= sizeof s->recompute)
        return ls_fail(LS_E_USAGE, "parallel.recompute: the class name \"%s\" is too long", what + 6);
    strcpy(s->recompute, what + 6);
    s->trainer.recompute = s->recompute;
    return LS_OK;
}

static ls_status no_even_batch(long long batch, long long ranks)
{
    ls_str counts = { 0 };
    for (long long n = 1, listed = 0; n <= batch && listed < 12; n++)
        if (batch % n == 0)
            ls_str_printf(&counts, "%s%lld", listed++ ? ", " : "", n);
    ls_status s = ls_fail(LS_E_USAGE, "train.global_batch: %lld data ranks do not divide %lld samples; data ranks that would do: %s; "
                                      "or a global_batch of %lld", ranks, batch, ls_str_text(&counts), (batch / ranks + 1) * ranks);
    ls_str_release(&counts);
    return s;
}

/* train.micro_batch 0 is resolved here, and every data rank gets as many micro-batches as the others. */
static ls_status batches(ls_setup *s, ls_recipe *r)
{
    const ls_parallel *p = &s->trainer.parallel;
    long long batch = r->train.global_batch, ranks = ls_mesh_data_ranks(&p->mesh);
    if (r->train.micro_batch == 0) {
        char text[32];
        if (batch % ranks)
            return no_even_batch(batch, ranks);
        snprintf(text, sizeof text, "%lld", batch / ranks);
        LS_TRY(ls_recipe_set(r, "train.micro_batch", text, "resolved: global_batch / data ranks"));
    }
    s->trainer.micro_batch = r->train.micro_batch;
    s->trainer.micro_batches = batch / r->train.micro_batch; /* the recipe was checked: it divides */
    ls_status status = ls_parallel_share(&s->share, p, s->trainer.micro_batches);
    return status == LS_OK ? status : ls_fail_in(status, "train.micro_batch: %lld of global_batch %lld", (long long)r->train.micro_batch, batch);
}

static int threads(const ls_recipe *r, int ranks, int ranks_per_host)
{
    int here = ranks_per_host > 0 && ranks_per_host < ranks ? ranks_per_host : ranks, each = ls_cpu_count() / here;
    return r->threads ? (int)r->threads : each > 0 ? each : 1;
}

static ls_status make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    *s = (ls_setup){ .trainer = { LS_TRAINER_DEFAULTS }, .lr = r->optimizer.lr };
    LS_TRY(ls_recipe_parallel(&s->trainer.parallel, r, ranks, rank, ranks_per_host));
    LS_TRY(batches(s, r));
    model(s, r);
    ls_isa isa = LS_ISA_GENERIC;
    bool given = ls_isa_parse(r->isa, &isa);
    static const ls_optimizer_kind kinds[] = { LS_ADAM, LS_ADAMW, LS_SGD };
    ls_trainer_opts *t = &s->trainer;
    t->device = r->device == LS_RUN_REF ? "ref" : "cpu";
    t->isa = given ? (int)isa : -1;
    t->threads = threads(r, ranks, ranks_per_host);
    t->kernels = r->kernels == LS_KERNELS_ONEDNN ? "onednn" : "own";
    t->accumulation = r->train.accumulate == LS_ACCUMULATE_RUNNING ? LS_SUM_RUNNING : LS_SUM_TREE;
    t->mean_of_means = r->train.loss_mean == LS_LOSS_MEAN_MICRO_BATCH;
    t->optimizer = (ls_optimizer){ kinds[r->optimizer.type], r->optimizer.betas[0], r->optimizer.betas[1], r->optimizer.eps,
                                   r->optimizer.weight_decay, r->optimizer.momentum, r->optimizer.dampening, r->optimizer.nesterov };
    t->clip_norm = r->train.clip_norm;
    t->freeze = r->train.freeze;
    t->stage_saves = r->checkpoint.async;
    t->param = r->precision.param;
    t->output = r->precision.param == LS_F64 ? LS_F64 : r->precision.output;
    s->schedule = (ls_schedule){ (ls_schedule_kind)r->schedule.type, r->schedule.warmup_steps, r->schedule.step_size,
                                 r->schedule.total_steps, r->schedule.gamma, r->schedule.min_lr };
    return recompute(s, r);
}

ls_status ls_setup_make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    ls_status status = make(s, r, ranks, rank, ranks_per_host);
    return status == LS_OK ? status : ls_recipe_blame(r, status);
}

ls_status ls_setup_use(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    char batch[32];
    const int64_t each = r->train.micro_batch ? r->train.micro_batch : (r->train.global_batch + ranks - 1) / ranks;
    snprintf(batch, sizeof batch, "%lld", (long long)each * ranks);
    LS_TRY(ls_recipe_set(r, "train.global_batch", batch, "evaluation"));
    static const char *const LAYOUT[] = { "parallel.mesh", "parallel.data", "parallel.reshard_after_forward", "parallel.tensor", "parallel.sequence", "parallel.bucket", NULL };
    LS_TRY(ls_recipe_reset(r, LAYOUT));
    LS_TRY(ls_setup_make(s, r, ranks, rank, ranks_per_host));
    s->trainer.eval_only = true;
    s->trainer.recompute = NULL;
    return LS_OK;
}

int64_t ls_setup_total_steps(const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step, int64_t base_epoch)
{
    const int64_t left = r->train.epochs - base_epoch, all = base_step + (left > 0 ? left : 0) * steps_per_epoch;
    return r->train.steps > 0 && r->train.steps < all ? r->train.steps : all;
}

ls_status ls_setup_weights(ls_weights **out, const ls_recipe *r)
{
    char *path = ls_recipe_init_path(r);
    ls_status status = path ? ls_weights_open(out, path) : ls_recipe_init_missing(r);
    free(path);
    LS_TRY(status);
    if (r->model.type == LS_MODEL_T5) {
        ls_weights_leave_out(*out, "encoder.embed_tokens.weight", "shared.weight");
        ls_weights_leave_out(*out, "decoder.embed_tokens.weight", "shared.weight");
        ls_weights_leave_out(*out, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", NULL); /* published T5s have it, none uses it */
    }
    if (r->model.tied && (ls_model_choice_is_text(r->model.type) || ls_model_choice_is_pairs(r->model.type)))
        ls_weights_leave_out(*out, "lm_head.weight", r->model.type == LS_MODEL_T5 ? "shared.weight" : "model.embed_tokens.weight");
    return LS_OK;
}

static void show(const ls_ui *ui, const char *doing, const char *file, int64_t bytes, int64_t total, double rate)
{
    char what[96];
    snprintf(what, sizeof what, "%s %s", doing, file);
    if (ui && ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = what, .done = bytes, .total = total, .unit = "bytes", .rate = rate });
}

static void show_download(void *context, const char *file, int64_t bytes, int64_t total, double rate)
{
    show(context, "downloading", file, bytes, total, rate);
}

static void show_tokenizing(void *context, const char *file, int64_t bytes, int64_t total, double rate)
{
    const char *name = strrchr(file, '/');
    show(context, "tokenizing", name ? name + 1 : file, bytes, total, rate);
}

static ls_status open_text(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split, const ls_ui *ui)
{
    const ls_text_options o = { LS_TEXT_DEFAULTS, .eval_path = r->data.eval_text, .eval_fraction = r->data.eval_fraction,
                                .documents = r->data.documents, .field = r->data.field, .end_token = r->data.end_token, .pack = r->data.pack,
                                .vocabulary = s->classes, .threads = s->trainer.threads, .progress = show_tokenizing,
                                .context = (void *)(uintptr_t)ui, .stop = ui ? ui->stop : NULL };
    ls_status status = ls_text_open_with(out, split, r->data.train_text, r->data.tokenizer, r->data.seq_length, &o);
    if (ui && ui->progress)
        ui->progress(ui->context, NULL);
    return status;
}

static ls_status open_pairs(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split, const ls_ui *ui)
{
    const ls_pairs_options o = { .source = r->data.source, .target = r->data.target, .prefix = r->data.prefix,
                                 .samples = split == LS_SPLIT_TRAIN ? r->data.train_samples : r->data.eval_samples, .eval_path = r->data.eval_text,
                                 .eval_fraction = r->data.eval_fraction, .end_token = r->data.end_token, .vocabulary = s->classes,
                                 .threads = s->trainer.threads, .progress = show_tokenizing, .context = (void *)(uintptr_t)ui, .stop = ui ? ui->stop : NULL };
    ls_status status = ls_pairs_open_with(out, split, r->data.train_text, r->data.tokenizer, r->data.source_length, r->data.target_length, &o);
    if (ui && ui->progress)
        ui->progress(ui->context, NULL);
    return status;
}

/* A file that the recipe names is the recipe's mistake when it is not there. */
static ls_status check_file(const ls_recipe *r, const char *key, const char *path)
{
    return !path[0] || access(path, F_OK) == 0 ? LS_OK : ls_fail(LS_E_USAGE, "%s: %s: no such file (%s)", key, path, ls_recipe_origin(r, key));
}

ls_status ls_setup_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split, const ls_ui *ui)
{
    bool train = split == LS_SPLIT_TRAIN;
    if (!strcmp(r->data.type, "text"))
        return open_text(out, r, s, split, ui);
    if (!strcmp(r->data.type, "pairs"))
        return open_pairs(out, r, s, split, ui);
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .path = r->data.path, .images = train ? r->data.train_images : r->data.eval_images,
                             .labels = train ? r->data.train_labels : r->data.eval_labels, .classes = s->classes,
                             .download = r->data.download, .fallback = r->data.fallback, .mirror = r->data.mirror,
                             .progress = show_download, .context = (void *)(uintptr_t)ui };
    LS_TRY(check_file(r, train ? "data.train_images" : "data.eval_images", o.images));
    LS_TRY(check_file(r, train ? "data.train_labels" : "data.eval_labels", o.labels));
    LS_TRY(ls_dataset_open_with(out, r->data.type, split, &o));
    if (ls_dataset_check(*out, s->channels, s->size, s->size, s->classes) == LS_OK)
        return LS_OK;
    ls_dataset_close(out);
    return LS_E_USAGE; /* keys of the recipe that do not fit together */
}

ls_order ls_setup_order(const ls_recipe *r, const ls_dataset *set)
{
    return (ls_order){ .n = set->n, .global_batch = r->train.global_batch, .micro_batch = r->train.micro_batch,
                       .seed = (uint64_t)r->run.seed, .shuffle = r->data.shuffle, .drop_last = r->train.drop_last };
}

/* One key of the recipe as JSON: the recipe's own YAML for numbers and lists, quoted for words. */
static void add_key(ls_json *j, const ls_recipe *r, const char *section, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", section, name);
    char *value = ls_recipe_value(r, key);
    if (!value)
        return;
    bool raw = value[0] == '[' || value[0] == '-' || (value[0] >= '0' && value[0] <= '9');
    if (raw)
        ls_json_raw(j, name, value);
    else
        ls_json_text(j, name, value);
    free(value);
}

char *ls_setup_config_json(const ls_recipe *r)
{
    static const char *const vit[] = { "image_size", "patch_size", "in_channels", "layers", "heads", "hidden_size", "mlp_size", "classes", NULL };
    static const char *const mlp[] = { "image_size", "in_channels", "hidden", "act", "classes", NULL };
    static const char *const resnet[] = { "image_size", "in_channels", "classes", NULL };
    ls_json j = { 0 };
    if (ls_model_choice_is_text(r->model.type) || ls_model_choice_is_pairs(r->model.type))
        return ls_recipe_config_json(r);
    ls_json_object(&j, NULL);
    ls_json_object(&j, "model");
    add_key(&j, r, "model", "type");
    for (const char *const *k = r->model.type == LS_MODEL_VIT ? vit : r->model.type == LS_MODEL_MLP ? mlp : resnet; *k; k++)
        add_key(&j, r, "model", *k);
    ls_json_close_object(&j);
    ls_json_object(&j, "data");
    ls_json_text(&j, "type", r->data.type);
    ls_json_f64(&j, "mean", r->data.mean);
    ls_json_f64(&j, "std", r->data.std);
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return j.out.data;
}

const ls_calibration *ls_setup_calibration(ls_calibration *store, const ls_trainer_opts *o)
{
    ls_device d;
    ls_device_opts options = { .isa = o->isa, .threads = o->threads, .kernels = o->kernels, .elsewhere = o->elsewhere };
    if (ls_device_open(&d, o->device, &options) != LS_OK || ls_calibration_load(store, &d) != LS_OK)
        return NULL; /* no estimate is better than one for another machine; doctor makes it */
    return store;
}

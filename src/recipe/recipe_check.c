/* recipe_check.c - checks of several keys at once: values that must fit each other, and combinations that
 * this version does not support. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "ckpt/export_format.h"
#include "base/file.h"
#include "base/str.h"
#include "data_row.h"
#include "model_row.h"
#include "optim_row.h"
#include "passes/precision.h"
#include "recipe_check.h"
#include "recipe_use.h"
#include "recipe_fields.h"
#include "text/rouge.h"

static const char *at(const ls_recipe *r, const char *key) { return ls_recipe_where(r, key); }

/* "my" of "recipes/my.yaml", "vit" of "bundled vit". */
static char *stem_of(const char *name, ls_arena *arena)
{
    const char *slash = strrchr(name, '/'), *space = strrchr(name, ' ');
    if (slash)
        name = slash + 1;
    else if (space)
        name = space + 1;
    char *stem = ls_arena_strdup(arena, name), *dot = strrchr(stem, '.');
    if (dot)
        *dot = 0;
    return stem;
}

static ls_status check_name(ls_recipe *r)
{
    if (!*r->run.name)
        r->run.name = stem_of(r->state->name, &r->state->arena);
    const char *n = r->run.name;
    if (!*n || *n == '.' || strchr(n, '/') || strlen(n) > 100)
        return ls_fail(
            LS_E_USAGE,
            "%s: '%s' cannot be a folder's name (not empty, no '/', no leading dot, at most 100 bytes)",
            at(r, "run.name"), n);
    for (const char *p = n; *p; p++)
        if (iscntrl((unsigned char)*p))
            return ls_fail(LS_E_USAGE, "%s: the run's name contains a control character", at(r, "run.name"));
    if (!*r->run.storage)
        return ls_fail(LS_E_USAGE, "%s: must not be empty: it is the folder that holds runs",
                       at(r, "run.storage"));
    const bool elsewhere = !strncmp(r->run.storage, "s3://", 5) || !strncmp(r->run.storage, "file://", 7);
    return elsewhere ? LS_OK : ls_path_check(at(r, "run.storage"), r->run.storage);
}

/* data.size and model.image_size are one number. */
static ls_status take_size(ls_recipe *r)
{
    if (!r->data.size || strcmp(r->data.type, "images") || r->model.inputs.n)
        return LS_OK;
    if (!ls_recipe_setting(r->state, "model.image_size")->where)
        r->model.image_size = r->data.size;
    return r->model.image_size == r->data.size
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: %lld, and model.image_size is %lld: set one of them, or both alike",
                         ls_recipe_where_either(r, "data.size", "model.image_size"), (long long)r->data.size,
                         (long long)r->model.image_size);
}

static ls_status check_model(const ls_recipe *r)
{
    const ls_model_row *m = ls_recipe_model(r);
    const long long image = r->model.image_size, channels = r->model.in_channels;
    if (ls_recipe_samples(r) == LS_SAMPLES_IMAGES && (double)image * (double)image * (double)channels > 1e9)
        return ls_fail(LS_E_USAGE, "%s: an image of %lld x %lld x %lld numbers is too large for this version",
                       at(r, "model.image_size"), channels, image, image);
    if (m->check)
        LS_TRY(m->check(r));
    if (ls_recipe_samples(r) == LS_SAMPLES_IMAGES)
        LS_TRY(ls_recipe_check_numbers(r));
    if (!*r->model.init)
        return ls_fail(LS_E_USAGE, "%s: empty; write `random` or a path to weights", at(r, "model.init"));
    LS_TRY(ls_path_check(at(r, "model.init"), r->model.init));
    return LS_OK;
}

static const char *samples_text(ls_samples s)
{
    static const char *const TEXTS[] = { [LS_SAMPLES_IMAGES] = "images",
                                         [LS_SAMPLES_TEXT] = "text",
                                         [LS_SAMPLES_PAIRS] = "pairs of texts",
                                         [LS_SAMPLES_FIELDS] = "named fields" };
    return TEXTS[s];
}

static bool is_module(const ls_model_row *m) { return ls_model_has_key(m, "config"); }
static bool takes_images(const ls_model_row *m) { return m->samples == LS_SAMPLES_IMAGES; }
static bool takes_text(const ls_model_row *m) { return m->samples == LS_SAMPLES_TEXT; }
static bool takes_pairs(const ls_model_row *m) { return m->samples == LS_SAMPLES_PAIRS; }
static bool takes_fields(const ls_model_row *m)
{
    return ls_model_has_key(m, "inputs") || m->samples == LS_SAMPLES_FIELDS;
}

/* data.mean or data.std: one number, or one for each channel. */
static ls_status check_channels(const ls_recipe *r, const char *key, const ls_real_list *l)
{
    if (l->n == 1 || l->n == r->model.in_channels || ls_recipe_samples(r) != LS_SAMPLES_IMAGES)
        return LS_OK;
    return ls_fail(
        LS_E_USAGE, "%s: %d numbers, and model.in_channels is %lld: give one number, or one for each channel",
        ls_recipe_where_either(r, key, "model.in_channels"), l->n, (long long)r->model.in_channels);
}

static ls_status check_data(const ls_recipe *r)
{
    static const ls_model_test TAKES[] = { [LS_SAMPLES_IMAGES] = takes_images,
                                           [LS_SAMPLES_TEXT] = takes_text,
                                           [LS_SAMPLES_PAIRS] = takes_pairs,
                                           [LS_SAMPLES_FIELDS] = takes_fields };
    const ls_data_row *d = ls_recipe_data(r);
    const ls_model_row *m = ls_recipe_model(r);
    char list[LS_MODEL_LIST];
    const bool fields = ls_recipe_samples(r) == LS_SAMPLES_FIELDS,
               takes = d->samples == ls_recipe_samples(r) || (fields && d->fields && !is_module(m)) ||
                       (d->module && is_module(m));
    if (fields && is_module(m) && !takes && d->samples == LS_SAMPLES_IMAGES)
        return ls_fail(
            LS_E_USAGE,
            "%s: a module takes fashion-mnist, mnist, idx, shapes, arrays or data of its own in this "
            "version: write the pictures of data.type %s as idx or arrays (docs/modules.md)",
            ls_recipe_where_either(r, "data.type", "model.type"), d->name);
    if (!takes)
        return ls_fail(LS_E_USAGE, "%s: %s is for models of %s (%s), and model.type %s is one of %s",
                       ls_recipe_where_either(r, "data.type", "model.type"), d->name,
                       samples_text(d->samples), ls_model_list(list, TAKES[d->samples]), m->name,
                       samples_text(ls_recipe_samples(r)));
    LS_TRY(check_channels(r, "data.mean", &r->data.mean));
    LS_TRY(check_channels(r, "data.std", &r->data.std));
    if (d->samples == LS_SAMPLES_IMAGES)
        LS_TRY(ls_recipe_check_augment(r));
    if (d->check)
        LS_TRY(d->check(r));
    return ls_recipe_check_balance(r);
}

/* A micro-batch up to `micro` that divides the batch and, if four divides the batch, lets four ranks share
 * it. By Euclid's algorithm. */
static long long fitting(long long batch, long long micro)
{
    long long n = batch % 4 ? batch : batch / 4;
    while (micro) {
        const long long rest = n % micro;
        n = micro;
        micro = rest;
    }
    return n;
}

static ls_status check_train(const ls_recipe *r)
{
    const long long batch = r->train.global_batch, micro = r->train.micro_batch;
    if (micro && batch % micro)
        return ls_fail(LS_E_USAGE,
                       "%s: %lld does not divide the %lld samples of a step (%s): change one of the two, for "
                       "example with --set train.micro_batch=%lld",
                       at(r, "train.micro_batch"), micro, batch, at(r, "train.global_batch"),
                       fitting(batch, micro));
    if (r->train.lora.rank && !r->model.init_strict)
        return ls_fail(
            LS_E_USAGE,
            "%s: with train.lora every frozen parameter comes from model.init: leave this key out, "
            "and name what the weights lack in model.reset and train.lora.save",
            at(r, "model.init_strict"));
    const ls_choice_row *optimizer = &LS_OPTIMIZERS[r->optimizer.type],
                        *schedule = &LS_SCHEDULES[r->schedule.type];
    if (optimizer->check)
        LS_TRY(optimizer->check(r));
    return schedule->check ? schedule->check(r) : LS_OK;
}

static ls_status check_device(const ls_recipe *r)
{
    bool ref = r->device == LS_RUN_REF;
    if (ref && strcmp(r->isa, "auto"))
        return ls_fail(LS_E_USAGE, "%s: device ref has no instruction sets to choose from",
                       ls_recipe_where_either(r, "isa", "device"));
    const bool gpu = r->device == LS_RUN_CUDA, of_gpu = !strncmp(r->isa, "sm_", 3);
    if (!gpu && r->device != LS_RUN_AUTO &&
        (r->kernels == LS_KERNELS_TF32 || r->kernels == LS_KERNELS_CUBLASLT))
        return ls_fail(LS_E_USAGE, "%s: %s is for device cuda",
                       ls_recipe_where_either(r, "kernels", "device"),
                       r->kernels == LS_KERNELS_TF32 ? "tf32" : "cublaslt");
    if (gpu && strcmp(r->isa, "auto") && !of_gpu)
        return ls_fail(
            LS_E_USAGE,
            "%s: %s is an instruction set of CPUs; device cuda has its GPU's (auto), and plans for "
            "another machine may say sm_80 to sm_120",
            ls_recipe_where_either(r, "isa", "device"), r->isa);
    if (!gpu && r->device != LS_RUN_AUTO && of_gpu)
        return ls_fail(LS_E_USAGE, "%s: %s is an architecture of GPUs: it needs device: cuda",
                       ls_recipe_where_either(r, "isa", "device"), r->isa);
    return LS_OK;
}

static ls_status check_parallel(ls_recipe *r)
{
    ls_status s = ls_recipe_check_parallel(r);
    if (s != LS_OK)
        return ls_recipe_blame(r, s == LS_E_MEMORY ? s : LS_E_USAGE);
    return ls_recipe_check_recompute(r);
}

/* *yes: the key has its default. LS_E_MEMORY. */
static ls_status is_default(bool *yes, const ls_key *k, const ls_recipe *r)
{
    ls_recipe plain = *r;
    ls_str is = { 0 }, usual = { 0 };
    const ls_yaml *set = ls_recipe_setting(r->state, k->key)->value;
    *yes = !set;
    if (!set || !k->fallback)
        return LS_OK;
    LS_TRY(ls_key_default(k, &plain, &r->state->arena));
    ls_key_print(k, r, &is);
    ls_key_print(k, &plain, &usual);
    *yes = !strcmp(ls_str_text(&is), ls_str_text(&usual));
    ls_str_inherit(&is, &usual);
    const ls_status s = ls_str_status(&is);
    ls_str_release(&is);
    ls_str_release(&usual);
    return s;
}

static bool is_recorded(const ls_key *k, const ls_recipe *r)
{
    return r->state->record && strcmp(ls_recipe_origin(r, k->key), "--set");
}

/* The recipe of an older run may have a word that is refused today. It is compared and printed. */
static ls_status check_accepted(const ls_recipe *r)
{
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        if (!k->now || !ls_key_applies(k, r) || (k->words && is_recorded(k, r)))
            continue;
        char room[256];
        ls_str is = LS_STR_IN(room);
        ls_key_print(k, r, &is);
        ls_status s = ls_str_status(&is);
        if (s == LS_OK && !ls_key_accepts(k, ls_str_text(&is)))
            s = ls_fail(LS_E_USAGE, "%s: %s is refused: %s (accepted: %s)", at(r, k->key), ls_str_text(&is),
                        k->why_refused, k->now);
        ls_str_release(&is);
        LS_TRY(s);
    }
    return LS_OK;
}

/* A key that was set is an error if the value of another key leaves it without effect. */
static ls_status check_effects(const ls_recipe *r)
{
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        for (const char *const *need = k->needs; need && *need; need++) {
            bool usual;
            if (!ls_key_applies(k, r) || ls_key_condition(*need, r))
                continue;
            LS_TRY(is_default(&usual, k, r));
            if (usual || is_recorded(k, r))
                continue;
            const char *decider = ls_arena_printf(&r->state->arena, "%.*s", (int)strcspn(*need, " "), *need);
            ls_str is = { 0 }, wants = { 0 };
            ls_key_print(ls_key_named(decider), r, &is);
            ls_key_need_text(&wants, *need);
            ls_status s = ls_fail(LS_E_USAGE,
                                  "%s: has no effect with %s %s (%s); it needs %s, or its default, %s",
                                  at(r, k->key), decider, ls_str_text(&is), ls_recipe_origin(r, decider),
                                  ls_str_text(&wants), *k->fallback ? k->fallback : "\"\"");
            ls_str_release(&is);
            ls_str_release(&wants);
            return s;
        }
    }
    return LS_OK;
}

/* A key that has a value of its own, for which there is nothing to do. */
static ls_status check_useful(const ls_recipe *r, const char *key, bool useful, const char *why)
{
    const ls_key *k = ls_key_named(key);
    bool usual;
    LS_TRY(is_default(&usual, k, r));
    return useful || usual || is_recorded(k, r)
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: has no effect: %s", at(r, key), why);
}

/* Texts are divided although nothing is evaluated; pictures and arrays then are not. */
static ls_status check_held_out(const ls_recipe *r)
{
    const ls_samples of = ls_recipe_data(r)->samples;
    if (of == LS_SAMPLES_FIELDS)
        LS_TRY(check_useful(r, "data.tokenizer", ls_model_has_key(ls_recipe_model(r), "pad_token"),
                            "the model reads no texts"));
    return check_useful(r, "data.eval_fraction",
                        of == LS_SAMPLES_TEXT || of == LS_SAMPLES_PAIRS || r->eval.every_epochs >= 0,
                        "with eval.every_epochs -1 nothing is evaluated, and all samples are trained on");
}

static ls_status check_precision(const ls_recipe *r)
{
    static const char *const SCALER[] = { "precision.scaler.init", "precision.scaler.growth",
                                          "precision.scaler.backoff", "precision.scaler.interval" };
    const bool ref = r->device == LS_RUN_REF;
    const struct {
        const char *key;
        ls_dtype type;
    } types[] = { { "precision.param", r->precision.param },
                  { "precision.reduce", r->precision.reduce },
                  { "precision.output", r->precision.output } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == LS_F64 && !ref)
            return ls_fail(LS_E_USAGE, "%s: f64 is for device ref", at(r, types[i].key));
    if (r->precision.output == LS_F64 && r->precision.param != LS_F64)
        return ls_fail(LS_E_USAGE, "%s: f64 needs precision.param f64", at(r, "precision.output"));
    for (size_t i = 1; i < sizeof types / sizeof types[0]; i++)
        if (!r->state->record && r->precision.param == LS_F64 && ls_dtype_size(types[i].type) < 4)
            return ls_fail(LS_E_USAGE,
                           "%s: %s has no effect with precision.param f64, which computes everything in f64; "
                           "leave it out",
                           at(r, types[i].key), ls_dtype_name(types[i].type));
    const ls_precision all = { .param = r->precision.param,
                               .output = r->precision.output,
                               .reduce = r->precision.reduce,
                               .cast_forward_inputs = r->precision.cast_forward_inputs,
                               .modules = r->precision.modules };
    LS_TRY(ls_recipe_blame(r, ls_precision_check(&all)));
    const bool narrow = ls_dtype_size(r->precision.param) < 4 || *r->precision.modules;
    LS_TRY(check_useful(r, "precision.cast_forward_inputs", narrow,
                        "everything computes in one type (precision.param, precision.modules)"));
    for (size_t i = 0; i < sizeof SCALER / sizeof SCALER[0]; i++)
        LS_TRY(check_useful(r, SCALER[i], ls_precision_has_f16(&all),
                            "nothing computes in f16 (precision.param, precision.modules)"));
    return LS_OK;
}

/* An exported model is a path in the run's folder. It must not be one of the run's own files. */
static ls_status check_export(const ls_recipe *r, const char *key, const char *to)
{
    static const char *const OWN[] = { "checkpoints/", "log/", "tensorboard/" };
    if (!*to)
        return LS_OK;
    if (ls_export_format_of(to) == LS_EXPORT_BY_NAME)
        return ls_fail(LS_E_USAGE, "%s: %s: its name must end in " LS_EXPORT_NAMES, at(r, key), to);
    bool out = *to == '/' || !strncmp(to, "../", 3) || strstr(to, "/../");
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++)
        out |= !strncmp(to, OWN[i], strlen(OWN[i]));
    return out ? ls_fail(LS_E_USAGE,
                         "%s: %s: write a name below the run's folder, and not in checkpoints, log or "
                         "tensorboard there; `lockstep export RUN --to FILE` writes anywhere",
                         at(r, key), to)
               : LS_OK;
}

ls_status ls_recipe_best_mode(ls_recipe *r, int direction)
{
    const char *metric = r->checkpoint.best.metric;
    const ls_metric_mode mode = direction < 0 ? LS_MODE_MIN : LS_MODE_MAX;
    if (!ls_recipe_setting(r->state, "checkpoint.best.mode")->where) {
        if (!direction)
            return ls_fail(LS_E_USAGE,
                           "%s: %s: is it better when it is smaller or larger? set checkpoint.best.mode: min "
                           "or max",
                           at(r, "checkpoint.best.metric"), metric);
        r->checkpoint.best.mode = mode;
    }
    if (direction && mode != r->checkpoint.best.mode)
        return ls_fail(LS_E_USAGE, "%s: %s is better when it is %s: set checkpoint.best.mode: %s",
                       ls_recipe_where_either(r, "checkpoint.best.mode", "checkpoint.best.metric"), metric,
                       direction < 0 ? "smaller" : "larger", direction < 0 ? "min" : "max");
    return LS_OK;
}

static ls_status check_checkpoint(ls_recipe *r)
{
    if (!strcmp(r->checkpoint.best.metric, "loss")) /* what older versions called it */
        r->checkpoint.best.metric = "train_loss";
    const char *metric = r->checkpoint.best.metric;
    const bool of_texts = ls_metric_of_texts(metric), accuracy = !strcmp(metric, "eval_accuracy"),
               loss = !strcmp(metric, "train_loss") || !strcmp(metric, "eval_loss");
    LS_TRY(check_export(r, "checkpoint.export", r->checkpoint.export_to));
    LS_TRY(check_export(r, "checkpoint.export_best", r->checkpoint.export_best));
    LS_TRY(
        check_useful(r, "checkpoint.base", r->train.lora.rank || r->checkpoint.frozen == LS_FROZEN_REFERENCE,
                     "without train.lora and checkpoint.frozen: reference a checkpoint holds all weights"));
    if (!loss && (strncmp(metric, "eval_", 5) || !metric[5]))
        return ls_fail(LS_E_USAGE,
                       "%s: %s: write train_loss (the mean over the epoch) or eval_NAME of a metric, "
                       "such as eval_loss or eval_%s",
                       at(r, "checkpoint.best.metric"), metric,
                       *metric && strcmp(metric, "eval_") != 0 ? metric : "accuracy");
    if (!r->state->record && r->eval.every_epochs < 0 && !loss)
        return ls_fail(LS_E_USAGE, "%s: %s has no effect with eval.every_epochs -1: nothing is evaluated",
                       at(r, "checkpoint.best.metric"), metric);
    if (!r->state->record && of_texts && !r->eval.generate.tokens)
        return ls_fail(LS_E_USAGE, "%s: %s needs eval.generate.tokens: without it no text is generated",
                       at(r, "checkpoint.best.metric"), metric);
    if (!r->state->record && r->train.early_stopping.patience && r->eval.every_epochs < 1 &&
        strcmp(metric, "train_loss"))
        return ls_fail(LS_E_USAGE,
                       "%s: %s is not measured at the ends of epochs, because eval.every_epochs is %lld: "
                       "set it to 1, or checkpoint.best.metric to train_loss",
                       at(r, "train.early_stopping.patience"), metric, (long long)r->eval.every_epochs);
    /* of other metrics the model knows (ls_setup_best) */
    return loss || accuracy || of_texts ? ls_recipe_best_mode(r, loss ? -1 : 1) : LS_OK;
}

ls_status ls_recipe_check(ls_recipe *r)
{
    LS_TRY(check_accepted(r));
    LS_TRY(check_name(r));
    LS_TRY(take_size(r));
    LS_TRY(check_model(r));
    LS_TRY(check_data(r));
    LS_TRY(check_held_out(r));
    LS_TRY(check_train(r));
    LS_TRY(check_device(r));
    LS_TRY(check_parallel(r));
    LS_TRY(check_precision(r));
    LS_TRY(check_checkpoint(r));
    return check_effects(r);
}

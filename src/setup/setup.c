/* setup.c - recipe -> builder, options, data. The only file that knows both the words of a recipe and the
 * options of the library. */
#include "setup.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread_pool.h"
#include "base/str.h"
#include "ckpt/select.h"
#include "data/weighted_set.h"
#include "passes/passes.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_use.h"
#include "recipe/shared_model.h"
#include "step/state_lists.h"

static ls_status no_even_batch(const ls_recipe *r, long long batch, long long ranks)
{
    ls_str counts = { 0 };
    for (long long n = 1, listed = 0; n <= batch && listed < 12; n++)
        if (batch % n == 0)
            ls_str_printf(&counts, "%s%lld", listed++ ? ", " : "", n);
    ls_status s = ls_fail(LS_E_USAGE,
                          "%s: %lld data ranks do not divide %lld samples; data ranks that would do: %s; "
                          "or a global_batch of %lld",
                          ls_recipe_where(r, "train.global_batch"), ranks, batch, ls_str_text(&counts),
                          (batch / ranks + 1) * ranks);
    ls_str_release(&counts);
    return s;
}

/* Resolves train.micro_batch 0, and divides the micro-batches evenly over the data ranks. */
static ls_status batches(ls_setup *s, ls_recipe *r)
{
    const ls_parallel *p = &s->trainer.parallel;
    long long batch = r->train.global_batch, ranks = ls_mesh_data_ranks(&p->mesh);
    if (r->train.micro_batch == 0) {
        char text[32];
        if (batch % ranks)
            return no_even_batch(r, batch, ranks);
        snprintf(text, sizeof text, "%lld", batch / ranks);
        LS_TRY(ls_recipe_set(r, "train.micro_batch", text, LS_ORIGIN_PER_RANK));
    }
    s->trainer.micro_batch = r->train.micro_batch;
    s->trainer.eval_batch = r->eval.batch ? r->eval.batch : r->train.micro_batch;
    s->trainer.micro_batches = batch / r->train.micro_batch; /* the recipe was checked: it divides */
    ls_status status = ls_parallel_share(&s->share, p, s->trainer.micro_batches);
    return status == LS_OK
               ? status
               : ls_fail_in(status, "%s: %lld of global_batch %lld", ls_recipe_where(r, "train.micro_batch"),
                            (long long)r->train.micro_batch, batch);
}

static int threads(ls_cpu_limit *limit, const ls_recipe *r, int ranks, int ranks_per_host)
{
    int here = ranks_per_host > 0 && ranks_per_host < ranks ? ranks_per_host : ranks;
    const int each = ls_default_threads(here, limit);
    return r->threads ? (int)r->threads : r->cores_per_worker ? (int)r->cores_per_worker : each;
}

static const char *const DEVICES[] = { [LS_RUN_CPU] = "cpu",
                                       [LS_RUN_CUDA] = "cuda",
                                       [LS_RUN_REF] = "ref",
                                       [LS_RUN_EMULATED] = "emulated",
                                       [LS_RUN_AUTO] = NULL };

static const char *const KERNELS[] = { [LS_KERNELS_OWN] = "own",
                                       [LS_KERNELS_ONEDNN] = "own",
                                       [LS_KERNELS_TF32] = "tf32",
                                       [LS_KERNELS_CUBLASLT] = "cublaslt" };

static ls_status setup_make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    *s = (ls_setup){ .trainer = { LS_TRAINER_DEFAULTS }, .lr = r->optimizer.lr };
    LS_TRY(ls_recipe_open_model(r));
    LS_TRY(ls_recipe_parallel(&s->trainer.parallel, r, ranks, rank, ranks_per_host));
    LS_TRY(batches(s, r));
    LS_TRY(ls_recipe_name_columns(r));
    LS_TRY(ls_shared_model_identify(r));
    LS_TRY(ls_recipe_check_balance(r)); /* a module's classes are known now */
    s->model = ls_recipe_model(r);
    const bool images = ls_recipe_samples(r) == LS_SAMPLES_IMAGES;
    s->channels = images ? (int)r->model.in_channels : 0;
    s->size = images ? (int)r->model.image_size : 0;
    s->classes = (int)(images ? r->model.classes : r->model.vocab_size);
    ls_trainer_opts *t = &s->trainer;
    t->device = DEVICES[r->device];
    t->isa = strcmp(r->isa, "auto") ? r->isa : NULL;
    t->threads = threads(&s->threads_by, r, ranks, ranks_per_host);
    t->kernels = KERNELS[r->kernels];
    t->accumulation = r->train.accumulate;
    t->padding = !r->train.drop_last;
    t->mean_of_means = r->train.loss_mean == LS_LOSS_MEAN_MICRO_BATCH;
    t->optimizer = ls_recipe_optimizer(r);
    t->n_groups = (int)r->optimizer.groups.n;
    t->groups = r->optimizer.groups.at;
    t->clip_norm = r->train.clip_norm;
    t->nonfinite = r->train.nonfinite;
    t->max_skips = r->train.max_skips;
    t->ema_decay = r->optimizer.ema_decay;
    t->freeze = ls_recipe_freeze(r);
    t->metrics = r->eval.metrics;
    t->stage_saves = r->checkpoint.async;
    t->param = r->precision.param;
    t->output = r->precision.param == LS_F64 ? LS_F64 : r->precision.output;
    t->cast_forward_inputs = r->precision.cast_forward_inputs;
    t->modules = r->precision.modules;
    t->scaler = r->precision.scaler;
    s->schedule = ls_recipe_schedule(r);
    t->recompute = ls_recipe_recompute(r);
    return LS_OK;
}

ls_status ls_setup_make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    ls_status status = setup_make(s, r, ranks, rank, ranks_per_host);
    return ls_recipe_blame(r, status);
}

ls_status ls_setup_compile(ls_compiled *c, const ls_setup *s, const ls_recipe *r,
                           const ls_calibration *calibration)
{
    LS_TRY(ls_recipe_blame(r, ls_compile(c, ls_recipe_build, r, &s->trainer, calibration)));
    c->only_trained = ls_recipe_leaves_base(r);
    ls_status status = c->only_trained && c->staging_bytes ? ls_state_share_bytes(&c->staging_bytes, c)
                                                           : LS_OK;
    if (status != LS_OK)
        ls_compiled_release(c);
    return status;
}

ls_status ls_setup_inference(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host)
{
    char batch[32];
    const int64_t each = r->train.micro_batch ? r->train.micro_batch
                                              : (r->train.global_batch + ranks - 1) / ranks;
    snprintf(batch, sizeof batch, "%lld", (long long)each * ranks);
    LS_TRY(ls_recipe_set(r, "train.global_batch", batch, "evaluation"));
    /* with slices the last two decide bits on any mesh; without, they would have no effect on the new one */
    const char *const layout[] = { "parallel.mesh",
                                   "parallel.data",
                                   "parallel.reshard_after_forward",
                                   "parallel.bucket",
                                   r->parallel.slices ? NULL : "parallel.tensor",
                                   "parallel.sequence",
                                   NULL };
    LS_TRY(ls_recipe_reset(r, layout));
    LS_TRY(ls_setup_make(s, r, ranks, rank, ranks_per_host));
    s->trainer.eval_only = true;
    s->trainer.recompute = NULL;
    return LS_OK;
}

int64_t ls_setup_total_steps(const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                             int64_t base_epoch)
{
    const int64_t left = r->train.epochs - base_epoch,
                  all = base_step + (left > 0 ? left : 0) * steps_per_epoch;
    return r->train.steps > 0 && r->train.steps < all ? r->train.steps : all;
}

/* schedule.step_epochs counts epochs from the end of the warm-up, and ls_schedule counts steps. So an epoch
 * becomes E = steps_per_epoch steps. If an earlier change gave epochs another length, `base_epoch` epochs
 * took `base_step` steps instead of base_epoch * E, and step_offset makes up for the difference. A warm-up
 * that ended in those epochs is taken out of them in proportion. */
void ls_setup_cut_epochs(ls_schedule *s, const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                         int64_t base_epoch)
{
    if (!r->schedule.step_epochs)
        return;
    const int64_t before = base_epoch * steps_per_epoch; /* what base_step would be, had all epochs E steps */
    const int64_t warm = s->warmup_steps;
    s->step_size = r->schedule.step_epochs * steps_per_epoch;
    if (warm < base_step) /* the product is exact, so that a whole quotient is not rounded down */
        s->step_offset = before + warm - base_step -
                         (int64_t)((double)warm * (double)before / (double)base_step);
}

/* Names of tensors contain layer numbers, so the largest number in them is at least that of the last layer.
 * This check refuses a configuration with thousands of layers before a model is built from it. */
static ls_status check_layers(const ls_weights *w, const ls_recipe *r)
{
    int64_t most = -1;
    for (int64_t i = 0; i < ls_weights_count(w); i++)
        for (const char *p = ls_weights_at(w, i)->name; *p;) {
            char *end;
            const int64_t number = isdigit((unsigned char)*p) ? strtoll(p, &end, 10) : -1;
            p = number >= 0 ? end : p + 1;
            most = number > most ? number : most;
        }
    const bool decoder = r->model.decoder_layers > r->model.layers;
    const int64_t layers = decoder ? r->model.decoder_layers : r->model.layers;
    const char *key = decoder ? "model.decoder_layers" : "model.layers";
    if (!ls_model_makes_text(ls_recipe_model(r)) || layers - 1 <= most)
        return LS_OK;
    return ls_fail(LS_E_SHAPE,
                   "%s is %lld (%s), and the tensors of %s are numbered up to %lld: the configuration is of "
                   "another model",
                   key, (long long)layers, ls_recipe_origin(r, key), r->model.init, (long long)most);
}

/* Says that config.json ties the output head to the embedding, and the weights do not. */
static void say_untied(const ls_recipe *r)
{
    const char *origin = ls_recipe_origin(r, "model.tied"), *end = strstr(origin, LS_RECIPE_UNTIED);
    if (!r->model.tied && end)
        ls_log_info(
            "%.*s: tie_word_embeddings is true, and the weights have a head of another type or with other "
            "values than the embedding: the two are not tied (model.tied: false)",
            (int)(end - origin), origin);
}

/* Whether a name fits a rule, in which a * stands for anything. *head and *tail are the lengths of what
 * stands before it and behind it. */
static bool fits(const char *name, const char *rule, size_t *head, size_t *tail)
{
    const char *star = strchr(rule, '*');
    const size_t size = strlen(name);
    *head = star ? (size_t)(star - rule) : 0;
    *tail = star ? strlen(star + 1) : 0;
    return star ? size >= *head + *tail && !strncmp(name, rule, *head) &&
                      !strcmp(name + size - *tail, star + 1)
                : !strcmp(name, rule);
}

typedef struct renaming {
    const ls_recipe *recipe;
    ls_arena arena;
    int64_t used[LS_RECIPE_LIST]; /* how many tensors each rule has renamed */
} renaming;

/* The name that the first rule which fits gives; NULL: for model.reset the tensor is left out. */
static const char *name_here(void *context, const char *name)
{
    renaming *n = context;
    const ls_rename_list *l = &n->recipe->model.rename;
    const char *here = name;
    for (int64_t i = 0; i < l->n && here == name; i++) {
        const char *to = l->at[i].to, *put = strchr(to, '*');
        size_t head, tail;
        if (!fits(name, l->at[i].from, &head, &tail))
            continue;
        here = put ? ls_arena_printf(&n->arena, "%.*s%.*s%s", (int)(put - to), to,
                                     (int)(strlen(name) - head - tail), name + head, put + 1)
                   : ls_arena_strdup(&n->arena, to);
        n->used[i]++;
    }
    return ls_words_freeze(n->recipe->model.reset, here) ? NULL : here;
}

/* Applies model.rename, then leaves out what model.reset names. */
static ls_status rename_and_reset(ls_weights *w, const ls_recipe *r)
{
    renaming n = { .recipe = r };
    if (!r->model.rename.n && !*r->model.reset)
        return LS_OK;
    ls_arena_init(&n.arena);
    ls_status s = ls_arena_outcome(&n.arena, ls_weights_select(w, name_here, &n));
    for (int64_t i = 0; i < r->model.rename.n && s == LS_OK; i++)
        if (!n.used[i])
            s = ls_fail(LS_E_USAGE,
                        "%s: %s names no tensor of %s that an earlier rule leaves (lockstep inspect "
                        "lists them)",
                        ls_recipe_where(r, "model.rename"), r->model.rename.at[i].from, r->model.init);
    ls_arena_release(&n.arena);
    return s;
}

static const char *prefixed(void *context, const char *name)
{
    renaming *n = context;
    return ls_arena_printf(&n->arena, "%s%s", ls_recipe_model(n->recipe)->huggingface->prefix, name);
}

/* Files of transformers' model without its head leave the prefix out. */
static ls_status add_prefix(ls_weights *w, const ls_recipe *r)
{
    const ls_huggingface *h = ls_recipe_model(r)->huggingface;
    renaming n = { .recipe = r };
    for (int64_t i = 0; i < ls_weights_count(w); i++)
        if (!h || !h->prefix || !strncmp(ls_weights_at(w, i)->name, h->prefix, strlen(h->prefix)))
            return LS_OK;
    ls_arena_init(&n.arena);
    const ls_status s = ls_arena_outcome(&n.arena, ls_weights_select(w, prefixed, &n));
    ls_arena_release(&n.arena);
    return s;
}

static void leave_out(ls_weights *w, const ls_second_name *n)
{
    size_t head, tail;
    for (int64_t i = ls_weights_count(w) - 1; i >= 0; i--)
        if (fits(ls_weights_at(w, i)->name, n->name, &head, &tail))
            ls_weights_leave_out(w, ls_weights_at(w, i)->name, n->same_as);
}

ls_status ls_setup_weights(ls_weights **out, const ls_recipe *r) { return ls_setup_weights_at(out, r, NULL); }

ls_status ls_setup_weights_at(ls_weights **out, const ls_recipe *r, const char *path)
{
    ls_status status = path ? ls_recipe_open_weights(out, r, path) : ls_recipe_open_init(out, r);
    if (status == LS_OK && r->model.init_strict && (status = check_layers(*out, r)) != LS_OK)
        ls_weights_close(out);
    if (status == LS_OK &&
        ((status = add_prefix(*out, r)) != LS_OK || (status = rename_and_reset(*out, r)) != LS_OK))
        ls_weights_close(out);
    LS_TRY(status);
    say_untied(r);
    for (const ls_second_name *n = ls_recipe_model(r)->second_names; n && n->name; n++)
        if ((r->model.tied || !n->if_tied) && (!n->when || n->when(r)))
            leave_out(*out, n);
    return LS_OK;
}

typedef struct opening {
    const ls_ui *ui;
    const char *doing;
} opening;

static void setup_show(void *context, const char *file, int64_t bytes, int64_t total, double rate)
{
    const opening *o = context;
    const char *name = strrchr(file, '/');
    char what[96];
    snprintf(what, sizeof what, "%s %s", o->doing, name ? name + 1 : file);
    o->ui->progress(
        o->ui->context,
        &(ls_progress){ .what = what, .done = bytes, .total = total, .unit = "bytes", .rate = rate });
}

ls_status ls_setup_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split,
                        const ls_ui *ui)
{
    const ls_data_row *d = ls_recipe_data(r);
    const bool shown = ui && ui->progress;
    opening context = { ui, d->doing };
    const ls_data_opening o = { .threads = s->trainer.threads,
                                .classes = s->classes,
                                .progress = shown ? setup_show : NULL,
                                .context = &context };
    *out = NULL;
    LS_TRY(ls_recipe_check_names(r, "data."));
    const ls_status status = d->open(out, r, split, &o);
    if (shown)
        ui->progress(ui->context, NULL);
    return ls_recipe_blame(r, status);
}

ls_order ls_setup_order(const ls_recipe *r, const ls_dataset *set)
{
    return (ls_order){ .n = set->n,
                       .global_batch = r->train.global_batch,
                       .micro_batch = r->train.micro_batch,
                       .seed = (uint64_t)r->run.seed,
                       .shuffle = r->data.shuffle,
                       .drop_last = r->train.drop_last,
                       .steps = r->train.steps_per_epoch,
                       .augment = true,
                       .draws = ls_dataset_draws(set) };
}

ls_status ls_setup_check_order(const ls_recipe *r, const ls_order *order)
{
    const ls_status s = ls_recipe_blame(r, ls_order_check(order));
    if (s == LS_OK || r->data.train_percentage >= 100)
        return s;
    return ls_fail(s, "%s; data.train_percentage is %g: a larger one takes more of the data",
                   ls_error_message(), r->data.train_percentage);
}

const ls_calibration *ls_setup_calibration(ls_calibration *store, const ls_trainer_opts *o)
{
    ls_device d;
    ls_device_opts options = {
        .isa = o->isa, .threads = o->threads, .kernels = o->kernels, .elsewhere = o->elsewhere
    };
    if (ls_device_open(&d, o->device, &options) != LS_OK)
        return NULL;
    if (ls_calibration_load(store, &d) == LS_OK || ls_calibration_of_sheet(store, &d) == LS_OK)
        return store;
    return NULL; /* rather no estimate than one of another machine; `lockstep doctor` measures */
}

/* generate_command.c - see generate_command.h. A terminal shows each token at once. */
#include "base/shown.h"
#include "generate_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "data/tokenize.h"
#include "recipe/recipe_read.h"
#include "record/rundir.h"
#include "target.h"
#include "setup/folder.h"

enum { MAX_ENDS = 16 };

typedef struct job {
    const ls_predict_opts *o;
    const ls_ui *ui;
    ls_target target; /* without a checkpoint: a folder of Hugging Face's */
    ls_setup setup;
    ls_tokenizer *tokenizer;
    ls_text_stream *stream;
    ls_generator *generator;
    int32_t ends[MAX_ENDS]; /* tokens that end a text; an empty prompt becomes the first of them */
    int n_ends;
    ls_tokens prompt, made;
    int64_t tokens;   /* the most tokens to make: as many as asked for, or as the context has room for */
    ls_str text;      /* generated so far */
    ls_status status; /* of the call-back */
} job;

/* Whether the name is neither a folder nor a recipe. */
static bool is_nothing(const char *name)
{
    static const char END[] = ".safetensors";
    const size_t n = strlen(name), m = sizeof END - 1;
    if (ls_dir_exists(name))
        return false;
    return ls_file_exists(name) ? n >= m && !strcmp(name + n - m, END) : !ls_recipe_bundled_text(name);
}

static ls_status open_target(job *j)
{
    const ls_recipe_arg *arg = &j->o->target;
    const bool folder = ls_dir_exists(arg->name) && !ls_run_is(arg->name) && !ls_checkpoint_is(arg->name);
    if (folder || is_nothing(arg->name)) {
        char *dir;
        LS_TRY(ls_folder_find(&dir, arg->name)); /* fails with the message for a missing folder */
        free(dir);
    }
    LS_TRY(folder ? ls_folder_recipe(&j->target.recipe, arg->name, arg->n_sets, arg->sets)
                  : ls_target_open(&j->target, arg));
    const ls_model_row *m = ls_recipe_model(j->target.recipe);
    char list[LS_MODEL_LIST];
    if (!m->decoder)
        return ls_fail(LS_E_USAGE,
                       "%s: --prompt is for models that make text (%s), and this is one of type %s",
                       arg->name, ls_model_list(list, ls_model_makes_text), m->name);
    if (ls_target_workers(&j->target) > 1)
        return ls_fail(LS_E_USAGE,
                       "lockstep predict runs in one process, with all its threads: leave workers out");
    return ls_setup_inference(&j->setup, j->target.recipe, 1, 0, 0);
}

static ls_status open_tokenizer(job *j)
{
    const ls_recipe *r = j->target.recipe;
    const char *name = r->data.tokenizer;
    char *file = NULL;
    LS_TRY(ls_recipe_blame(r, ls_tokenizer_find(&file, name)));
    ls_status s = ls_tokenizer_open(&j->tokenizer, file);
    if (s == LS_OK)
        ls_target_check_tokenizer(&j->target, file);
    free(file);
    LS_TRY(s);
    if (!j->target.checkpoint)
        LS_TRY(ls_folder_ends(j->ends, MAX_ENDS, &j->n_ends, j->o->target.name));
    if (!j->n_ends) {
        LS_TRY(ls_recipe_blame(r, ls_tokenizer_end(&j->ends[0], j->tokenizer, r->data.end_token, name)));
        j->n_ends = 1;
    }
    return ls_text_stream_create(&j->stream, j->tokenizer);
}

static bool is_end(const job *j, int32_t id)
{
    for (int i = 0; i < j->n_ends; i++)
        if (j->ends[i] == id)
            return true;
    return false;
}

/* The prompt's ids. A tokenizer may add an end token, which is removed, because the text goes on. An empty
 * prompt becomes an end token: what follows one begins a new text. */
static ls_status encode(job *j)
{
    const char *text, *prompt = j->o->prompt;
    size_t bytes;
    const int64_t context = j->target.recipe->data.seq_length;
    j->tokens = j->o->tokens < context ? j->o->tokens : context;
    LS_TRY(ls_tokenizer_encode(j->tokenizer, prompt, strlen(prompt), true, &j->prompt));
    while (*prompt && j->prompt.n > 1 && is_end(j, j->prompt.ids[j->prompt.n - 1]))
        j->prompt.n--;
    if (!j->prompt.n) {
        int32_t *ids = ls_sys_realloc(j->prompt.ids, sizeof *ids);
        if (!ids)
            return ls_fail(LS_E_MEMORY, "out of memory for a prompt");
        j->prompt.ids = ids;
        j->prompt.ids[j->prompt.n++] = j->ends[0];
    }
    if (j->prompt.n > context)
        return ls_fail(LS_E_USAGE,
                       "--prompt: %lld tokens, and the model's context is %lld: shorten the prompt, or try a "
                       "longer context than the model was trained with: --set data.seq_length=%lld",
                       (long long)j->prompt.n, (long long)context, (long long)(j->prompt.n + j->tokens));
    for (int64_t i = 0; i < j->prompt.n; i++)
        LS_TRY(ls_text_stream_add(j->stream, j->prompt.ids[i], &text, &bytes));
    return LS_OK;
}

static ls_status create_with(job *j, const ls_weights *w)
{
    const ls_trainer_opts *t = &j->setup.trainer;
    const int64_t context = j->target.recipe->data.seq_length,
                  wanted = (j->prompt.n + j->tokens + 63) / 64 * 64;
    const ls_generator_opts o = { LS_GENERATOR_DEFAULTS,
                                  .device = t->device,
                                  .isa = t->isa,
                                  .threads = t->threads,
                                  .kernels = t->kernels,
                                  .param = t->param,
                                  .output = t->output,
                                  .places = wanted < context ? wanted : context };
    ls_decoder_config c;
    j->setup.model->decoder(&c, j->target.recipe);
    return ls_generator_create_with(&j->generator, &c, w, &o);
}

static ls_status create(job *j)
{
    ls_checkpoint c;
    ls_weights *w;
    ls_status s;
    if (!j->target.checkpoint) {
        LS_TRY(ls_setup_weights(&w, j->target.recipe));
        s = create_with(j, w);
        ls_weights_close(&w);
        return s;
    }
    const bool full = j->target.recipe->checkpoint.verify == LS_VERIFY_CHOICE_FULL;
    LS_TRY(ls_checkpoint_open(&c, j->target.checkpoint, full ? LS_VERIFY_FULL : LS_VERIFY_SIZES, NULL));
    s = create_with(j, c.weights);
    ls_checkpoint_release(&c);
    return s;
}

/* Prints text for people. Control characters do not reach a terminal. */
static void print(const job *j, const char *text, size_t bytes)
{
    if (j->o->json)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (j->ui->width && ((uint8_t)text[i] < ' ' || text[i] == 0x7f) && text[i] != '\n' && text[i] != '\t')
            fputs("\xef\xbf\xbd", j->ui->out);
        else
            fputc(text[i], j->ui->out);
    if (j->ui->width)
        fflush(j->ui->out);
}

static bool on_token(void *context, int32_t id)
{
    job *j = context;
    const char *text;
    size_t bytes;
    j->made.ids[j->made.n++] = id;
    j->status = ls_text_stream_add(j->stream, id, &text, &bytes);
    if (j->status != LS_OK)
        return false;
    ls_str_add_n(&j->text, text, bytes);
    print(j, text, bytes);
    return !(j->ui->stop && *j->ui->stop);
}

static ls_status print_json(const job *j, const ls_generated *made)
{
    static const char *const ENDED[] = { [LS_ENDED_TOKENS] = "tokens",
                                         [LS_ENDED_PLACES] = "context",
                                         [LS_ENDED_TOKEN] = "end token",
                                         [LS_ENDED_CALLER] = "stopped" };
    ls_json out = { 0 };
    ls_json_object(&out, NULL);
    ls_json_text(&out, "prompt", j->o->prompt);
    ls_json_text(&out, "text", ls_str_text(&j->text));
    ls_json_array(&out, "ids");
    for (int64_t i = 0; i < j->made.n; i++)
        ls_json_int(&out, NULL, j->made.ids[i]);
    ls_json_close_array(&out);
    ls_json_text(&out, "ended_by", ENDED[made->ending]);
    ls_json_int(&out, "prompt_tokens", j->prompt.n);
    ls_json_f64(&out, "prompt_seconds", made->prompt_seconds);
    ls_json_f64(&out, "seconds", made->seconds);
    ls_json_f64(&out, "tokens_per_second", made->seconds > 0 ? (double)made->tokens / made->seconds : 0);
    ls_json_close_object(&out);
    return ls_print_result(j->ui->out, &out.out);
}

static ls_status generate(job *j)
{
    const ls_predict_opts *o = j->o;
    ls_generated made;
    const char *rest;
    size_t bytes;
    j->made.ids = ls_sys_malloc(sizeof *j->made.ids * (size_t)j->tokens);
    if (!j->made.ids)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld tokens", (long long)j->tokens);
    print(j, o->prompt, strlen(o->prompt));
    const ls_generate_opts g = { .prompt = j->prompt.ids,
                                 .n_prompt = j->prompt.n,
                                 .tokens = j->tokens,
                                 .sampling = o->sampling,
                                 .ends = j->ends,
                                 .n_ends = j->n_ends,
                                 .on_token = on_token,
                                 .context = j };
    LS_TRY(ls_generate(j->generator, &g, &made));
    LS_TRY(j->status);
    ls_text_stream_end(j->stream, &rest, &bytes);
    ls_str_add_n(&j->text, rest, bytes);
    if (o->json)
        LS_TRY(ls_str_status(&j->text));
    print(j, rest, bytes);
    if (o->json)
        LS_TRY(print_json(j, &made));
    else
        fputc('\n', j->ui->out);
    fflush(j->ui->out);
    if (made.ending == LS_ENDED_PLACES)
        ls_log_warn("the model's context of %lld tokens is full (--set data.seq_length tries a longer one)",
                    (long long)ls_generator_places(j->generator));
    ls_log_info("%lld tokens, %.1f tokens/s; the prompt's %lld in %.2f s", (long long)made.tokens,
                made.seconds > 0 ? (double)made.tokens / made.seconds : 0, (long long)j->prompt.n,
                made.prompt_seconds);
    return made.ending == LS_ENDED_CALLER
               ? ls_fail(LS_E_STOPPED, "stopped after %lld tokens", (long long)made.tokens)
               : LS_OK;
}

ls_status ls_generate_command(const ls_predict_opts *o, const ls_ui *ui)
{
    job j = { .o = o, .ui = ui };
    ls_status s;
    LS_TRY_TO(s, open_target(&j), end);
    LS_TRY_TO(s, open_tokenizer(&j), end);
    LS_TRY_TO(s, encode(&j), end);
    LS_TRY_TO(s, create(&j), end);
    s = generate(&j);
end:
    ls_generator_destroy(&j.generator);
    ls_text_stream_destroy(&j.stream);
    ls_tokenizer_close(&j.tokenizer);
    ls_target_release(&j.target);
    free(j.prompt.ids);
    free(j.made.ids);
    ls_str_release(&j.text);
    return s;
}

/* generate_command.c - see generate_command.h. A terminal shows each token at once. */
#include "base/shown.h"
#include "generate_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "launch/compare.h"
#include "launch/rank.h"
#include "text_model.h"
#include "workers.h"

typedef struct job {
    const ls_predict_opts *o;
    const ls_ui *ui;
    ls_text_model model;
    ls_text_stream *stream;
    ls_tokens prompt, made;
    int64_t tokens;   /* the most tokens to make: as many as asked for, or as the context has room for */
    ls_str text;      /* generated so far */
    ls_status status; /* of the call-back */
} job;

static bool reads_source(const job *j) { return ls_model_reads_sources(j->model.setup.model); }
/* All ranks make the same text, and the first of them prints it. */
static bool is_first(const job *j) { return !j->model.group || ls_group_rank(j->model.group) == 0; }

/* The prompt's ids. The text of a language model goes on from the prompt's last character. */
static ls_status encode(job *j)
{
    const char *text;
    size_t bytes;
    const int64_t context = j->model.saved.recipe->data.seq_length;
    LS_TRY(ls_text_model_encode(&j->model, j->o->prompt, &j->prompt));
    if (reads_source(j))
        return LS_OK;
    j->tokens = j->tokens < context ? j->tokens : context;
    if (j->prompt.n > context)
        return ls_fail(LS_E_USAGE,
                       "--prompt: %lld tokens, and the model's context is %lld: shorten the prompt, or try a "
                       "longer context than the model was trained with: --set data.seq_length=%lld",
                       (long long)j->prompt.n, (long long)context, (long long)(j->prompt.n + j->tokens));
    for (int64_t i = 0; i < j->prompt.n; i++)
        LS_TRY(ls_text_stream_add(j->stream, j->prompt.ids[i], &text, &bytes));
    return LS_OK;
}

static int64_t rounded(int64_t tokens) { return (tokens + 63) / 64 * 64; }

static ls_status create(job *j)
{
    const int64_t context = j->model.saved.recipe->data.seq_length, wanted = rounded(j->prompt.n + j->tokens);
    ls_generator_opts o = { LS_GENERATOR_DEFAULTS, .beams = j->o->beams };
    if (reads_source(j)) {
        o.source = rounded(j->prompt.n);
        o.places = j->tokens;
    } else {
        o.places = wanted < context ? wanted : context;
    }
    return ls_text_model_generator(&j->model, &o);
}

/* Prints text for people. Control characters do not reach a terminal. */
static void print(const job *j, const char *text, size_t bytes)
{
    if (j->o->json || !is_first(j))
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
    int64_t stop = j->ui->stop && *j->ui->stop;
    if (j->model.group) /* a request may reach the ranks between different tokens */
        j->status = ls_group_all_reduce(j->model.group, &stop, 1, LS_I64, LS_REDUCE_SUM);
    return j->status == LS_OK && !stop;
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
    if (!reads_source(j))
        print(j, o->prompt, strlen(o->prompt));
    ls_generate_opts g = ls_text_model_options(&j->model, &o->how);
    g.prompt = j->prompt.ids;
    g.n_prompt = j->prompt.n;
    g.tokens = j->tokens;
    g.on_token = on_token;
    g.context = j;
    LS_TRY(ls_generate(j->model.generator, &g, &made));
    LS_TRY(j->status);
    ls_text_stream_end(j->stream, &rest, &bytes);
    ls_str_add_n(&j->text, rest, bytes);
    if (o->json)
        LS_TRY(ls_str_status(&j->text));
    print(j, rest, bytes);
    if (o->json && is_first(j))
        LS_TRY(print_json(j, &made));
    else if (is_first(j))
        fputc('\n', j->ui->out);
    fflush(j->ui->out);
    if (made.ending == LS_ENDED_PLACES)
        ls_log_warn("the model's context of %lld tokens is full (--set data.seq_length tries a longer one)",
                    (long long)ls_generator_places(j->model.generator));
    ls_log_info("%lld tokens, %.1f tokens/s; the prompt's %lld in %.2f s", (long long)made.tokens,
                made.seconds > 0 ? (double)made.tokens / made.seconds : 0, (long long)j->prompt.n,
                made.prompt_seconds);
    return made.ending == LS_ENDED_CALLER
               ? ls_fail(LS_E_STOPPED, "stopped after %lld tokens", (long long)made.tokens)
               : LS_OK;
}

static ls_status generate_run(job *j)
{
    LS_TRY(ls_text_stream_create(&j->stream, j->model.tokenizer));
    LS_TRY(encode(j));
    const ls_status s = create(j);
    if (s == LS_E_USAGE && j->model.group) /* the ranks do not divide the layers */
        return ls_fail_in(s, "--workers %d", ls_group_size(j->model.group));
    LS_TRY(s);
    return generate(j);
}

/* Runs as a rank of an existing group, as the parent of the ranks that it starts, or as the only process. */
static ls_status start(job *j, ls_group *g)
{
    const ls_ui *ui = j->ui;
    ls_launch_opts ranks = { .ranks = 1, .argv = j->o->argv, .stop = ui->stop, .pass = ui->pass };
    ls_hosts *hosts = NULL;
    const ls_status s = ls_text_model_open(&j->model, &j->o->model, false, false);
    LS_TRY(g ? ls_ranks_agree(g, s) : s);
    if (g) {
        const ls_recipe *r = j->model.saved.recipe;
        int threads;
        LS_TRY(ls_ranks_compare(&threads, NULL, g, r));
        j->model.setup.trainer.threads = r->threads ? (int)r->threads : threads;
        j->model.group = g;
        return generate_run(j);
    }
    LS_TRY(ls_workers_told(&ranks, &hosts, &(ls_hosts_opts){ 0 }, j->model.saved.recipe));
    ls_hosts_free(&hosts);
    return ranks.ranks > 1 ? ls_launch(&ranks) : generate_run(j);
}

ls_status ls_generate_command(const ls_predict_opts *o, const ls_ui *ui)
{
    job j = { .o = o, .ui = ui, .tokens = o->how.tokens };
    ls_group *g = NULL;
    char message[4096] = "";
    ls_status s = ls_rank_join(&g, ui);
    if (s == LS_OK)
        s = start(&j, g);
    if (s != LS_OK)
        snprintf(message, sizeof message, "%s", ls_error_message());
    if (g && s != LS_OK && s != LS_E_PEER)
        ls_group_fail(g, s, message);
    s = s == LS_OK ? s : ls_rank_say(g, s, message, ui);
    ls_text_stream_destroy(&j.stream);
    ls_text_model_release(&j.model);
    free(j.prompt.ids);
    free(j.made.ids);
    ls_str_release(&j.text);
    ls_group_destroy(&g);
    return s;
}

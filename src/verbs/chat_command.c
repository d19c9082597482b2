/* chat_command.c - `lockstep chat`: a conversation with a language model on the terminal or through pipes: a
 * line is what the user says, and the model's answer comes token by token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/sys.h"
#include "commands.h"
#include "data/chat.h"
#include "data/tokenize.h"
#include "generate/of_recipe.h"
#include "recipe/data_row.h"
#include "recipe/recipe_use.h"
#include "text_model.h"

typedef struct job {
    const ls_chat_opts *o;
    const ls_ui *ui;
    ls_text_model model;
    ls_chat *chat;
    ls_text_stream *stream;
    json_t *messages;
    char *system;     /* NULL: none */
    ls_tokens prompt; /* of the turn that is made */
    ls_tokens held;   /* what the generator's caches hold */
    bool terminal;    /* a person types: questions and help are shown */
} job;

/* ---- the conversation */

static ls_status chat_say(job *j, const char *role, const char *text)
{
    json_t *m = json_pack("{ss ss}", "role", role, "content", text);
    if (!m)
        return ls_sys_have(NULL);
    return json_array_append_new(j->messages, m) == 0
               ? LS_OK
               : ls_fail(LS_E_MEMORY, "out of memory for a conversation");
}

static ls_status reset(job *j)
{
    json_array_clear(j->messages);
    return j->system && *j->system ? chat_say(j, "system", j->system) : LS_OK;
}

static void forget_last(job *j) { json_array_remove(j->messages, json_array_size(j->messages) - 1); }

/* ---- an answer */

static void print(const job *j, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (j->ui->width && ((uint8_t)text[i] < ' ' || text[i] == 0x7f) && text[i] != '\n' && text[i] != '\t')
            fputs("\xef\xbf\xbd", j->ui->out);
        else
            fputc(text[i], j->ui->out);
    fflush(j->ui->out);
}

/* Takes the prompt in, but for the tokens that the caches hold already. */
static ls_status feed_prompt(job *j, const float **logits)
{
    int64_t same = 0;
    while (same < j->held.n && same < j->prompt.n - 1 && j->held.ids[same] == j->prompt.ids[same])
        same++;
    ls_generator_rewind(j->model.generator, same);
    j->held.n = same;
    LS_TRY(ls_generator_feed(j->model.generator, j->prompt.ids + same, j->prompt.n - same, logits));
    memcpy(j->held.ids, j->prompt.ids, sizeof *j->held.ids * (size_t)j->prompt.n);
    j->held.n = j->prompt.n;
    return LS_OK;
}

static ls_status answer(job *j, ls_str *text)
{
    const ls_generator *g = j->model.generator;
    const int64_t vocabulary = ls_generator_vocabulary(g);
    const float *logits;
    const char *some;
    size_t bytes;
    LS_TRY(feed_prompt(j, &logits));
    for (int64_t made = 0; made < j->o->tokens; made++) {
        int32_t id;
        LS_TRY(ls_sample(&id, logits, vocabulary, &j->o->sampling, ls_generator_position(g)));
        if (ls_text_model_is_end(&j->model, id))
            break;
        LS_TRY(ls_text_stream_add(j->stream, id, &some, &bytes));
        ls_str_add_n(text, some, bytes);
        print(j, some, bytes);
        if (j->ui->stop && *j->ui->stop)
            return ls_fail(LS_E_STOPPED, "stopped");
        if (ls_generator_position(g) == ls_generator_places(g)) {
            ls_log_warn("the model's context of %lld tokens is full: /reset begins again",
                        (long long)ls_generator_places(g));
            break;
        }
        LS_TRY(ls_generator_feed(j->model.generator, &id, 1, &logits));
        j->held.ids[j->held.n++] = id;
    }
    ls_text_stream_end(j->stream, &some, &bytes);
    ls_str_add_n(text, some, bytes);
    print(j, some, bytes);
    fputc('\n', j->ui->out);
    fflush(j->ui->out);
    return ls_str_status(text);
}

/* One turn: what the user says, and the answer. */
static ls_status turn(job *j, const char *line)
{
    const int64_t places = ls_generator_places(j->model.generator);
    ls_str text = { 0 };
    LS_TRY(chat_say(j, "user", line));
    j->prompt.n = 0;
    ls_status s = ls_chat_prompt(j->chat, j->messages, (int64_t)time(NULL), &j->prompt);
    if (s == LS_OK && j->prompt.n > places)
        s = ls_fail(
            LS_E_USAGE,
            "the conversation has %lld tokens, and the model's context is %lld: /reset begins again, and "
            "--set data.seq_length tries a longer context than the model was trained with",
            (long long)j->prompt.n, (long long)places);
    if (s == LS_OK)
        s = answer(j, &text);
    else
        forget_last(j);
    if (s == LS_OK)
        s = chat_say(j, "assistant", ls_str_text(&text));
    ls_str_release(&text);
    return s;
}

/* ---- lines */

static void help(const job *j)
{
    fputs("/reset         forgets the conversation\n"
          "/system TEXT   forgets it and begins with this system message; without TEXT with none\n"
          "/exit          ends; so does the end of the input\n"
          "/help          shows this\n",
          j->ui->out);
}

/* *done: the conversation is over. A line that begins with // is a text that begins with /. */
static ls_status take_line(job *j, char *line, bool *done)
{
    if (!strcmp(line, "/exit") || !strcmp(line, "/quit")) {
        *done = true;
        return LS_OK;
    }
    if (!strcmp(line, "/help")) {
        help(j);
        return LS_OK;
    }
    if (!strcmp(line, "/reset"))
        return reset(j);
    if (!strncmp(line, "/system", 7) && (line[7] == ' ' || !line[7])) {
        free(j->system);
        LS_TRY(ls_sys_have(j->system = ls_sys_strdup(line + 7 + (line[7] == ' '))));
        return reset(j);
    }
    if (line[0] == '/' && line[1] != '/')
        return ls_fail(LS_E_USAGE, "%.40s: no such command; /help lists them, and // begins a text with /",
                       line);
    return line[0] ? turn(j, line + (line[0] == '/')) : LS_OK;
}

static ls_status converse(job *j)
{
    char *line = NULL;
    size_t room = 0;
    ls_status s = reset(j);
    for (bool done = false; s == LS_OK && !done;) {
        if (j->terminal)
            fputs("> ", j->ui->out), fflush(j->ui->out);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0)
            break;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = 0;
        s = take_line(j, line, &done);
        if (j->terminal && (s == LS_E_USAGE || s == LS_E_FORMAT)) { /* a person types again */
            ls_log_warn("%s", ls_error_message());
            s = LS_OK;
        }
        if (ls_stop_asked())
            break;
    }
    if (j->terminal)
        fputc('\n', j->ui->out);
    free(line);
    return s;
}

/* ---- opening */

static ls_status open_chat(job *j)
{
    const ls_recipe *r = j->model.saved.recipe;
    const ls_text_options text = { LS_TEXT_DEFAULTS, .end_token = r->data.end_token };
    ls_chat_options options;
    char *folder, *file = NULL;
    int32_t end;
    LS_TRY(ls_recipe_chat(&options, &folder, r, &text));
    if (j->o->template)
        options.template = j->o->template;
    else if (!options.template || !*options.template)
        options.template = "auto";
    ls_status s = ls_tokenizer_find(&file, r->data.tokenizer);
    if (s == LS_OK)
        s = ls_chat_make(&j->chat, j->model.tokenizer, file, r->data.tokenizer, &options);
    free(folder);
    free(file);
    LS_TRY(s);
    LS_TRY(ls_chat_turn_end(j->chat, &end));
    if (end >= 0 && !ls_text_model_is_end(&j->model, end) && j->model.n_ends < LS_MAX_ENDS)
        j->model.ends[j->model.n_ends++] = end;
    return LS_OK;
}

static ls_status run(job *j)
{
    LS_TRY(ls_text_model_open(&j->model, &j->o->model, false, true));
    if (ls_model_reads_sources(j->model.setup.model))
        return ls_fail(LS_E_USAGE, "%s reads a source and writes a target: use lockstep predict --prompt",
                       j->o->model.name);
    LS_TRY(open_chat(j));
    LS_TRY(ls_text_stream_create(&j->stream, j->model.tokenizer));
    LS_TRY(ls_sys_have(j->messages = json_array()));
    if (j->o->system)
        LS_TRY(ls_sys_have(j->system = ls_sys_strdup(j->o->system)));
    const ls_generator_opts o = { LS_GENERATOR_DEFAULTS, .places = j->model.saved.recipe->data.seq_length };
    LS_TRY(ls_text_model_generator(&j->model, &o));
    j->held.ids = ls_sys_malloc(sizeof *j->held.ids * (size_t)ls_generator_places(j->model.generator));
    LS_TRY(ls_sys_have(j->held.ids));
    j->terminal = j->ui->width && isatty(STDIN_FILENO);
    if (j->terminal)
        fprintf(j->ui->out, "%s; /help lists what else may be typed\n", j->o->model.name);
    return converse(j);
}

ls_status ls_chat_command(const ls_chat_opts *o, const ls_ui *ui)
{
    job j = { .o = o, .ui = ui };
    const ls_status s = run(&j);
    ls_text_stream_destroy(&j.stream);
    ls_chat_free(&j.chat);
    ls_text_model_release(&j.model);
    json_decref(j.messages);
    free(j.system);
    free(j.prompt.ids);
    free(j.held.ids);
    return s;
}

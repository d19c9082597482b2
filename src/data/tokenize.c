/* tokenize.c - documents, or pairs of them, to ids: batch by batch on all threads, written in order. */
#include "data/tokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu_limits.h"
#include "base/field.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/chat.h"
#include "lockstep/tokenizer.h"

enum { BATCH_BYTES = 1 << 22, BATCH_DOCUMENTS = 1 << 14 };

/* Of a pair `source` ids are the source's; the target's follow. Of a conversation `chat` has the ids. */
typedef struct encoded {
    ls_tokens ids;
    ls_chat_tokens chat;
    int64_t source;
    ls_status status;
    char *message;
} encoded;

typedef struct job {
    const ls_token_source *from;
    const ls_text_options *o;
    ls_tokenizer *tokenizer;
    ls_chat *chat; /* NULL: no conversations */
    ls_token_writer writer;
    const char *path; /* of the file that is being read */
    ls_text_file file;
    ls_pair_file pairs;     /* of the file, if it contains pairs */
    ls_document *documents; /* [BATCH_DOCUMENTS], of which n are used; a pair counts as one */
    encoded *results;       /* [BATCH_DOCUMENTS] */
    int64_t n;
    int64_t rows; /* of the source before this batch; if rows are lines or files, before this file */
    int64_t done; /* bytes on disk of the files before this one */
    double start;
} job;

static ls_status encode_text(const job *j, const char *text, size_t n, ls_tokens *out)
{
    return ls_tokenizer_encode(j->tokenizer, text, n, true, out);
}

static ls_status encode_json(const job *j, const char *line, size_t n, ls_tokens *out)
{
    json_t *root;
    LS_TRY(ls_json_parse(&root, line, n, "JSON"));
    const json_t *value = json_object_get(root, j->o->field);
    ls_status s = json_is_string(value)
                      ? encode_text(j, json_string_value(value), json_string_length(value), out)
                      : ls_fail(LS_E_FORMAT,
                                "this is not a JSON object with a text called \"%s\" (option field)",
                                j->o->field);
    json_decref(root);
    return s;
}

static ls_status encode_chat(const job *j, const char *line, size_t n, ls_chat_tokens *out)
{
    json_t *root;
    LS_TRY(ls_json_parse(&root, line, n, "JSON"));
    const ls_status s = ls_chat_encode(j->chat, root, j->from->chat->train_on, out);
    json_decref(root);
    return s;
}

static ls_status encode_pair(const job *j, const ls_document *d, encoded *e)
{
    ls_str source = { 0 }, target = { 0 };
    ls_status s = ls_pair_file_read(&j->pairs, d, &source, &target);
    if (s == LS_OK)
        s = encode_text(j, ls_str_text(&source), source.len, &e->ids);
    e->source = e->ids.n;
    if (s == LS_OK)
        s = encode_text(j, ls_str_text(&target), target.len, &e->ids);
    ls_str_release(&source);
    ls_str_release(&target);
    return s;
}

static ls_status encode(const job *j, const ls_document *d, encoded *e)
{
    if (j->from->pairs)
        return encode_pair(j, d, e);
    if (j->chat)
        return encode_chat(j, j->file.text + d->begin, d->n, &e->chat);
    return (j->o->documents == LS_DOCUMENTS_JSON ? encode_json : encode_text)(j, j->file.text + d->begin,
                                                                              d->n, &e->ids);
}

static void encode_some(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        encoded *e = &j->results[i];
        e->ids.n = e->source = e->chat.ids.n = 0;
        e->status = encode(j, &j->documents[i], e);
        if (e->status != LS_OK)
            e->message = ls_sys_strdup(ls_error_message());
    }
}

static ls_status wrong(const job *j, ls_status status, int64_t line, const char *message)
{
    return ls_fail(status, "%s, %s at line %lld: %s", j->path,
                   j->from->pairs  ? "pair"
                   : j->from->chat ? "conversation"
                                   : "document",
                   (long long)line, message);
}

static ls_documents documents_of(const job *j) { return j->chat ? LS_DOCUMENTS_JSON : j->o->documents; }

/* Which unit of the source a row is: the unit that Hugging Face's readers of text count. A blank line is a
 * row, though no document; an empty file, too. */
static bool rows_are(const job *j, ls_documents how) { return !j->from->pairs && documents_of(j) == how; }

static ls_status encode_batch(job *j)
{
    const bool lines = rows_are(j, LS_DOCUMENTS_LINE), files = rows_are(j, LS_DOCUMENTS_FILE);
    ls_parallel_for(j->o->threads ? j->o->threads : ls_default_threads(1, NULL), j->n, encode_some, j);
    if (ls_stop_asked())
        return ls_fail(LS_E_STOPPED, "stopped while %s was tokenized; the next start begins with it again",
                       j->from->pattern);
    for (int64_t i = 0; i < j->n; i++) {
        const encoded *e = &j->results[i];
        const int64_t row = j->rows + (lines ? j->documents[i].line - 1 : files ? 0 : i);
        if (e->status != LS_OK)
            return wrong(j, e->status, j->documents[i].line, e->message ? e->message : "out of memory");
        if (j->from->pairs)
            LS_TRY(ls_tokens_put(&j->writer, e->ids.ids, e->source, row));
        if (j->chat)
            LS_TRY(ls_tokens_put_masked(&j->writer, e->chat.ids.ids, e->chat.targets, e->chat.ids.n, row));
        else
            LS_TRY(ls_tokens_put(&j->writer, e->ids.ids + e->source, e->ids.n - e->source, row));
    }
    j->rows += lines || files ? 0 : j->n;
    j->n = 0;
    return LS_OK;
}

/* Reports progress: position `at` in the text of a file of `size` bytes. */
static void tokenize_show(const job *j, int64_t size, size_t at)
{
    const int64_t done = j->done + (j->file.n ? (int64_t)((double)size * (double)at / (double)j->file.n) : 0);
    if (j->o->progress)
        j->o->progress(j->o->context, j->path, done, j->from->corpus.bytes,
                       (double)done / (ls_now() - j->start));
}

static ls_status next(job *j, ls_document_cursor *at, ls_document *out, bool *done)
{
    ls_status s = LS_OK;
    if (!j->from->pairs) {
        *done = !ls_document_next(&j->file, documents_of(j), at, out);
        return s;
    }
    s = ls_pair_file_next(&j->pairs, out, done);
    *at = j->pairs.at;
    return s == LS_OK ? s : wrong(j, s, out->line, ls_error_message());
}

static ls_status tokenize_open_file(job *j, int64_t size)
{
    ls_document_cursor at = { 0, 1 };
    size_t from = 0;
    tokenize_show(j, size, 0);
    if (j->from->pairs)
        LS_TRY(ls_pair_file_begin(&j->pairs, &j->file, j->path, j->from->pairs));
    for (bool done = false;;) {
        LS_TRY(next(j, &at, &j->documents[j->n], &done));
        if (done) {
            LS_TRY(encode_batch(j));
            j->rows += rows_are(j, LS_DOCUMENTS_LINE) ? at.line - 1 : rows_are(j, LS_DOCUMENTS_FILE);
            return LS_OK;
        }
        if (++j->n < BATCH_DOCUMENTS && at.at - from < BATCH_BYTES)
            continue;
        LS_TRY(encode_batch(j));
        from = at.at;
        tokenize_show(j, size, from);
    }
}

static ls_status tokenize_file(job *j, const char *path)
{
    const int64_t size = ls_file_size(path);
    j->path = path;
    LS_TRY(ls_text_file_open(&j->file, path));
    ls_status s = tokenize_open_file(j, size);
    ls_text_file_close(&j->file);
    j->done += size;
    tokenize_show(j, 0, 0);
    return s;
}

static ls_status tokenize_files(job *j)
{
    const ls_corpus *c = &j->from->corpus;
    ls_status s = LS_OK;
    j->documents = ls_sys_malloc(sizeof *j->documents * BATCH_DOCUMENTS);
    j->results = ls_sys_calloc(BATCH_DOCUMENTS, sizeof *j->results);
    if (!j->documents || !j->results)
        s = ls_fail(LS_E_MEMORY, "no memory to tokenize");
    for (size_t i = 0; i < c->n && s == LS_OK; i++)
        s = tokenize_file(j, c->paths[i]);
    for (int64_t i = 0; j->results && i < BATCH_DOCUMENTS; i++) {
        free(j->results[i].ids.ids);
        ls_chat_tokens_release(&j->results[i].chat);
        free(j->results[i].message);
    }
    free(j->documents);
    free(j->results);
    if (s == LS_OK && !j->writer.footer.documents)
        s = ls_fail(LS_E_USAGE, "%s: no %s in %s", j->from->pattern,
                    j->from->pairs  ? "pair"
                    : j->from->chat ? "conversation"
                                    : "text",
                    c->n == 1 ? "this file" : "these files");
    return s;
}

/* Sources are padded with id 0, so the tokenizer must not use 0 for text. */
static ls_status check_pad(const job *j)
{
    const int32_t pad = ls_tokenizer_id(j->tokenizer, "<pad>");
    return pad <= 0 ? LS_OK
                    : ls_fail_field(LS_E_UNSUPPORTED, "tokenizer",
                                    "<pad> of %s is id %d; pairs need a tokenizer whose <pad> is 0, as T5's",
                                    j->from->tokenizer, pad);
}

static ls_status tokenize_run(job *j, uint64_t key, const char *path)
{
    int32_t end;
    if (j->chat)
        end = ls_chat_end(j->chat);
    else
        LS_TRY(ls_tokenizer_end(&end, j->tokenizer, j->o->end_token, j->from->tokenizer));
    if (j->from->pairs)
        LS_TRY(check_pad(j));
    LS_TRY(ls_tokens_create(&j->writer, path, key, ls_tokenizer_size(j->tokenizer), end));
    ls_status s = tokenize_files(j);
    if (s != LS_OK) {
        ls_tokens_abort(&j->writer);
        return s;
    }
    const ls_token_footer f = j->writer.footer;
    LS_TRY(ls_tokens_commit(&j->writer, j->rows));
    ls_log_info("tokenized %s: %lld %s, %lld tokens, %.1f s; %s%s", j->from->pattern,
                (long long)(j->from->pairs ? f.documents / 2 : f.documents),
                j->from->pairs  ? "pairs"
                : j->from->chat ? "conversations"
                                : "documents",
                (long long)f.tokens, ls_now() - j->start,
                ls_cache_is_frozen() ? "a dry run keeps none of it" : "kept in ",
                ls_cache_is_frozen() ? "" : path);
    return LS_OK;
}

ls_status ls_tokenize(const ls_token_source *from, uint64_t key, const char *path)
{
    job j = { .from = from, .o = from->o, .start = ls_now() };
    LS_TRY(ls_tokenizer_open(&j.tokenizer, from->tokenizer_file));
    ls_status s = LS_OK;
    if (from->chat)
        s = ls_chat_make(&j.chat, j.tokenizer, from->tokenizer_file, from->tokenizer, from->chat);
    if (s == LS_OK)
        s = tokenize_run(&j, key, path);
    ls_chat_free(&j.chat);
    ls_tokenizer_close(&j.tokenizer);
    return s;
}

/* tokenize.c - documents into ids, a batch of them on all threads at a time, written in their order. */
#include "data/tokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/sys.h"
#include "lockstep/tokenizer.h"

enum { BATCH_BYTES = 1 << 22, BATCH_DOCUMENTS = 1 << 14 };

typedef struct encoded { ls_tokens ids; ls_status status; char *message; } encoded;

typedef struct job {
    const ls_token_source *from;
    const ls_text_options *o;
    ls_tokenizer *tokenizer;
    ls_token_writer writer;
    const char *path;        /* of the file that is being read */
    ls_text_file file;
    ls_document *documents;  /* [BATCH_DOCUMENTS], n of them */
    encoded *results;        /* [BATCH_DOCUMENTS] */
    int64_t n;
    int64_t done;            /* bytes on disk of the files before */
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
    ls_status s = json_is_string(value) ? encode_text(j, json_string_value(value), json_string_length(value), out)
                                        : ls_fail(LS_E_FORMAT, "this is no JSON object with a text called \"%s\" (data.field)", j->o->field);
    json_decref(root);
    return s;
}

static void encode_some(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const ls_document *d = &j->documents[i];
        encoded *e = &j->results[i];
        e->ids.n = 0;
        e->status = (j->o->documents == LS_DOCUMENTS_JSON ? encode_json : encode_text)(j, j->file.text + d->begin, d->n, &e->ids);
        if (e->status != LS_OK)
            e->message = strdup(ls_error_message());
    }
}

static ls_status encode_batch(job *j)
{
    ls_parallel_for(j->o->threads ? j->o->threads : ls_cpu_count(), j->n, encode_some, j);
    for (int64_t i = 0; i < j->n; i++) {
        const encoded *e = &j->results[i];
        if (e->status != LS_OK)
            return ls_fail(e->status, "%s, document at line %lld: %s", j->path, (long long)j->documents[i].line,
                           e->message ? e->message : "out of memory");
        LS_TRY(ls_tokens_put(&j->writer, e->ids.ids, e->ids.n));
    }
    j->n = 0;
    if (j->o->stop && *j->o->stop)
        return ls_fail(LS_E_STOPPED, "stopped while %s was tokenized; the next start begins with it again", j->from->pattern);
    return LS_OK;
}

/* `at` of the text of a file of `size` bytes is done. */
static void show(const job *j, int64_t size, size_t at)
{
    const int64_t done = j->done + (j->file.n ? (int64_t)((double)size * (double)at / (double)j->file.n) : 0);
    if (j->o->progress)
        j->o->progress(j->o->context, j->path, done, j->from->corpus.bytes, (double)done / (ls_now() - j->start));
}

static ls_status tokenize_file(job *j, const char *path)
{
    ls_document_cursor at = { 0, 1 };
    const int64_t size = ls_file_size(path);
    ls_status s = LS_OK;
    j->path = path;
    LS_TRY(ls_text_file_open(&j->file, path));
    show(j, size, 0);
    for (size_t from = 0; s == LS_OK && ls_document_next(&j->file, j->o->documents, &at, &j->documents[j->n]);) {
        if (++j->n < BATCH_DOCUMENTS && at.at - from < BATCH_BYTES)
            continue;
        s = encode_batch(j);
        from = at.at;
        show(j, size, from);
    }
    if (s == LS_OK)
        s = encode_batch(j);
    ls_text_file_close(&j->file);
    j->done += size;
    show(j, 0, 0);
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
        free(j->results[i].message);
    }
    free(j->documents);
    free(j->results);
    if (s == LS_OK && !j->writer.footer.documents)
        s = ls_fail(LS_E_USAGE, "%s: no text in %s", j->from->pattern, c->n == 1 ? "this file" : "these files");
    return s;
}

/* The token that ends a document. */
static ls_status find_end(int32_t *out, const job *j)
{
    static const char *const USUAL[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>" };
    const char *wanted = j->o->end_token, *name = j->from->tokenizer;
    *out = *wanted ? ls_tokenizer_id(j->tokenizer, wanted) : -1;
    for (size_t i = 0; i < sizeof USUAL / sizeof USUAL[0] && *out < 0 && !*wanted; i++)
        *out = ls_tokenizer_id(j->tokenizer, USUAL[i]);
    if (*out >= 0)
        return LS_OK;
    if (*wanted)
        return ls_fail(LS_E_USAGE, "data.end_token: the tokenizer %s has no token %s", name, wanted);
    return ls_fail(LS_E_USAGE, "data.end_token: name the token that ends a document; the tokenizer %s has none of %s %s %s %s", name, USUAL[0],
                   USUAL[1], USUAL[2], USUAL[3]);
}

static ls_status run(job *j, uint64_t key, const char *path)
{
    int32_t end;
    LS_TRY(find_end(&end, j));
    LS_TRY(ls_tokens_create(&j->writer, path, key, ls_tokenizer_size(j->tokenizer), end));
    ls_status s = tokenize_files(j);
    if (s != LS_OK) {
        ls_tokens_abort(&j->writer);
        return s;
    }
    const ls_token_footer f = j->writer.footer;
    LS_TRY(ls_tokens_commit(&j->writer));
    ls_log_info("tokenized %s: %lld documents, %lld tokens, %.1f s; kept in %s", j->from->pattern, (long long)f.documents, (long long)f.tokens,
                ls_now() - j->start, path);
    return LS_OK;
}

ls_status ls_tokenize(const ls_token_source *from, uint64_t key, const char *path)
{
    job j = { .from = from, .o = from->o, .start = ls_now() };
    LS_TRY(ls_tokenizer_open(&j.tokenizer, from->tokenizer_file));
    ls_status s = run(&j, key, path);
    ls_tokenizer_close(&j.tokenizer);
    return s;
}

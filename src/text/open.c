/* open.c - makes a tokenizer: finds its file, chooses the reader for the file's format, and releases it. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/sys.h"
#include "text.h"

char *ls_tokenizer_file(const char *path)
{
    LS_ARG_OR(path, NULL);
    static const char *const NAMES[] = { "tokenizer.json", "spiece.model" };
    for (int i = 0; i < 2; i++) {
        char *inside = ls_path_join(path, NAMES[i]);
        if (ls_file_exists(inside))
            return inside;
        free(inside);
    }
    return ls_file_exists(path) ? strdup(path) : NULL;
}

static ls_status read_json(ls_tokenizer *t, const char *text, size_t size, const char *file)
{
    json_t *root = NULL;
    LS_TRY(ls_json_parse(&root, text, size, file));
    ls_status s = ls_tokenizer_read(t, root, file);
    json_decref(root);
    return s;
}

static ls_status read_file(ls_tokenizer *t, const char *path)
{
    char *file = ls_tokenizer_file(path), *text = NULL;
    size_t size = 0, n = file ? strlen(file) : 0;
    if (!file)
        return ls_fail(LS_E_IO, "%s: no such file, and no folder with a tokenizer.json or spiece.model",
                       path);
    ls_status s = ls_file_read(&text, &size, file);
    if (s == LS_OK)
        s = (n > 6 && !strcmp(file + n - 6, ".model") ? ls_tokenizer_read_sentencepiece
                                                      : read_json)(t, text, size, file);
    free(text);
    free(file);
    return s;
}

ls_status ls_tokenizer_open(ls_tokenizer **out, const char *path)
{
    LS_ARG(out);
    LS_ARG(path);
    ls_tokenizer *t = *out = ls_sys_calloc(1, sizeof *t);
    if (!t)
        return ls_fail(LS_E_MEMORY, "%s: no memory for a tokenizer", path);
    ls_arena_init(&t->arena);
    ls_status s = strcmp(path, "bytes") ? read_file(t, path) : ls_tokenizer_read_bytes(t);
    if (s != LS_OK)
        ls_tokenizer_close(&t);
    *out = t;
    return s;
}

void ls_tokenizer_close(ls_tokenizer **tp)
{
    if (!tp)
        return;
    ls_tokenizer *t = *tp;
    if (!t)
        return;
    for (int i = 0; i < t->n_splitters; i++)
        ls_regex_free(t->splitters[i].regex);
    ls_arena_release(&t->arena);
    free(t);
    *tp = NULL;
}

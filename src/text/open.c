/* open.c - makes a tokenizer: finds its file, chooses the reader for the file's format, and releases it. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/sys.h"
#include "text.h"

ls_status ls_tokenizer_file(char **out, const char *path)
{
    LS_ARG(out);
    LS_ARG(path);
    static const char *const NAMES[] = { "tokenizer.json", "spiece.model" };
    for (int i = 0; i < 2; i++)
        if (ls_file_in(path, NAMES[i]))
            return ls_sys_have(*out = ls_path_join(path, NAMES[i]));
    *out = NULL;
    return ls_file_exists(path) ? ls_sys_have(*out = ls_sys_strdup(path)) : LS_OK;
}

static ls_status read_json(ls_tokenizer *t, const char *text, size_t size, const char *file)
{
    json_t *root = NULL;
    LS_TRY(ls_json_parse(&root, text, size, file));
    ls_status s = ls_tokenizer_read(t, root, file);
    json_decref(root);
    return s;
}

static ls_status open_read_file(ls_tokenizer *t, const char *path)
{
    char *file, *text = NULL;
    LS_TRY(ls_tokenizer_file(&file, path));
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
    ls_status s = strcmp(path, "bytes") ? open_read_file(t, path) : ls_tokenizer_read_bytes(t);
    s = ls_arena_outcome(&t->arena, s);
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

/* run.c - see run.h. */
#include "record/run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "support/ranks.h"
#include "support/support.h"

ls_recipe *make_recipe(const char *storage, const char *extra)
{
    ls_recipe *r;
    char set[600];
    snprintf(set, sizeof set, "run.storage=%s", storage);
    const char *const sets[] = { set, extra };
    const char *text = "run: {name: one}\nmodel: {type: mlp}\ndata: {type: mnist}\n";
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", extra ? 2 : 1, sets));
    return r;
}

char *file_of_run(const char *storage, const char *name)
{
    char path[800], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/one/%s", storage, name);
    ASSERT_OK(ls_file_read(&text, &size, path));
    return text;
}

json_t *parse_json(const char *text, size_t n)
{
    json_t *tree;
    ASSERT_OK(ls_json_parse(&tree, text, n, "test"));
    return tree;
}

json_t *metrics_row(const char *storage, int i)
{
    char *text = file_of_run(storage, "metrics.jsonl"), *p = text;
    while (i--)
        p = strchr(p, '\n') + 1;
    json_t *tree = parse_json(p, strcspn(p, "\n"));
    free(text);
    return tree;
}

const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

void run_in_child(void (*body)(const char *), const char *storage)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        body(storage);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

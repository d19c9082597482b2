/* text_folder.c - see text_folder.h. */
#include "data/text_folder.h"
#include <dirent.h>

#include "files.h"
#include "lockstep/tokenizer.h"

char *text_folder;
int tokenized; /* files, of which there was progress to its end */
char logged[4096];

void count_progress(void *context, const char *file, int64_t done, int64_t total, double rate)
{
    (void)context, (void)file, (void)rate;
    tokenized += done == total;
}

static void keep_log(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

int make_text_folder(void **state)
{
    (void)state;
    text_folder = make_folder();
    tokenized = 0;
    *logged = 0;
    ls_log_set(keep_log, NULL, LS_INFO);
    return 0;
}

int drop_text_folder(void **state)
{
    (void)state;
    ls_log_set(NULL, NULL, LS_INFO);
    remove_tree(text_folder);
    return 0;
}

const char *put(const char *name, const char *text)
{
    const char *path = in(text_folder, name);
    assert_ok(ls_file_write(path, text, strlen(text)));
    return path;
}

const char *sample_text(const ls_dataset *set, int64_t i)
{
    static char text[8][256];
    static int next;
    int32_t ids[64], targets[64];
    const int64_t n = set->fields[0].type.dims[0];
    char *out = text[next++ % 8];
    assert_ok(set->read(set, i, (void *const[]){ ids, targets }));
    int64_t valid = 0;
    for (int64_t k = 0; k < n; k++) {
        out[k] = ids[k] == END ? '|' : (char)ids[k];
        out[n + 1 + k] = targets[k] == LS_IGNORE_LABEL ? '.' : targets[k] == END ? '|' : (char)targets[k];
        valid += targets[k] != LS_IGNORE_LABEL;
    }
    out[n] = '>';
    out[2 * n + 1] = 0;
    assert_int_equal(set->count(set, i, 1), valid);
    return out;
}

int files_in_cache(const char *ending)
{
    DIR *d = opendir(in(text_folder, "cache/tokens"));
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strlen(e->d_name) > strlen(ending) &&
             !strcmp(e->d_name + strlen(e->d_name) - strlen(ending), ending);
    if (d)
        closedir(d);
    return n;
}

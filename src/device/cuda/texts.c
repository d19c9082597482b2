/* texts.c - the text of kernels: built in, or the files of a folder, so that a mended kernel needs no new
 * build. */
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/sys.h"
#include "cuda_own.h"

static const ls_cuda_text built_in[] = {
#include "kernels.inc"
    { NULL, NULL },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const ls_cuda_text *texts;

static ls_status read_folder(const char *folder)
{
    char *pattern = ls_path_join(folder, "*.*");
    glob_t found;
    LS_TRY(ls_sys_have(pattern));
    const int none = glob(pattern, 0, NULL, &found);
    free(pattern);
    if (none)
        return ls_fail(LS_E_IO, "LOCKSTEP_KERNELS: %s has no files of kernels", folder);
    ls_cuda_text *all = ls_sys_calloc(found.gl_pathc + 1, sizeof *all);
    ls_status s = ls_sys_have(all);
    for (size_t i = 0; i < found.gl_pathc && s == LS_OK; i++) {
        char *text = NULL;
        size_t size;
        s = ls_file_read(&text, &size, found.gl_pathv[i]);
        all[i] = (ls_cuda_text){ ls_sys_strdup(strrchr(found.gl_pathv[i], '/') + 1), text };
        if (s == LS_OK)
            s = ls_sys_have(all[i].name);
    }
    globfree(&found);
    if (s == LS_OK)
        texts = all; /* until the process ends; also what a failure leaves */
    return s;
}

ls_status ls_cuda_texts(const ls_cuda_text **out)
{
    const char *folder = getenv("LOCKSTEP_KERNELS");
    pthread_mutex_lock(&lock);
    ls_status s = LS_OK;
    if (!texts && folder && *folder)
        s = read_folder(folder);
    else if (!texts)
        texts = built_in;
    *out = texts;
    pthread_mutex_unlock(&lock);
    return s;
}

/* LOCKSTEP_KERNEL_DUMP: a folder that gets each text, for tests/gpu/nvrtc and for a look. */
static ls_status dump(const char *file, const char *text)
{
    const char *folder = getenv("LOCKSTEP_KERNEL_DUMP");
    if (!folder || !*folder)
        return LS_OK;
    char *path = ls_sys_text("%s/%016" PRIx64 "-%s", folder, ls_hash_text(text), file);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK)
        s = ls_make_parent(path);
    if (s == LS_OK)
        s = ls_file_write(path, text, strlen(text));
    free(path);
    return s;
}

ls_status ls_cuda_whole_text(char **out, const char *file, const char *before)
{
    const ls_cuda_text *t;
    *out = NULL;
    LS_TRY(ls_cuda_texts(&t));
    while (t->name && strcmp(t->name, file))
        t++;
    if (!t->name)
        return ls_fail(LS_E_INTERNAL, "device cuda: there is no file of kernels \"%s\"", file);
    *out = ls_sys_text("%s\n#line 1 \"%s\"\n%s", before, file, t->text);
    LS_TRY(ls_sys_have(*out));
    return dump(file, *out);
}

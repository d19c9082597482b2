/* record.c - keeps what was trained: DIR/NAME.npy for each field, [samples, ..], every sample once, in the
 * order in which steps had them; within a step rank by rank. All ranks write to the same files: each knows
 * from what the ranks exchange in ls_live_fill where its samples begin.
 *
 * Rank 0 writes the header again after every fill. A run that is continued from a checkpoint cuts the files
 * to the samples that the checkpoint counts, so they end as those of a run that was never interrupted. */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "data/npy.h"

enum { HEADER = 256 }; /* bytes: room for any number of samples */

static char *record_path_of(const ls_live *q, int i)
{
    char *name = ls_sys_text("%s.npy", q->t->fields[i].name);
    char *path = name ? ls_path_join(q->record.dir, name) : NULL;
    free(name);
    return path;
}

static ls_status header(ls_str *out, const ls_live *q, int i, int64_t samples)
{
    ls_type type = q->t->fields[i].own.type;
    type.dims[0] = samples * (type.dims[0] / q->t->compiled.micro_batch);
    return ls_npy_header_of(out, &type, HEADER);
}

ls_status ls_live_record_open(ls_live *q)
{
    ls_str text = { 0 };
    if (!q->o.record)
        return LS_OK;
    if (!*q->o.record)
        return ls_fail(LS_E_ARG, "ls_live_open: record is \"\", and must be a folder");
    LS_TRY(ls_path_check("ls_live_open: record", q->o.record));
    q->record.dir = ls_sys_strdup(q->o.record);
    q->record.fresh = ls_sys_calloc((size_t)q->ranks, sizeof *q->record.fresh);
    LS_TRY(ls_sys_have(q->record.dir));
    LS_TRY(ls_sys_have(q->record.fresh));
    for (int i = 0; i < q->n_fields; i++) {
        if (strchr(q->t->fields[i].name, '/'))
            return ls_fail(LS_E_ARG, "ls_live_open: record: field \"%s\" has a / in its name, so no file can",
                           q->t->fields[i].name);
        const ls_status s = header(&text, q, i, 0); /* of a type that NumPy lacks there is none */
        ls_str_release(&text);
        LS_TRY(s);
    }
    return LS_OK;
}

static ls_status record_put(int fd, const char *path, const void *data, size_t n, size_t at)
{
    for (size_t k = 0; k < n;) {
        const ssize_t m = ls_sys_pwrite(fd, (const char *)data + k, n - k, (off_t)(at + k));
        if (m < 0 && errno != EINTR)
            return ls_fail_os(path, "write", errno);
        k += m > 0 ? (size_t)m : 0;
    }
    return LS_OK;
}

static ls_status put_header(const ls_live *q, int i, int fd, const char *path)
{
    ls_str text = { 0 };
    ls_status s = header(&text, q, i, q->record.done);
    if (s == LS_OK)
        s = record_put(fd, path, text.data, text.len, 0);
    ls_str_release(&text);
    return s;
}

/* Rank 0 makes the file, or cuts one that is there already to the samples that were trained. */
static ls_status record_prepare(ls_live *q, int i, const char *path)
{
    const int64_t size = HEADER + q->record.done * (int64_t)q->fields[i].bytes, has = ls_file_size(path);
    if (!q->record.done && has >= 0)
        return ls_fail(
            LS_E_IO,
            "%s: is there already, of another run; give an empty folder, or continue that run from "
            "its checkpoint",
            path);
    if (q->record.done && has < size)
        return ls_fail(LS_E_IO,
                       "%s: %s, but the checkpoint counts %lld recorded samples, which need %lld bytes", path,
                       has < 0 ? "is not there" : "is too short", (long long)q->record.done, (long long)size);
    const int fd = ls_sys_open(path, O_WRONLY | (q->record.done ? 0 : O_CREAT | O_EXCL));
    if (fd < 0)
        return ls_fail_os(path, "open", errno);
    ls_status s = ls_sys_ftruncate(fd, (off_t)size) == 0 ? LS_OK : ls_fail_os(path, "cut", errno);
    if (s == LS_OK)
        s = put_header(q, i, fd, path);
    close(fd);
    return s;
}

static ls_status open_one(ls_live *q, int i, bool prepares)
{
    char *path = record_path_of(q, i);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK && prepares)
        s = record_prepare(q, i, path);
    if (s == LS_OK && !prepares) {
        q->record.files[i] = ls_sys_open(path, O_WRONLY);
        if (q->record.files[i] < 0)
            s = errno == ENOENT
                    ? ls_fail(LS_E_IO,
                              "%s: rank 0 has made it, but it is not there for rank %d: the folder "
                              "must be the same on all hosts",
                              path, q->rank)
                    : ls_fail_os(path, "open", errno);
    }
    free(path);
    return s;
}

static ls_status open_files(ls_live *q)
{
    ls_status s = q->rank == 0 ? ls_make_dirs(q->record.dir) : LS_OK;
    for (int i = 0; i < q->n_fields && s == LS_OK && q->rank == 0; i++)
        s = open_one(q, i, true);
    LS_TRY(ls_checkpoint_together(q->t->group, s));
    q->record.files = ls_sys_malloc(sizeof *q->record.files * (size_t)q->n_fields);
    s = ls_sys_have(q->record.files);
    if (s == LS_OK)
        memset(q->record.files, -1, sizeof *q->record.files * (size_t)q->n_fields);
    for (int i = 0; i < q->n_fields && s == LS_OK; i++)
        s = open_one(q, i, false);
    return ls_checkpoint_together(q->t->group, s);
}

/* Writes this rank's fresh rows, which begin with sample `first` of the file. */
static ls_status put_rows(ls_live *q, int i, int64_t first)
{
    const size_t bytes = q->fields[i].bytes;
    char *path = record_path_of(q, i);
    ls_status s = ls_sys_have(path);
    for (int64_t k = 0, n; k < q->n_fresh && s == LS_OK; k += n) {
        n = 1; /* contiguous rows are written at once */
        while (k + n < q->n_fresh && q->fresh[k + n] == q->fresh[k] + n)
            n++;
        s = record_put(q->record.files[i], path, q->t->fields[i].put + (size_t)q->fresh[k] * bytes,
                       (size_t)n * bytes, HEADER + (size_t)(first + k) * bytes);
    }
    free(path);
    return s;
}

static ls_status put_headers(const ls_live *q)
{
    ls_status s = LS_OK;
    for (int i = 0; i < q->n_fields && s == LS_OK; i++) {
        char *path = record_path_of(q, i);
        s = ls_sys_have(path);
        if (s == LS_OK)
            s = put_header(q, i, q->record.files[i], path);
        free(path);
    }
    return s;
}

ls_status ls_live_record_rows(ls_live *q)
{
    int64_t first = q->record.done, fresh = 0;
    if (!q->record.files) {
        const ls_status opened = open_files(q);
        if (opened != LS_OK) { /* the same on all ranks: the next call opens them again */
            ls_live_record_shut(q);
            return opened;
        }
    }
    q->record.fresh[0] = q->n_fresh;
    if (q->t->group)
        LS_TRY(ls_group_all_gather(q->t->group, &q->n_fresh, sizeof q->n_fresh, q->record.fresh));
    for (int r = 0; r < q->ranks; r++) {
        first += r < q->rank ? q->record.fresh[r] : 0;
        fresh += q->record.fresh[r];
    }
    ls_status s = LS_OK;
    for (int i = 0; i < q->n_fields && s == LS_OK; i++)
        s = put_rows(q, i, first);
    LS_TRY(ls_checkpoint_together(q->t->group, s));
    q->record.done += fresh; /* only what is in the files of all fields, from all ranks, counts */
    return ls_checkpoint_together(q->t->group, q->rank == 0 ? put_headers(q) : LS_OK);
}

ls_status ls_live_record_sync(ls_live *q)
{
    for (int i = 0; i < q->n_fields && q->record.files; i++)
        if (ls_sys_fsync(q->record.files[i]) != 0)
            return ls_fail_os(q->record.dir, "sync", errno);
    return LS_OK;
}

void ls_live_record_shut(ls_live *q)
{
    for (int i = 0; i < q->n_fields && q->record.files; i++)
        if (q->record.files[i] >= 0)
            close(q->record.files[i]);
    free(q->record.files);
    q->record.files = NULL;
}

void ls_live_record_close(ls_live *q)
{
    ls_live_record_shut(q);
    free(q->record.fresh);
    free(q->record.dir);
    q->record.dir = NULL;
}

/* tensorboard.c - writes event files. It needs four encodings of protobuf: the key of a field, a varint, a
 * double, and bytes with their length. */
#include "tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "rundir_own.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* how a field is encoded */
enum {
    EVENT_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_NUMBER = 2
};
enum { LENGTH_BYTES = 8, CRC_BYTES = 4 };

static uint8_t *tensorboard_put(uint8_t *p, const void *bytes, size_t n)
{
    return (uint8_t *)memcpy(p, bytes, n) + n;
}

static uint8_t *put_varint(uint8_t *p, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        *p++ = (uint8_t)(x | 0x80);
    *p++ = (uint8_t)x;
    return p;
}

static uint8_t *put_key(uint8_t *p, int field, int how)
{
    return put_varint(p, (uint64_t)(field << 3 | how));
}

static uint8_t *put_bytes(uint8_t *p, int field, const void *bytes, size_t n)
{
    p = put_varint(put_key(p, field, BYTES), n);
    return tensorboard_put(p, bytes, n);
}

static uint8_t *put_little(uint8_t *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (uint8_t)(x >> 8 * i);
    return p;
}

static uint8_t *put_scalar(uint8_t *p, const ls_scalar *s)
{
    uint8_t value[LS_EVENT_RECORD / 2], *end = put_bytes(value, VALUE_TAG, s->tag, strlen(s->tag));
    const float number = (float)s->value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    end = put_little(put_key(end, VALUE_NUMBER, FIXED32), bits, sizeof bits);
    return put_bytes(p, SUMMARY_VALUE, value, (size_t)(end - value));
}

static uint8_t *put_event(uint8_t *p, double time, int64_t step, int n, const ls_scalar *scalars)
{
    static const char VERSION[] = "brain.Event:2";
    uint8_t summary[LS_EVENT_RECORD / 2 + 64], *end = summary;
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    p = put_little(put_key(p, EVENT_TIME, FIXED64), bits, sizeof bits);
    if (step)
        p = put_varint(put_key(p, EVENT_STEP, VARINT), (uint64_t)step);
    if (!n)
        return put_bytes(p, EVENT_VERSION, VERSION, sizeof VERSION - 1);
    for (int i = 0; i < n; i++)
        end = put_scalar(end, &scalars[i]);
    return put_bytes(p, EVENT_SUMMARY, summary, (size_t)(end - summary));
}

/* The format masks CRCs, because a CRC of data that contains CRCs detects less. */
static uint32_t masked_crc(const void *data, size_t n)
{
    const uint32_t crc = ls_crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Puts length and CRCs around the event, which ends at `end`. Returns the size of the record. */
static size_t end_record(uint8_t *record, uint8_t *end)
{
    const uint8_t *event = record + LENGTH_BYTES + CRC_BYTES;
    const size_t length = (size_t)(end - event);
    put_little(record, length, LENGTH_BYTES);
    put_little(record + LENGTH_BYTES, masked_crc(record, LENGTH_BYTES), CRC_BYTES);
    end = put_little(end, masked_crc(event, length), CRC_BYTES);
    return (size_t)(end - record);
}

size_t ls_event_record(uint8_t out[LS_EVENT_RECORD], double time, int64_t step, int n,
                       const ls_scalar *scalars)
{
    size_t tags = 0;
    for (int i = 0; i < n; i++)
        tags += strlen(scalars[i].tag) + 16;
    LS_CHECK(tags < LS_EVENT_RECORD / 2, "the names of scalars are too long for a record");
    uint8_t *event = out + LENGTH_BYTES + CRC_BYTES, *end = put_event(event, time, step, n, scalars);
    return end_record(out, end);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ls_status tensorboard_append(ls_rundir *d, double time, int64_t step, int n, const ls_scalar *scalars)
{
    uint8_t record[LS_EVENT_RECORD];
    const size_t size = ls_event_record(record, time, step, n, scalars);
    return ls_rundir_append(d, d->own->events, "tensorboard", (const char *)record, size);
}

/* The settings of the run, once in each file. */
static ls_status append_hparams(ls_rundir *d, double time)
{
    const ls_str *summary = &d->own->hparams;
    uint8_t *record = ls_sys_malloc(summary->len + 64), *event = record + LENGTH_BYTES + CRC_BYTES,
            *end = event;
    uint64_t bits;
    LS_TRY(ls_sys_have(record));
    memcpy(&bits, &time, sizeof bits);
    end = put_little(put_key(end, EVENT_TIME, FIXED64), bits, sizeof bits);
    end = put_bytes(end, EVENT_SUMMARY, summary->data, summary->len);
    const size_t n = end_record(record, end);
    const ls_status s = ls_rundir_append(d, d->own->events, "tensorboard", (const char *)record, n);
    free(record);
    return s;
}

/* TensorBoard reads the files of a folder in the order of their names. */
static ls_status begin_file(ls_rundir *d, double time)
{
    char host[64] = "", name[160];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%04lld", (long long)time,
             *host ? host : "host", (long long)d->attempt);
    char *folder = ls_path_join(d->path, "tensorboard"), *path = ls_path_join(folder, name);
    ls_status s = ls_make_dirs(folder);
    if (s == LS_OK && (d->own->events = ls_sys_open(path, O_RDWR | O_CREAT | O_APPEND)) < 0)
        s = ls_fail_os(path, "open", errno);
    free(folder);
    free(path);
    if (s == LS_OK)
        s = tensorboard_append(d, time, 0, 0, NULL);
    return s == LS_OK && d->own->hparams.len ? append_hparams(d, time) : s;
}

ls_status ls_tensorboard_add(ls_rundir *d, int64_t step, int n, const ls_scalar *scalars)
{
    ls_scalar known[LS_EVENT_SCALARS];
    int k = 0;
    if (!d->own->wants_events || d->rank)
        return LS_OK;
    for (int i = 0; i < n; i++) {
        LS_CHECK(k < LS_EVENT_SCALARS, "too many scalars for an event");
        if (!isnan(scalars[i].value))
            known[k++] = scalars[i];
    }
    if (!k)
        return LS_OK;
    const double time = now();
    if (d->own->events < 0)
        LS_TRY(begin_file(d, time));
    return tensorboard_append(d, time, step, k, known);
}

/* golden.c - see golden.h. */
#include "golden/golden.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_weights *golden_open(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", LS_TEST_SOURCE_DIR, name);
    ls_weights *w = NULL;
    if (ls_weights_open(&w, path) != LS_OK)
        fail_msg("%s", ls_error_message());
    return w;
}

static const ls_weight *find(const ls_weights *w, const char *format, va_list args, char name[256])
{
    vsnprintf(name, 256, format, args);
    return ls_weights_find(w, name);
}

const ls_weight *golden_get(const ls_weights *w, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    const ls_weight *t = find(w, format, args, name);
    va_end(args);
    if (!t)
        fail_msg("the golden file has no \"%s\"", name);
    return t;
}

bool golden_has(const ls_weights *w, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    const ls_weight *t = find(w, format, args, name);
    va_end(args);
    return t != NULL;
}

int64_t golden_count(const ls_weight *t) { return ls_type_count(&t->type); }

void *golden_values_as(const ls_weight *t, ls_dtype type)
{
    void *out = malloc((size_t)(golden_count(t) + 1) * ls_dtype_size(type));
    assert_non_null(out);
    if (ls_weight_read(t, type, out) != LS_OK)
        fail_msg("%s", ls_error_message());
    return out;
}

double *golden_values(const ls_weight *t) { return golden_values_as(t, LS_F64); }

double golden_scalar(const ls_weights *w, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    const ls_weight *t = find(w, format, args, name);
    va_end(args);
    double x = 0;
    if (!t || golden_count(t) != 1 || ls_weight_read(t, LS_F64, &x) != LS_OK)
        fail_msg("the golden file has no scalar \"%s\"", name);
    return x;
}

double golden_formula(const char *name, int64_t i, double amplitude, double center)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001b3u;
    uint64_t z = h + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z = z ^ z >> 31;
    return center + amplitude * ((double)(z >> 48) - 32768) / 32768;
}

void golden_parameter(const char *name, const ls_type *type, void *data)
{
    size_t n = strlen(name);
    bool weight = n >= 6 && strcmp(name + n - 6, "weight") == 0;
    double amplitude = weight ? 0.125 : 0.0625, center = weight && type->ndim == 1 ? 1 : 0;
    for (int64_t i = 0; i < ls_type_count(type); i++) {
        double x = golden_formula(name, i, amplitude, center);
        if (type->dtype == LS_F64)
            ((double *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x; /* exact */
    }
}

golden_error golden_compare(const void *ours, const ls_type *type, const ls_weight *want)
{
    int64_t count = ls_type_count(type), n = golden_count(want);
    if (n > count)
        fail_msg("%s: %" PRId64 " elements expected, ours has %" PRId64, want->name, n, count);
    ls_weight mine = { .name = want->name,
                       .file = "ours",
                       .stored = ls_dtype_name(type->dtype),
                       .loadable = true,
                       .type = *type,
                       .bytes = ls_type_bytes(type),
                       .data = ours };
    double *a = golden_values(&mine), *b = golden_values(want);
    golden_error e = { .worst = -1 };
    for (int64_t k = 0; k < n; k++) {
        int64_t i = golden_sampled(k, n, count);
        double d = a[i] == b[k] || (isnan(a[i]) && isnan(b[k])) ? 0 : fabs(a[i] - b[k]);
        if (isnan(d))
            d = INFINITY;
        e.norm += d * d;
        e.largest = fmax(e.largest, fabs(b[k]));
        if (d > e.worst)
            e = (golden_error){
                .worst = d, .ours = a[i], .want = b[k], .at = i, .norm = e.norm, .largest = e.largest
            };
    }
    e.norm = sqrt(e.norm);
    free(a);
    free(b);
    return e;
}

void golden_expect_scaled(const char *what, const void *ours, const ls_type *type, const ls_weight *want,
                          double relative, double scale)
{
    golden_error e = golden_compare(ours, type, want);
    if (!(e.worst <= relative * scale))
        fail_msg("%s: %s: element %" PRId64 " is %.17g, PyTorch has %.17g: off by %.3g, allowed %.3g", what,
                 want->name, e.at, e.ours, e.want, e.worst, relative * scale);
}

void golden_expect(const char *what, const void *ours, const ls_type *type, const ls_weight *want,
                   double relative)
{
    golden_expect_scaled(what, ours, type, want, relative, golden_compare(ours, type, want).largest);
}

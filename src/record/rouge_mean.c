/* rouge_mean.c - see rouge_mean.h. */
#include "rouge_mean.h"

#include <math.h>
#include <stdio.h>

const char *const LS_ROUGE_NAMES[LS_ROUGES] = { "rouge1", "rouge2", "rougeL" };

double ls_rouge_at(const ls_rouge_mean *r, int i)
{
    return !r->texts ? NAN : i == 0 ? r->mean.rouge1 : i == 1 ? r->mean.rouge2 : r->mean.rougeL;
}

void ls_rouge_write(ls_json *j, const char *prefix, const ls_rouge_mean *r)
{
    char name[32];
    for (int i = 0; i < LS_ROUGES && r->texts; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, LS_ROUGE_NAMES[i]);
        ls_json_f64(j, name, ls_rouge_at(r, i));
    }
    snprintf(name, sizeof name, "%stexts", prefix);
    if (r->texts)
        ls_json_int(j, name, r->texts);
}

ls_rouge_mean ls_rouge_read(const json_t *object, const char *prefix)
{
    ls_rouge_mean r = { .texts = 0 };
    double *const to[LS_ROUGES] = { &r.mean.rouge1, &r.mean.rouge2, &r.mean.rougeL };
    char name[32];
    for (int i = 0; i < LS_ROUGES; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, LS_ROUGE_NAMES[i]);
        *to[i] = json_number_value(json_object_get(object, name));
    }
    snprintf(name, sizeof name, "%stexts", prefix);
    r.texts = json_integer_value(json_object_get(object, name));
    return r;
}

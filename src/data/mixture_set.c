/* mixture_set.c - see mixture_set.h. */
#include "data/mixture_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/weighted_set.h"

typedef struct mixture {
    ls_dataset set;
    int n;
    ls_dataset **sets; /* [n] */
    int64_t *end;      /* [n]: where the samples of a set end */
    ls_dataset_part *parts;
    char *source;
} mixture;

/* Sample *i of the mixture is sample *i of the set that is returned. */
static const ls_dataset *set_of(const ls_dataset *set, int64_t *i)
{
    const mixture *m = (const mixture *)set;
    int k = 0;
    while (*i >= m->end[k])
        k++;
    *i -= k ? m->end[k - 1] : 0;
    return m->sets[k];
}

static ls_status mixture_read(const ls_dataset *set, int64_t i, void *const *to)
{
    const ls_dataset *of = set_of(set, &i);
    return of->read(of, i, to);
}

static int64_t mixture_count(const ls_dataset *set, int64_t i, int k)
{
    const ls_dataset *of = set_of(set, &i);
    return of->count(of, i, k);
}

static void close_all(int n, ls_dataset **sets)
{
    for (int k = 0; k < n; k++)
        ls_dataset_close(&sets[k]);
}

static void mixture_close(ls_dataset *set)
{
    mixture *m = (mixture *)set;
    close_all(m->n, m->sets);
    free(m->sets);
    free(m->end);
    free(m->parts);
    free(m->source);
    free(m);
}

static bool same_fields(const ls_dataset *a, const ls_dataset *b)
{
    bool same = a->n_fields == b->n_fields;
    for (int f = 0; f < a->n_fields && same; f++)
        same = !strcmp(a->fields[f].name, b->fields[f].name) &&
               ls_type_equal(&a->fields[f].type, &b->fields[f].type);
    return same;
}

/* The files of all sets. A tokenizer or template that several have is listed once. */
static ls_status list_parts(mixture *m)
{
    int all = 0;
    for (int k = 0; k < m->n; k++)
        all += m->sets[k]->n_parts;
    m->set.parts = m->parts = ls_sys_calloc((size_t)all + 1, sizeof *m->parts);
    LS_TRY(ls_sys_have(m->parts));
    for (int k = 0; k < m->n; k++)
        for (int p = 0; p < m->sets[k]->n_parts; p++) {
            const ls_dataset_part *part = &m->sets[k]->parts[p];
            bool there = false;
            for (int q = 0; q < m->set.n_parts; q++)
                there = there || !strcmp(m->parts[q].path, part->path);
            if (!there)
                m->parts[m->set.n_parts++] = *part;
        }
    return LS_OK;
}

static ls_status describe(mixture *m, const double *weights)
{
    ls_str text = { 0 };
    uint64_t digests[2] = { 0 };
    for (int k = 0; k < m->n; k++) {
        if (weights)
            ls_str_printf(&text, "%s%g of ", k ? ", " : "", weights[k]);
        else
            ls_str_add(&text, k ? ", " : "");
        ls_str_add(&text, m->sets[k]->source);
        digests[1] = m->sets[k]->digest;
        digests[0] = ls_hash64(digests, sizeof digests);
    }
    m->set.digest = weights ? ls_hash64_more(digests[0], weights, sizeof *weights * (size_t)m->n)
                            : digests[0];
    const ls_status s = ls_str_status(&text);
    m->set.source = m->source = ls_str_take(&text);
    return s;
}

static ls_status join(mixture *m, const double *weights)
{
    m->end = ls_sys_calloc((size_t)m->n, sizeof *m->end);
    LS_TRY(ls_sys_have(m->end));
    for (int k = 0; k < m->n; k++) {
        if (!same_fields(m->sets[k], m->sets[0]))
            return ls_fail(LS_E_SHAPE, "a mixture of %s and %s, whose samples have other fields",
                           m->sets[0]->source, m->sets[k]->source);
        m->end[k] = m->set.n += m->sets[k]->n;
    }
    LS_TRY(list_parts(m));
    return describe(m, weights);
}

/* Each sample of a set has the same weight. */
static ls_status mixture_draw(ls_dataset **out, const mixture *m, const double *weights)
{
    double *draws = ls_sys_malloc(sizeof *draws * (size_t)m->set.n), sum = 0;
    LS_TRY(ls_sys_have(draws));
    for (int64_t k = 0, i = 0; k < m->n; k++)
        for (; i < m->end[k]; i++)
            draws[i] = sum += weights[k] / (double)m->sets[k]->n;
    if (sum > 0)
        return ls_draws_give(out, draws);
    free(draws);
    return ls_fail(LS_E_NUMERIC, "weights: none of them is above 0");
}

ls_status ls_mixture_open(ls_dataset **out, int n, ls_dataset **sets, const double *weights)
{
    mixture *m = ls_sys_calloc(1, sizeof *m);
    ls_dataset **own = ls_sys_calloc((size_t)n, sizeof *own);
    *out = NULL;
    if (!m || !own) {
        free(m);
        free(own);
        close_all(n, sets);
        return ls_fail(LS_E_MEMORY, "no memory for a mixture of data sets");
    }
    memcpy(own, sets, sizeof *own * (size_t)n);
    *m = (mixture){ .set = *sets[0], .n = n, .sets = own };
    m->set.n = m->set.n_parts = 0;
    m->set.read = mixture_read;
    m->set.count = mixture_count;
    m->set.close = mixture_close;
    *out = &m->set;
    ls_status s = join(m, weights);
    if (s == LS_OK && weights)
        s = mixture_draw(out, m, weights);
    if (s != LS_OK)
        ls_dataset_close(out);
    return s;
}

/* unigram.c - the Unigram model (Kudo 2018): cuts a piece into tokens so that the sum of their scores is as
 * large as possible (Viterbi, from left to right). A character that is not a token of its own may become the
 * unknown token, which scores less than the worst token. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "text.h"

#define UNKNOWN_PENALTY 10.0

static int unigram_compare(const void *x, const void *y, void *context)
{
    const ls_vocab *v = context;
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    const size_t n = v->length[a] < v->length[b] ? v->length[a] : v->length[b];
    const int order = memcmp(v->text[a], v->text[b], n);
    return order ? order : (v->length[a] > v->length[b]) - (v->length[a] < v->length[b]);
}

ls_status ls_unigram_prepare(ls_unigram *u, ls_arena *a)
{
    const ls_vocab *v = u->vocab;
    int32_t *ids = LS_ARENA_ARRAY(a, int32_t, v->size);
    LS_TRY(ls_arena_status(a));
    double least = DBL_MAX;
    for (int32_t id = 0; id < v->size; id++)
        if (v->text[id] && v->length[id] > 0) {
            ids[u->n++] = id;
            least = u->score[id] < least ? u->score[id] : least;
        }
    qsort_r(ids, (size_t)u->n, sizeof *ids, unigram_compare, (void *)(uintptr_t)v);
    u->sorted = ids;
    u->unknown_score = least - UNKNOWN_PENALTY;
    return LS_OK;
}

/* Narrows sorted[*low, *high) to the tokens whose byte number `depth` is c. */
static void narrow(const ls_unigram *u, int32_t *low, int32_t *high, size_t depth, uint8_t c)
{
    int32_t bounds[2];
    for (int side = 0; side < 2; side++) {
        /* side 0: the first token with a byte >= c; side 1: the first with a byte > c. A token that ends here
         * precedes both. */
        int32_t from = *low, to = *high;
        while (from < to) {
            const int32_t middle = from + (to - from) / 2, id = u->sorted[middle];
            const int byte = u->vocab->length[id] > depth ? (uint8_t)u->vocab->text[id][depth] : -1;
            if (byte < c + side)
                from = middle + 1;
            else
                to = middle;
        }
        bounds[side] = from;
    }
    *low = bounds[0];
    *high = bounds[1];
}

/* the best way to here: its sum, where its last token begins, which that is */
typedef struct node {
    double score;
    int64_t from;
    int32_t id;
} node;

static void improve(node *to, double score, int64_t from, int32_t id)
{
    if (to->from < 0 || score > to->score)
        *to = (node){ score, from, id };
}

static ls_status find_best(const ls_unigram *u, const char *piece, size_t n, const ls_encoding *e, node *best)
{
    uint32_t c, turn = 0;
    for (size_t i = 0; i <= n; i++)
        best[i] = (node){ 0, -1, -1 };
    for (size_t at = 0, bytes; at < n; at += bytes) {
        if (++turn % (1 << 12) == 0)
            LS_TRY(ls_stop_check("encoding a text of %zu bytes", n));
        const double here = best[at].score;
        bool single = false;
        int32_t low = 0, high = u->n;
        bytes = ls_utf8_next(piece + at, &c);
        for (size_t i = at; i < n && low < high; i++) {
            narrow(u, &low, &high, i - at, (uint8_t)piece[i]);
            if (low == high || u->vocab->length[u->sorted[low]] != i - at + 1 ||
                !ls_encoding_may(e, u->sorted[low], ls_range_of(e->from, at, i + 1)))
                continue;
            improve(&best[i + 1], here + u->score[u->sorted[low]], (int64_t)at, u->sorted[low]);
            single = single || i + 1 - at == bytes;
        }
        if (!single)
            improve(&best[at + bytes], here + u->unknown_score, (int64_t)at, u->unknown);
    }
    return LS_OK;
}

/* A run of unknown characters: its bytes, if there is a token for each, else the unknown token once. */
static ls_status add_unknown(const ls_unigram *u, const char *piece, size_t begin, size_t end,
                             ls_encoding *out)
{
    bool known = u->byte_fallback;
    for (size_t i = begin; i < end; i++)
        known = known && u->byte_ids[(uint8_t)piece[i]] >= 0;
    for (size_t i = begin; i < end && known; i++)
        LS_TRY(ls_encoding_put(out, u->byte_ids[(uint8_t)piece[i]], i, i + 1));
    return known ? LS_OK : ls_encoding_put(out, u->unknown, begin, end);
}

ls_status ls_unigram_encode(const ls_unigram *u, const char *piece, size_t n, ls_encoding *out)
{
    node few[257], *best = n < 257 ? few : ls_sys_malloc(sizeof *best * (n + 1));
    int64_t count = 0;
    if (!best)
        return ls_fail(LS_E_MEMORY, "out of memory for a piece of %zu bytes", n);
    ls_status s = find_best(u, piece, n, out, best);
    if (s != LS_OK)
        n = 0;
    for (int64_t at = (int64_t)n; at > 0;
         at = best[at].from) /* from the end: each node receives where the next token begins */
        best[best[at].from].score = (double)at, count++;
    for (int64_t at = 0; s == LS_OK && count > 0 && at < (int64_t)n;) {
        int64_t end = (int64_t)best[at].score;
        if (best[end].id != u->unknown) {
            s = ls_encoding_put(out, best[end].id, (size_t)at, (size_t)end);
            at = end;
            continue;
        }
        const int64_t begin = at;
        while (at < (int64_t)n && best[(int64_t)best[at].score].id == u->unknown)
            at = (int64_t)best[at].score;
        s = add_unknown(u, piece, (size_t)begin, (size_t)at, out);
    }
    if (best != few)
        free(best);
    return s;
}

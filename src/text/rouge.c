/* rouge.c - see rouge.h. Words become numbers, equal ones the same, so that n-grams are numbers too. */
#include "rouge.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

typedef struct word {
    const char *text;
    size_t n;
    size_t place; /* among the words of both texts */
} word;

typedef struct words {
    char *letters;    /* of both texts, in lower case */
    word *list;       /* [n] */
    size_t n, first;  /* all words; those of the target, which come first */
    int64_t *id;      /* [n] */
    int64_t *scratch; /* [2 * n + 2] */
} words;

/* The letter or digit that begins at text[0], in lower case; 0: none does. *bytes: how many it takes. Two
 * letters beyond ASCII are Latin ones in lower case: U+0130 and U+212A. */
static char letter_at(const char *text, size_t left, size_t *bytes)
{
    const char c = text[0];
    *bytes = 1;
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
        return c;
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    if (left >= 3 && !memcmp(text, "\xe2\x84\xaa", 3)) {
        *bytes = 3;
        return 'k';
    }
    return 0;
}

/* Appends the words of a text; U+0130 is an i with a mark behind it, which ends the word. */
static char *add_words(words *w, char *to, const char *text, size_t n)
{
    char *begin = to;
    for (size_t i = 0, bytes; i <= n; i += bytes) {
        const bool dotted = n - i >= 2 && !memcmp(text + i, "\xc4\xb0", 2);
        const char c = i == n ? 0 : dotted ? 'i' : letter_at(text + i, n - i, &bytes);
        bytes = i == n ? 1 : dotted ? 2 : bytes;
        if (c)
            *to++ = c;
        if ((!c || dotted) && to > begin) {
            w->list[w->n] = (word){ begin, (size_t)(to - begin), w->n };
            w->n++;
        }
        begin = !c || dotted ? to : begin;
    }
    return to;
}

static int by_letters(const void *a, const void *b)
{
    const word *x = a, *y = b;
    const size_t least = x->n < y->n ? x->n : y->n;
    const int order = memcmp(x->text, y->text, least);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void rouge_number(words *w)
{
    int64_t id = 0;
    qsort(w->list, w->n, sizeof *w->list, by_letters);
    for (size_t i = 0; i < w->n; i++) {
        id += i > 0 && by_letters(&w->list[i - 1], &w->list[i]) != 0;
        w->id[w->list[i].place] = id;
    }
}

static double f_measure(size_t common, size_t in_target, size_t in_text)
{
    const double precision = (double)common / (double)(in_text ? in_text : 1),
                 recall = (double)common / (double)(in_target ? in_target : 1);
    return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

/* The n-grams of one text, sorted; returns how many. */
static size_t grams(const words *w, size_t begin, size_t end, size_t n, int64_t *out)
{
    const size_t m = end - begin >= n ? end - begin - n + 1 : 0;
    for (size_t i = 0; i < m; i++)
        out[i] = n == 1 ? w->id[begin + i] : w->id[begin + i] * (int64_t)w->n + w->id[begin + i + 1];
    qsort(out, m, sizeof *out, by_value);
    return m;
}

static double of_grams(const words *w, size_t n)
{
    int64_t *target = w->scratch, *text = target + w->first;
    const size_t a = grams(w, 0, w->first, n, target), b = grams(w, w->first, w->n, n, text);
    size_t common = 0;
    for (size_t i = 0, j = 0; i < a && j < b;) {
        common += target[i] == text[j];
        const bool next_i = target[i] <= text[j], next_j = text[j] <= target[i];
        i += next_i;
        j += next_j;
    }
    return f_measure(common, a, b);
}

/* length[j]: of the longest common subsequence of the target's words so far and the text's first j. */
static double of_longest(const words *w)
{
    const size_t m = w->n - w->first;
    int64_t *length = w->scratch;
    memset(length, 0, sizeof *length * (m + 1));
    for (size_t i = 0; i < w->first; i++) {
        int64_t diagonal = 0;
        for (size_t j = 1; j <= m; j++) {
            const int64_t above = length[j];
            if (w->id[i] == w->id[w->first + j - 1])
                length[j] = diagonal + 1;
            else if (length[j - 1] > above)
                length[j] = length[j - 1];
            diagonal = above;
        }
    }
    return f_measure((size_t)length[m], w->first, m);
}

ls_status ls_rouge_of(ls_rouge *out, const char *target, size_t n_target, const char *text, size_t n_text)
{
    const size_t room = n_target + n_text + 2; /* letters, and words too */
    words w = { .letters = ls_sys_malloc(room),
                .list = ls_sys_malloc(sizeof *w.list * room),
                .id = ls_sys_malloc(sizeof *w.id * room),
                .scratch = ls_sys_malloc(sizeof *w.scratch * room) };
    const bool there = w.letters && w.list && w.id && w.scratch;
    if (there) {
        char *rest = add_words(&w, w.letters, target, n_target);
        w.first = w.n;
        add_words(&w, rest, text, n_text);
        rouge_number(&w);
        *out = (ls_rouge){ of_grams(&w, 1), of_grams(&w, 2), of_longest(&w) };
    }
    free(w.letters);
    free(w.list);
    free(w.id);
    free(w.scratch);
    return there ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory for the words of two texts");
}

bool ls_metric_of_texts(const char *name)
{
    name += strncmp(name, "eval_", 5) ? 0 : 5;
    return !strcmp(name, "rouge1") || !strcmp(name, "rouge2") || !strcmp(name, "rougeL");
}

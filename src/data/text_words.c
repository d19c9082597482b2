/* text_words.c - the words of a text, and the first token of each. */
#include "data/text_words.h"

#include <string.h>

static const char WHITE[] = " \t\r\n";

const char *ls_next_word(const char *text, size_t *at, size_t *n)
{
    *at += strspn(text + *at, WHITE);
    *n = strcspn(text + *at, WHITE);
    const char *word = *n ? text + *at : NULL;
    *at += *n;
    return word;
}

int64_t ls_word_token(const ls_text_ranges *at, int64_t *k, size_t end, size_t n)
{
    int64_t token = -1;
    for (; *k < at->n && at->at[*k].begin < (int64_t)end; ++*k)
        if (token < 0 && at->at[*k].end > (int64_t)(end - n))
            token = *k;
    return token;
}

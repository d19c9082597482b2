/* test_search.c - beam search on logits that are made by hand: ties, and more beams than tokens that may
 * follow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/search.h"
#include "support/support.h"

enum { WORDS = 6, END = 0 };
static const int32_t ENDS[] = { END };

static ls_search *new_search(const ls_generate_opts *how, int64_t beams, int64_t most, int64_t n_before,
                             const int32_t *before)
{
    ls_search *s;
    ASSERT_OK(ls_search_create(&s, &(ls_search_opts){ .how = how,
                                                      .beams = beams,
                                                      .vocabulary = WORDS,
                                                      .most = most,
                                                      .before = before,
                                                      .n_before = n_before,
                                                      .threads = 1 }));
    return s;
}

/* Of finished texts with equal scores, the first one is the result. */
static void equal_texts(void **state)
{
    (void)state;
    const ls_generate_opts how = { LS_GENERATE_DEFAULTS, .n_ends = 1, .ends = ENDS, .length_penalty = 0 };
    ls_search *s = new_search(&how, 2, 3, 0, NULL);
    int32_t next[2], from[2];
    bool over = false;
    /* Both words of the first step lead to an end that is certain; their scores are equal. */
    float logits[2 * WORDS] = { -INFINITY, -INFINITY, -INFINITY, 0, 0, -INFINITY };
    ASSERT_OK(ls_search_advance(s, logits, 0, next, from, &over));
    assert_true(!over && next[0] == 3 && next[1] == 4 && from[0] == 0 && from[1] == 0);
    for (int i = 0; i < 2 * WORDS; i++)
        logits[i] = i % WORDS == END ? 0 : -INFINITY;
    ASSERT_OK(ls_search_advance(s, logits, WORDS, next, from, &over));
    int64_t n;
    const int32_t *text = ls_search_text(s, &n);
    assert_true(n == 1 && text[0] == 3 && ls_search_ended(s));
    ls_search_destroy(&s);
}

/* Only one word may follow: the other beam is one of those that never count, but it, too, continues the one
 * text that there is. */
static void more_beams_than_words(void **state)
{
    (void)state;
    const int32_t before[] = { 0, 1, 2, 4, 5 };
    const ls_generate_opts how = { LS_GENERATE_DEFAULTS, .no_repeat = 1, .n_ends = 1, .ends = ENDS };
    ls_search *s = new_search(&how, 2, 4, 5, before);
    const float logits[WORDS] = { 0, 0, 0, 0, 0, 0 };
    int32_t next[2] = { -1, -1 }, from[2] = { -1, -1 };
    bool over;
    ASSERT_OK(ls_search_advance(s, logits, 0, next, from, &over));
    assert_int_equal(next[0], 3);
    assert_int_equal(from[0], 0);
    assert_int_equal(from[1], 0);
    ls_search_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts),
        cmocka_unit_test(more_beams_than_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sort.c - see sort.h: a pass for each digit of the row numbers. */
#include "sort.h"

static bool has_digit(int64_t rows, int shift) { return shift == 0 || (shift < 32 && rows >> shift); }

int ls_gpu_sort_result(int64_t rows)
{
    int passes = 0;
    while (has_digit(rows, 8 * passes))
        passes++;
    return (passes - 1) % 2;
}

void ls_gpu_sort_run(struct ls_queue *q, const ls_gpu_sort *s)
{
    sort_args k = { .ids = s->ids, .counts = s->counts, .n = s->n, .rows = s->rows, .first = s->first };
    k.blocks = ls_gpu_blocks(s->n, SORT_TILE);
    for (int to = 0; has_digit(s->rows, k.shift); k.shift += 8, to = !to) {
        k.from_rows = s->list_rows[!to];
        k.from_places = s->list_places[!to];
        k.to_rows = s->list_rows[to];
        k.to_places = s->list_places[to];
        for (int move = 0; move < 2; move++)
            ls_gpu_run(q, &(ls_gpu_launch){ .file = "embedding_grad.cu",
                                            .function = move ? "sort_move" : "sort_count",
                                            .before = "#define X f32\n#define VECTOR 0\n",
                                            .blocks = k.blocks,
                                            .args = &k,
                                            .bytes = sizeof k });
        k.ids = 0;
    }
}

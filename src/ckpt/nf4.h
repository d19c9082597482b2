/* nf4.h - weights of 4 bits in files, and ordinary ones that become such while they are loaded (base/nf4.h).
 * Private to src/ckpt, but for initial values (src/step). */
#pragma once
#include "base/arena.h"
#include "base/nf4.h"
#include "ckpt/parts.h"
#include "ckpt/pieces.h"

/* What the numbers of a tensor are made of. A file of bitsandbytes has besides NAME (the codes) NAME.absmax,
 * NAME.quant_map, NAME.quant_state.bitsandbytes__nf4 and, with double quantisation, NAME.nested_absmax and
 * NAME.nested_quant_map; a checkpoint NAME.absmax, NAME.nested_absmax and NAME.nested_offset. */
struct ls_nf4_weight {
    const ls_weight *codes, *scales; /* scales: bytes or, without `nested`, f32 */
    const ls_weight *nested;         /* NULL: scales are not quantised */
    float offset, map[LS_NF4_MAP];
};

/* Puts one tensor NAME of a float type in place of those of each such weight, with parts that have `nf4`, so
 * that readers see its numbers. A weight that cannot be read becomes one that is not loadable. LS_E_FORMAT:
 * its tensors do not fit each other. */
ls_status ls_nf4_join(ls_weights *w);

/* The tensors of a weight of a model, in a list: codes u8 [N, K/2], bytes, nested scales, offset. */
typedef struct ls_nf4_slots {
    int64_t at[4]; /* their numbers in the list */
    ls_type whole; /* [N, K] */
} ls_nf4_slots;
enum { LS_NF4_CODES_AT, LS_NF4_BYTES_AT, LS_NF4_NESTED_AT, LS_NF4_OFFSET_AT };
/* Whether tensor i of the list has the codes of such a weight, or (*part) is another one of its tensors. */
bool ls_nf4_is(ls_nf4_slots *out, bool *part, const ls_tensor_list *l, int64_t i);

/* Reads elements first .. first + n - 1 of a weight as f32. `again`: they were read before. */
typedef ls_status (*ls_nf4_reader)(void *context, int64_t first, int64_t n, bool again, float *out);
/* Makes this rank's ranges of a weight from its numbers, some at a time; every rank reads all of them,
 * because scales are of the whole weight. LS_E_NUMERIC: a number is not finite. */
ls_status ls_nf4_quantize(ls_pieces *p, const ls_tensor_list *l, const ls_nf4_slots *s, ls_nf4_reader read,
                          void *context, int threads);
/* The same from a weight of 4 bits with nested scales: its bytes. */
ls_status ls_nf4_copy(ls_pieces *p, const ls_tensor_list *l, const ls_nf4_slots *s,
                      const struct ls_nf4_weight *from);

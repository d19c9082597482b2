/* split_choice.c - see split_choice.h. */
#include "split_choice.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"

ls_status ls_split_choose(ls_split_choice *out, const ls_predict_opts *o, int64_t samples)
{
    const int64_t asked = o->random ? o->random : o->count;
    if (o->first < 0 || asked < 1 || o->first >= samples)
        return ls_fail(LS_E_USAGE, "--first %lld --count %lld: the split has samples 0 to %lld",
                       (long long)o->first, (long long)asked, (long long)samples - 1);
    const int64_t rest = samples - o->first;
    *out = (ls_split_choice){ .first = o->first,
                              .n = asked < rest ? asked : rest,
                              .random_of = o->random ? samples : 0,
                              .seed = o->how.sampling.seed };
    if (o->random > samples)
        ls_log_info("%lld samples: the split has no more", (long long)samples);
    return LS_OK;
}

/* The first positions of a permutation are samples without repetition. */
int64_t ls_split_sample(const ls_split_choice *c, int64_t i)
{
    if (c->list)
        return c->list[i];
    if (!c->random_of)
        return c->first + i;
    return (int64_t)ls_permute_index(ls_rng_key_of(c->seed, ls_hash_text("predicted samples")), (uint64_t)i,
                                     (uint64_t)c->random_of);
}

/* augment_mix.c - mixup and cutmix: every image of a micro-batch is mixed with the image of the row before
 * it, as torchvision's MixUp and CutMix do with batch.roll(1, 0). Shares are multiples of 1/32768, so pixels
 * are mixed in integers and the labels' weights are exact. */
#include "augment_mix.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

enum { ONE = 32768, CHUNK = 4096 };

/* log of a number of the gamma distribution (Marsaglia and Tsang 2000); the logarithm, because a small alpha
 * gives numbers that f64 cannot hold */
static double log_gamma_draw(ls_rng_key key, uint64_t *next, double alpha)
{
    const double more = alpha < 1 ? log(1 - ls_rng_uniform(key, (*next)++)) / alpha : 0;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = ls_rng_normal(key, (*next)++), u = 1 - ls_rng_uniform(key, (*next)++),
                     root = 1 + c * x, v = root * root * root;
        if (root > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d) + log(v) + more;
    }
}

static double beta_draw(ls_rng_key key, uint64_t *next, double alpha)
{
    const double a = log_gamma_draw(key, next, alpha), b = log_gamma_draw(key, next, alpha);
    return 1 / (1 + exp(b - a));
}

static int clamp(int x, int most) { return x < 0 ? 0 : x > most ? most : x; }

ls_mix ls_mix_draw(const ls_augment *a, uint64_t draw, int height, int width)
{
    const ls_rng_key key = ls_rng_key_of(draw, ls_hash_text("mix"));
    uint64_t next = 0;
    const bool paste = ls_rng_uniform(key, next++) < 0.5 ? a->cutmix > 0 : !(a->mixup > 0);
    const double share = beta_draw(key, &next, paste ? a->cutmix : a->mixup);
    if (!paste)
        return (ls_mix){ .share = (int)rint(share * ONE), .own = (float)(rint(share * ONE) / ONE) };
    const int x = (int)ls_rng_below(key, next, (uint64_t)width),
              y = (int)ls_rng_below(key, next + 1, (uint64_t)height);
    const double r = 0.5 * sqrt(1 - share);
    const int half_w = (int)(r * width), half_h = (int)(r * height);
    ls_mix m = { .paste = true, .x = clamp(x - half_w, width), .y = clamp(y - half_h, height) };
    m.width = clamp(x + half_w, width) - m.x;
    m.height = clamp(y + half_h, height) - m.y;
    m.own = (float)(1 - (double)m.width * m.height / ((double)width * height));
    return m;
}

/* share: of `at`, in ONEs */
static void blend(uint8_t *restrict at, const uint8_t *restrict other, int64_t n, uint32_t share)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = (uint8_t)((at[i] * share + other[i] * (ONE - share) + ONE / 2) / ONE);
}

/* The n bytes at `offset` of every row, from the last row on; row 0 needs what the last row was. */
static void roll(const ls_mix *m, uint8_t *images, int64_t rows, int64_t bytes, int64_t offset, int64_t n)
{
    uint8_t last[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t some = n - i < CHUNK ? n - i : CHUNK;
        uint8_t *at = images + offset + i;
        memcpy(last, at + (rows - 1) * bytes, (size_t)some);
        for (int64_t r = rows - 1; r >= 0; r--) {
            const uint8_t *other = r ? at + (r - 1) * bytes : last;
            if (m->paste)
                memcpy(at + r * bytes, other, (size_t)some);
            else
                blend(at + r * bytes, other, some, (uint32_t)m->share);
        }
    }
}

void ls_mix_images(const ls_mix *m, uint8_t *images, int64_t rows, int channels, int height, int width)
{
    const int64_t plane = (int64_t)height * width, bytes = channels * plane;
    if (!m->paste)
        roll(m, images, rows, bytes, 0, bytes);
    for (int64_t c = 0; c < channels && m->paste; c++)
        for (int64_t y = m->y; y < m->y + m->height; y++)
            roll(m, images, rows, bytes, c * plane + y * width + m->x, m->width);
}

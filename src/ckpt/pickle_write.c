/* pickle_write.c - values as opcodes of protocol 2, limited to those that torch.load(weights_only=True)
 * accepts. */
#include <inttypes.h>
#include <string.h>

#include "ckpt/pickle.h"

static void put_bytes(ls_str *out, uint64_t x, int n)
{
    for (int i = 0; i < n; i++, x >>= 8)
        ls_str_add_n(out, &(char){ (char)x }, 1);
}

void ls_pickle_put_int(ls_str *out, int64_t x)
{
    bool byte = x < 256, word = x <= INT32_MAX;
    ls_str_add(out, byte ? "K" : word ? "J" : "\x8a\x08"); /* BININT1, BININT, LONG1 of 8 bytes */
    put_bytes(out, (uint64_t)x, byte ? 1 : word ? 4 : 8);
}

void ls_pickle_put_float(ls_str *out, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    ls_str_add(out, "G"); /* BINFLOAT: the only number in big-endian order */
    put_bytes(out, __builtin_bswap64(bits), 8);
}

void ls_pickle_put_text(ls_str *out, const char *text)
{
    ls_str_add(out, "X");
    put_bytes(out, strlen(text), 4);
    ls_str_add(out, text);
}

void ls_pickle_put_global(ls_str *out, const char *global)
{
    const char *space = strchr(global, ' ');
    ls_str_printf(out, "c%.*s\n%s\n", (int)(space - global), global, space + 1);
}

void ls_pickle_put_ints(ls_str *out, int n, const int64_t *numbers)
{
    ls_str_add(out, "(");
    for (int i = 0; i < n; i++)
        ls_pickle_put_int(out, numbers[i]);
    ls_str_add(out, "t");
}

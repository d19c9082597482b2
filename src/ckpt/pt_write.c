/* pt_write.c - the pickle of a state dict: protocol 2 and only opcodes that torch.load(weights_only=True) takes. Nothing is remembered and used again,
 * so each tensor's part reads the same: _rebuild_tensor_v2(("storage", type, key, "cpu", elements), 0, sizes, strides, False, OrderedDict()). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

static void add_bytes(ls_str *out, uint64_t x, int n)
{
    for (int i = 0; i < n; i++, x >>= 8)
        ls_str_add_n(out, &(char){ (char)x }, 1);
}

static void add_int(ls_str *out, int64_t x)
{
    bool byte = x < 256, word = x <= INT32_MAX;
    ls_str_add(out, byte ? "K" : word ? "J" : "\x8a\x08"); /* BININT1, BININT, LONG1 of 8 bytes */
    add_bytes(out, (uint64_t)x, byte ? 1 : word ? 4 : 8);
}

static void add_text(ls_str *out, const char *text)
{
    ls_str_add(out, "X");
    add_bytes(out, strlen(text), 4);
    ls_str_add(out, text);
}

/* "torch FloatStorage" */
static void add_global(ls_str *out, const char *global)
{
    const char *space = strchr(global, ' ');
    ls_str_printf(out, "c%.*s\n%s\n", (int)(space - global), global, space + 1);
}

static void add_ordered_dict(ls_str *out)
{
    add_global(out, "collections OrderedDict");
    ls_str_add(out, ")R");
}

static void add_tuple(ls_str *out, int n, const int64_t *numbers)
{
    ls_str_add(out, "(");
    for (int i = 0; i < n; i++)
        add_int(out, numbers[i]);
    ls_str_add(out, "t");
}

static void add_tensor(ls_str *out, int64_t number, const ls_type *type)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, number);
    add_global(out, "torch._utils _rebuild_tensor_v2");
    ls_str_add(out, "((");
    add_text(out, "storage");
    add_global(out, ls_pt_storage_global(ls_safetensors_name(type->dtype)));
    add_text(out, key);
    add_text(out, "cpu");
    add_int(out, ls_type_count(type));
    ls_str_add(out, "tQ"); /* the tuple, as a persistent id */
    add_int(out, 0);
    add_tuple(out, type->ndim, type->dims);
    add_tuple(out, type->ndim, ls_tensor_of(NULL, type).strides);
    ls_str_add(out, "\x89"); /* False */
    add_ordered_dict(out);
    ls_str_add(out, "tR");
}

void ls_pt_pickle(ls_str *out, int64_t n, const ls_named_tensor *tensors)
{
    ls_str_add(out, "\x80\x02"); /* protocol 2 */
    add_ordered_dict(out);
    ls_str_add(out, "(");
    for (int64_t i = 0; i < n; i++) {
        add_text(out, tensors[i].name);
        add_tensor(out, i, &tensors[i].tensor.type);
    }
    ls_str_add(out, "u."); /* set them, stop */
}

/* pt_write.c - what torch.save writes: the pickle of a state dict or of a tensor, and the records around the
 * storages. The memo is not used, so each tensor's part has the same form: _rebuild_tensor_v2(("storage",
 * type, key, "cpu", elements), 0, sizes, strides, False, OrderedDict()). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

static void add_ordered_dict(ls_str *out)
{
    ls_pickle_put_global(out, "collections OrderedDict");
    ls_str_add(out, ")R");
}

static void add_tensor(ls_str *out, int64_t number, const ls_type *type)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, number);
    ls_pickle_put_global(out, "torch._utils _rebuild_tensor_v2");
    ls_str_add(out, "((");
    ls_pickle_put_text(out, "storage");
    ls_pickle_put_global(out, ls_pt_storage_global(ls_safetensors_name(type->dtype)));
    ls_pickle_put_text(out, key);
    ls_pickle_put_text(out, "cpu");
    ls_pickle_put_int(out, ls_type_count(type));
    ls_str_add(out, "tQ"); /* the tuple, as a persistent id */
    ls_pickle_put_int(out, 0);
    ls_pickle_put_ints(out, type->ndim, type->dims);
    ls_pickle_put_ints(out, type->ndim, ls_tensor_of(NULL, type).strides);
    ls_str_add(out, "\x89"); /* False */
    add_ordered_dict(out);
    ls_str_add(out, "tR");
}

void ls_pt_pickle_tensor(ls_str *out, const ls_type *type)
{
    ls_str_add(out, "\x80\x02");
    add_tensor(out, 0, type);
    ls_str_add(out, ".");
}

void ls_pt_pickle(ls_str *out, int64_t n, const ls_named_tensor *tensors, const int64_t *storages)
{
    ls_str_add(out, "\x80\x02"); /* protocol 2 */
    add_ordered_dict(out);
    ls_str_add(out, "(");
    for (int64_t i = 0; i < n; i++) {
        ls_pickle_put_text(out, tensors[i].name);
        add_tensor(out, storages[i], &tensors[i].tensor.type);
    }
    ls_str_add(out, "u."); /* set them, stop */
}

ls_status ls_pt_put_head(ls_zip_writer *z, const ls_str *pickle)
{
    LS_TRY(ls_str_status(pickle));
    LS_TRY(ls_zip_add(z, "data.pkl", pickle->data, pickle->len));
    LS_TRY(ls_zip_add(z, ".format_version", "1", 1));
    LS_TRY(ls_zip_add(z, ".storage_alignment", "64", 2));
    return ls_zip_add(z, "byteorder", "little", 6);
}

ls_status ls_pt_put_tail(ls_zip_writer *z) { return ls_zip_add(z, "version", "3\n", 2); }

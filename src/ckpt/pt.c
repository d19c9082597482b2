/* pt.c - finds the tensors in a value that torch.save wrote: which dict contains them, their names, and each
 * tensor's position, shape and strides, which are checked against its storage. Every argument of the
 * functions that make a tensor is applied, or the tensor is refused. requires_grad, hooks, devices and
 * attributes of Python do not change a tensor's values. */
#include "ckpt/pt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ckpt/safetensors.h"

enum { MAX_DEPTH = 32, MAX_NAME = 1000 };

typedef struct reader {
    ls_pt_file file;
    ls_arena *arena;  /* of the results */
    const char *path; /* in it */
    ls_weight *list;
    int64_t count, room;
    ls_str name; /* the path of keys so far */
    size_t visits;
    uint64_t total; /* bytes of all tensors */
    bool arrays;    /* there are arrays of NumPy, which are skipped */
} reader;

static ls_status pt_bad(const reader *r, ls_status code, const char *what)
{
    char shown[128];
    return ls_fail(code, "%s: tensor \"%s\": %s", r->path, ls_shown_name(shown, ls_str_text(&r->name)), what);
}

static ls_status pt_damaged(const reader *r, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "%s; the file is damaged: copy it again or save it again", what);
    return pt_bad(r, LS_E_FORMAT, text);
}

static const ls_pt_name *called(const ls_pickle *v)
{
    return v->kind == LS_PICKLE_CALL ? ls_pt_name_find(v->items[0]->text) : NULL;
}

static bool is_tensor(const ls_pickle *v)
{
    const ls_pt_name *name = called(v);
    return name && name->role >= LS_PT_TENSOR && name->role <= LS_PT_CLASS;
}

static bool all_sizes(const ls_pickle *v)
{
    bool good = v->kind == LS_PICKLE_TUPLE;
    for (size_t i = 0; good && i < v->n; i++)
        good = v->items[i]->kind == LS_PICKLE_INT && v->items[i]->number >= 0;
    return good;
}

/* Sets a tensor's type from sizes and strides. Its elements begin with element `first` of a storage that has
 * `available`. */
static ls_status read_shape(reader *r, ls_weight *t, const ls_pickle *sizes, const ls_pickle *strides,
                            int64_t first, int bits, uint64_t available)
{
    int64_t count = 1, last = first, dense = 1, step, total;
    bool row_major = true;
    if (!all_sizes(sizes) || !all_sizes(strides) || sizes->n != strides->n)
        return pt_damaged(r, "its sizes and strides are not as many whole numbers");
    if (sizes->n > LS_MAX_DIMS)
        return pt_bad(r, LS_E_UNSUPPORTED,
                      "it has more dimensions than are supported (8): reshape it before saving");
    t->type.ndim = (int)sizes->n;
    for (int i = t->type.ndim - 1; i >= 0; i--) {
        int64_t size = t->type.dims[i] = sizes->items[i]->number, stride = strides->items[i]->number;
        if (size > 1)
            row_major = row_major && stride == dense;
        if (__builtin_mul_overflow(count, size, &count) ||
            __builtin_mul_overflow(size ? size - 1 : 0, stride, &step) ||
            __builtin_add_overflow(last, step, &last))
            return pt_damaged(r, "its sizes and strides do not fit in 63 bits");
        dense = count;
    }
    if (__builtin_mul_overflow(count, (int64_t)(bits / 8), &total) ||
        __builtin_add_overflow(r->total, (uint64_t)total, &r->total) || r->total > INT64_MAX)
        return pt_damaged(r, "its sizes do not fit in 63 bits");
    if (count > 0 && (uint64_t)last >= available)
        return pt_damaged(r, "its sizes and strides reach beyond its storage");
    t->bytes = (uint64_t)total;
    if (count == 0 || row_major)
        return LS_OK;
    int64_t *list = LS_ARENA_ARRAY(r->arena, int64_t, t->type.ndim);
    LS_TRY(ls_arena_status(r->arena));
    for (int i = 0; i < t->type.ndim; i++)
        list[i] = strides->items[i]->number;
    t->strides = list;
    return LS_OK;
}

/* The last argument of _rebuild_tensor_v2 and _v3: operations that PyTorch has noted and not done yet. */
static ls_status check_lazy(const reader *r, const ls_pickle *metadata)
{
    if (metadata->kind == LS_PICKLE_NONE)
        return LS_OK;
    if (metadata->kind != LS_PICKLE_DICT)
        return pt_damaged(r, "its metadata are not a dict");
    for (size_t i = 0; i < metadata->n; i += 2) {
        const ls_pickle *key = metadata->items[i], *value = metadata->items[i + 1];
        if (!ls_pickle_is(key, "neg") && !ls_pickle_is(key, "conj"))
            return pt_bad(
                r, LS_E_UNSUPPORTED,
                "its metadata have an entry other than neg and conj, which may change its values: save "
                "tensor.clone()");
        if (value->kind != LS_PICKLE_BOOL)
            return pt_damaged(r, "an entry of its metadata is neither true nor false");
        if (value->number)
            return pt_bad(r, LS_E_UNSUPPORTED,
                          ls_pickle_is(key, "neg")
                              ? "its numbers are stored without their sign change (a lazy negation): save "
                                "tensor.resolve_neg()"
                              : "its numbers are stored without their conjugation (a lazy one): save "
                                "tensor.resolve_conj()");
    }
    return LS_OK;
}

/* requires_grad and hooks: the values are the same with and without; but what else is there would be
 * unknown. */
static ls_status check_training(const reader *r, const ls_pickle *requires_grad, const ls_pickle *hooks)
{
    if (requires_grad->kind != LS_PICKLE_BOOL)
        return pt_damaged(r, "its requires_grad is neither true nor false");
    if (hooks->kind != LS_PICKLE_NONE && hooks->n > 0)
        return pt_bad(r, LS_E_UNSUPPORTED, "it has hooks: save tensor.detach().clone()");
    return LS_OK;
}

/* _rebuild_tensor_v2(storage, first element, sizes, strides, requires_grad, hooks[, metadata]); v3 has the
 * element type after the hooks; the oldest one ends after the strides. */
static ls_status read_plain(reader *r, const ls_pt_name *function, const ls_pickle *arguments, ls_weight *t)
{
    ls_pickle **a = arguments->items;
    const size_t rest = function->role == LS_PT_TENSOR ? 6 : 7;
    if (a[0]->kind != LS_PICKLE_PERSISTENT || a[1]->kind != LS_PICKLE_INT || a[1]->number < 0)
        return pt_damaged(r, "it has no storage and place in it");
    ls_pt_place place;
    LS_TRY(ls_pt_place_find(&place, &r->file, a[0]));
    const ls_pt_name *type = place.type;
    if (function->role == LS_PT_TENSOR_WITH_DTYPE)
        type = a[6]->kind == LS_PICKLE_GLOBAL ? ls_pt_name_find(a[6]->text) : NULL;
    if (!type || (type->role != LS_PT_STORAGE && type->role != LS_PT_DTYPE))
        return pt_damaged(r, "it has no element type");
    if (arguments->n >= 6)
        LS_TRY(check_training(r, a[4], a[5]));
    if (arguments->n > rest)
        LS_TRY(check_lazy(r, a[rest]));
    const int dtype = ls_pt_element(type, &t->stored);
    t->loadable = dtype >= 0;
    t->type.dtype = t->loadable ? (ls_dtype)dtype : LS_U8;
    const uint64_t size = (uint64_t)type->bits / 8;
    LS_TRY(read_shape(r, t, a[2], a[3], a[1]->number, type->bits, place.storage->bytes / size));
    t->offset = place.storage->offset + (t->bytes ? (uint64_t)a[1]->number * size : 0);
    t->data = r->file.bytes + t->offset;
    return LS_OK;
}

static ls_status read_tensor(reader *r, const ls_pickle *call, ls_weight *t);

/* Reads the tensor that a function of role `outer` is given. */
static ls_status read_inner(reader *r, const ls_pickle *call, ls_pt_role outer, ls_weight *t)
{
    const ls_pt_name *inner = called(call);
    if (!is_tensor(call) || (inner->role >= outer && inner->role < LS_PT_REFUSED))
        return pt_damaged(r, outer == LS_PT_PARAMETER ? "it is a parameter without a tensor"
                                                      : "it is made of something that is not a tensor");
    return read_tensor(r, call, t);
}

static ls_status read_moved(reader *r, ls_pickle **a, ls_weight *t)
{
    const ls_pt_name *type = a[1]->kind == LS_PICKLE_GLOBAL ? ls_pt_name_find(a[1]->text) : NULL;
    LS_TRY(read_inner(r, a[0], LS_PT_MOVED, t));
    const char *stored;
    if (!type || type->role != LS_PT_DTYPE)
        return pt_damaged(r, "it has no element type");
    ls_pt_element(type, &stored);
    return strcmp(stored, t->stored) == 0
               ? LS_OK
               : pt_bad(r, LS_E_UNSUPPORTED,
                        "it has another element type than its numbers: save tensor.cpu()");
}

/* function(*arguments), as an object of a class, with attributes */
static ls_status read_typed(reader *r, ls_pickle **a, ls_weight *t)
{
    const ls_pt_name *class = a[1]->kind == LS_PICKLE_GLOBAL ? ls_pt_name_find(a[1]->text) : NULL;
    ls_pickle *items[] = { a[0], a[2] };
    const ls_pickle call = { .kind = LS_PICKLE_CALL, .items = items, .n = 2 };
    if (a[0]->kind != LS_PICKLE_GLOBAL || a[2]->kind != LS_PICKLE_TUPLE || !class ||
        class->role != LS_PT_CLASS)
        return pt_damaged(r, "it is made of something that is not a tensor");
    return read_inner(r, &call, LS_PT_TYPED, t);
}

static ls_status read_tensor(reader *r, const ls_pickle *call, ls_weight *t)
{
    const ls_pt_name *function = called(call);
    const ls_pickle *arguments = call->items[1];
    ls_pickle **a = arguments->items;
    if (function->role == LS_PT_REFUSED || function->role == LS_PT_CLASS)
        return pt_bad(r, LS_E_UNSUPPORTED, function->stored);
    if (call->n > 2)
        return pt_bad(
            r, LS_E_UNSUPPORTED,
            "it is changed after it was made, as before PyTorch 0.4: save it again with a newer PyTorch");
    if (arguments->n < (size_t)function->least || arguments->n > (size_t)function->most)
        return pt_damaged(r, "the function that makes it has too few or too many arguments");
    switch (function->role) {
    case LS_PT_MOVED: return read_moved(r, a, t);
    case LS_PT_TYPED: return read_typed(r, a, t);
    case LS_PT_PARAMETER:
        LS_TRY(check_training(r, a[1], a[2]));
        return read_inner(r, a[0], LS_PT_PARAMETER, t);
    default: return read_plain(r, function, arguments, t);
    }
}

static ls_status add_tensor(reader *r, const ls_pickle *call)
{
    LS_TRY(ls_str_status(&r->name));
    json_t *valid = json_stringn(ls_str_text(&r->name), r->name.len);
    if (!valid || r->name.len == 0 || strlen(r->name.data) != r->name.len) {
        json_decref(valid);
        return pt_bad(r, LS_E_FORMAT, "its name is empty or not UTF-8: rename it before saving");
    }
    json_decref(valid);
    if (r->count == r->room) {
        int64_t room = r->room ? 2 * r->room : 64;
        ls_weight *list = LS_ARENA_ARRAY(r->arena, ls_weight, room);
        LS_TRY(ls_arena_status(r->arena));
        if (r->count)
            memcpy(list, r->list, sizeof *list * (size_t)r->count);
        r->list = list;
        r->room = room;
    }
    ls_weight *t = &r->list[r->count++];
    t->name = ls_arena_strdup(r->arena, r->name.data);
    t->file = r->path;
    return read_tensor(r, call, t);
}

static ls_status visit(reader *r, const ls_pickle *v, int depth);

static ls_status visit_under(reader *r, const char *key, size_t length, const ls_pickle *v, int depth)
{
    size_t before = r->name.len;
    if (before + 1 + length > MAX_NAME)
        return pt_bad(r, LS_E_FORMAT, "a name under it has more than 1000 bytes: rename it before saving");
    if (depth > 1)
        ls_str_add_n(&r->name, ".", 1);
    ls_str_add_n(&r->name, key, length);
    LS_TRY(visit(r, v, depth));
    ls_str_cut(&r->name, before);
    return LS_OK;
}

/* Below `v` there must be no tensor, because it would have no name. */
static ls_status visit_nameless(reader *r, const ls_pickle *v, int depth, const char *what)
{
    const int64_t before = r->count;
    LS_TRY(visit_under(r, "?", 1, v, depth));
    return r->count == before ? LS_OK : pt_bad(r, LS_E_FORMAT, what);
}

/* Tensors below `v`; whatever else there is (numbers, texts, arrays of NumPy) says nothing about weights.
 * Dicts and lists that contain themselves, or each other many times over, end at a depth, and at one visit a
 * byte of the pickle. */
static ls_status visit(reader *r, const ls_pickle *v, int depth)
{
    const bool dict = v->kind == LS_PICKLE_DICT, call = v->kind == LS_PICKLE_CALL;
    if (is_tensor(v))
        return add_tensor(r, v);
    if (v->kind == LS_PICKLE_PERSISTENT)
        return pt_bad(r, LS_E_UNSUPPORTED, "it is a storage, which has no shape: save the tensor");
    if (!dict && !call && v->kind != LS_PICKLE_LIST && v->kind != LS_PICKLE_TUPLE)
        return LS_OK;
    r->arrays = r->arrays || (call && called(v)->role == LS_PT_ARRAY);
    if (depth == MAX_DEPTH)
        return pt_bad(
            r, LS_E_FORMAT,
            "dicts and lists lie in each other more than 32 deep: save the model's state dict alone");
    if (call)
        return visit_nameless(r, v->items[1], depth + 1,
                              "a tensor lies in a set or another object: save it in a dict or a list");
    for (size_t i = 0; i < v->n; i += dict ? 2 : 1) {
        const ls_pickle *key = v->items[i], *value = v->items[dict ? i + 1 : i];
        char number[24];
        if (++r->visits > r->file.pickle_bytes)
            return pt_bad(r, LS_E_FORMAT,
                          "dicts and lists are used again and again: save the model's state dict alone");
        if (dict && key->kind == LS_PICKLE_TEXT) {
            LS_TRY(visit_under(r, key->text, key->length, value, depth + 1));
        } else if (!dict || key->kind == LS_PICKLE_INT) {
            snprintf(number, sizeof number, "%" PRId64, dict ? key->number : (int64_t)i);
            LS_TRY(visit_under(r, number, strlen(number), value, depth + 1));
        } else {
            LS_TRY(visit_nameless(r, value, depth + 1,
                                  "a tensor under it has a key that is neither a text nor a whole number: "
                                  "rename it before saving"));
        }
    }
    return LS_OK;
}

/* Training checkpoints keep the model beside the optimizer. */
static const ls_pickle *model_of(const ls_pickle *root)
{
    static const char *const KEYS[] = { "model_state_dict", "state_dict", "model" };
    for (size_t k = 0; k < sizeof KEYS / sizeof KEYS[0]; k++) {
        const ls_pickle *model = ls_pickle_find(root, KEYS[k]);
        if (model && model->kind == LS_PICKLE_DICT)
            return model;
    }
    return root;
}

ls_status ls_pt_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                      ls_weight **tensors, int64_t *count)
{
    ls_arena scratch;
    ls_arena_init(&scratch);
    reader r = { .file = { .bytes = bytes, .size = size, .path = path },
                 .arena = arena,
                 .path = ls_arena_strdup(arena, path) };
    ls_status s;
    LS_TRY_TO(s, ls_pt_file_read(&r.file, &scratch), done);
    const ls_pickle *root = r.file.root;
    if (is_tensor(root))
        s = visit_under(&r, "tensor", 6, root, 1);
    else if (root->kind == LS_PICKLE_DICT)
        s = visit(&r, model_of(root), 0);
    else if (root->kind == LS_PICKLE_LIST || root->kind == LS_PICKLE_TUPLE)
        s = visit(&r, root, 0);
    else
        s = ls_fail(LS_E_UNSUPPORTED, "%s: what torch.save wrote there are no tensors: save a state dict",
                    path);
    if (s == LS_OK && r.arrays && !r.count)
        s = ls_fail(LS_E_UNSUPPORTED,
                    "%s: holds arrays of NumPy and no tensors: save torch.from_numpy(array) of each", path);
    *tensors = r.list;
    *count = r.count;
done:
    ls_str_release(&r.name);
    ls_arena_release(&scratch);
    return s;
}

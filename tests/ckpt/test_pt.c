/* test_pt.c - .pt files of PyTorch: their pickles are read as data, and everything else in them is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "ckpt/pt.h"
#include "ckpt/zip.h"
#include "lockstep/weights.h"
#include "support/support.h"
#include "ckpt/pt_files.h"

/* The two files hold the same tensors: names, types, shapes, values. */
static void assert_same(const char *pt, const char *safetensors)
{
    ls_weights *got, *want;
    ASSERT_OK(ls_weights_open(&got, pt));
    ASSERT_OK(ls_weights_open(&want, safetensors));
    assert_int_equal(ls_weights_count(got), ls_weights_count(want));
    for (int64_t i = 0; i < ls_weights_count(got); i++) {
        const ls_weight *a = ls_weights_at(got, i), *b = ls_weights_find(want, a->name);
        if (!b || !ls_type_equal(&a->type, &b->type) || strcmp(a->stored, b->stored) || a->bytes != b->bytes)
            fail_msg("%s: tensor %s is another one", pt, a->name);
        void *values = malloc(a->bytes + 1);
        ASSERT_OK(ls_weight_read(a, a->type.dtype, values));
        if (memcmp(values, b->data, b->bytes))
            fail_msg("%s: tensor %s has other values", pt, a->name);
        free(values);
    }
    ls_weights_close(&got);
    ls_weights_close(&want);
}

static void reads_what_pytorch_wrote(void **state)
{
    (void)state;
    static const char *const MODULE[] = { "module.pt", "checkpoint.pt", "nested.pt", "before_1_6.pt",
                                          "protocol_5.pt", "other_zip.pt",
                                          /* with everything that training checkpoints keep beside weights */
                                          "beside.pt", "beside_flat.pt", "beside_protocol_5.pt" };
    for (size_t i = 0; i < sizeof MODULE / sizeof MODULE[0]; i++)
        assert_same(golden_pt(MODULE[i]), golden_pt("module.safetensors"));
    assert_same(golden_pt("tensors.pt"), golden_pt("tensors.safetensors"));
    assert_same(golden_pt("tensors_before_1_6.pt"), golden_pt("tensors.safetensors"));
    /* _rebuild_parameter_with_state, _rebuild_from_type_v2 */
    assert_same(golden_pt("attributes.pt"), golden_pt("attributes.safetensors"));
}

static void keeps_order_and_tells_views(void **state)
{
    (void)state;
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, golden_pt("tensors.pt")));
    assert_string_equal(ls_weights_at(w, 0)->name, "types.float32");
    assert_string_equal(ls_weights_at(w, ls_weights_count(w) - 1)->name, "tied");
    assert_int_equal(ls_weights_file_count(w), 1);
    assert_null(ls_weights_metadata(w, "format"));
    const ls_weight *whole = ls_weights_find(w, "view.whole"),
                    *transposed = ls_weights_find(w, "view.transposed");
    assert_null(whole->strides);
    assert_int_equal(transposed->strides[0], 1);
    assert_int_equal(transposed->strides[1], 6);
    assert_ptr_equal(transposed->data, whole->data); /* nothing was copied */
    const ls_weight *rows = ls_weights_find(w, "view.rows");
    assert_null(rows->strides);
    assert_int_equal(rows->offset, whole->offset + 6 * sizeof(float));
    double column[4];
    /* a view converted on the way */
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "view.column"), LS_F64, column));
    for (int i = 0; i < 4; i++)
        assert_true(column[i] == (i * 6 + 2) / 4.0 - 1);
    ls_weights_close(&w);

    ASSERT_OK(ls_weights_open(&w, golden_pt("single.pt")));
    assert_int_equal(ls_weights_count(w), 1);
    assert_string_equal(ls_weights_at(w, 0)->name, "tensor");
    ls_weights_close(&w);

    static const char *const OTHER[][2] = { { "bool", "BOOL" },  { "int16", "I16" },
                                            { "int8", "I8" },    { "float8_e4m3fn", "F8_E4M3" },
                                            { "uint16", "U16" }, { "complex64", "C64" } };
    ASSERT_OK(ls_weights_open(&w, golden_pt("other_types.pt")));
    for (size_t i = 0; i < sizeof OTHER / sizeof OTHER[0]; i++) {
        const ls_weight *t = ls_weights_find(w, OTHER[i][0]);
        assert_non_null(t);
        assert_string_equal(t->stored, OTHER[i][1]);
        assert_false(t->loadable);
    }
    assert_int_equal(memcmp(ls_weights_find(w, "bool")->data, (uint8_t[]){ 1, 0, 1 }, 3), 0);
    ls_weights_close(&w);
    ASSERT_OK(ls_weights_open(&w, golden_pt("more_types.pt")));
    assert_string_equal(ls_weights_find(w, "complex128")->stored, "complex128");
    assert_int_equal(ls_weights_find(w, "complex128")->bytes, 32);
    assert_string_equal(ls_weights_find(w, "complex32")->stored, "complex32");
    assert_int_equal(ls_weights_find(w, "complex32")->bytes, 12);
    ASSERT_FAILS(ls_weight_read(ls_weights_find(w, "complex32"), LS_F32, (float[3]){ 0 }), LS_E_UNSUPPORTED,
                 "complex32");
    ls_weights_close(&w);
}

static void refuses_what_is_not_data(void **state)
{
    (void)state;
    ls_weights *w;
    unlink("executed");
    ASSERT_FAILS(ls_weights_open(&w, golden_pt("refused_call.pt")), LS_E_UNSUPPORTED, "refused_call.pt",
                 "GLOBAL", "posix system", "state_dict()");
    assert_null(w);
    assert_false(ls_file_exists("executed"));
    ASSERT_FAILS(ls_weights_open(&w, golden_pt("refused_module.pt")), LS_E_UNSUPPORTED, "GLOBAL",
                 "torch.nn.modules.container Sequential", "state_dict()");
    ASSERT_FAILS(ls_weights_open(&w, golden_pt("refused_big_endian.pt")), LS_E_UNSUPPORTED,
                 "refused_big_endian.pt", "big-endian");
    ASSERT_FAILS(ls_weights_open(&w, golden_pt("refused_compressed.pt")), LS_E_UNSUPPORTED, "data.pkl",
                 "compressed");
    ASSERT_OK(ls_file_write(ls_test_path("text.pt"), "not a pickle", 12));
    ASSERT_FAILS(ls_weights_open(&w, ls_test_path("text.pt")), LS_E_FORMAT, "text.pt", "torch.save");
}

static const struct {
    const char *pickle;
    size_t n;
    ls_status code;
    const char *says;
} BAD[] = {
    /* opcodes and globals that no state dict needs */
    { CASE("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."), LS_E_UNSUPPORTED, "os system" },
    { CASE("\x80\2(X\2\0\0\0lsios\nsystem\n."), LS_E_UNSUPPORTED, "INST" },
    { CASE("\x80\2X\2\0\0\0osX\6\0\0\0system\x93."), LS_E_UNSUPPORTED, "STACK_GLOBAL" },
    { CASE("\x80\2ctorch\nSize\n)\x81."), LS_E_UNSUPPORTED, "NEWOBJ" },
    { CASE("\x80\2ctorch.distributed.tensor\nDTensor\n."), LS_E_UNSUPPORTED, "tensor.full_tensor()" },
    { CASE("\x80\2cnumpy.random._pickle\n__generator_ctor\n."), LS_E_UNSUPPORTED, "get_state()" },
    { CASE("\x80\2\x82\1."), LS_E_UNSUPPORTED, "EXT1" },
    { CASE("\x80\2\xff."), LS_E_UNSUPPORTED, "0xff" },
    { CASE("\x80\2c__builtin__\neval\n."), LS_E_UNSUPPORTED, "__builtin__ eval" },
    { CASE("\x80\2c\x1b[31mred\nx\n."), LS_E_UNSUPPORTED, "?[31mred x" },
    { CASE("\x80\1}."), LS_E_UNSUPPORTED, "PROTO" },
    { CASE("\x80\2ccollections\nOrderedDict\n(](K\1K\2etR."), LS_E_UNSUPPORTED, "OrderedDict" },
    { CASE("\x80\2K\1."), LS_E_UNSUPPORTED, "no tensors" },
    /* damage */
    { CASE("\x80\2}"), LS_E_FORMAT, "STOP" },
    { CASE("\x80\2."), LS_E_FORMAT, "too few" },
    { CASE("\x80\2}}."), LS_E_FORMAT, "more than one" },
    { CASE("\x80\2(."), LS_E_FORMAT, "too few" },
    { CASE("\x80\2u."), LS_E_FORMAT, "mark" },
    { CASE("\x80\2}(K\1u."), LS_E_FORMAT, "no value" },
    { CASE("\x80\2](K\1K\2u."), LS_E_FORMAT, "not applied to a dict" },
    { CASE("\x80\2}K\1a."), LS_E_FORMAT, "not applied to a list" },
    { CASE("\x80\2]K\1b."), LS_E_FORMAT, "BUILD" },
    { CASE("\x80\2h\0."), LS_E_FORMAT, "BINGET" },
    { CASE("\x80\2}r\xff\xff\xff\xff."), LS_E_FORMAT, "LONG_BINPUT" },
    { CASE("\x80\2}r\xe8\3\0\0."), LS_E_FORMAT, "LONG_BINPUT" },
    { CASE("\x80\2}q\3h\1."), LS_E_FORMAT, "BINGET" },
    { CASE("\x80\2(q\0."), LS_E_FORMAT, "BINPUT" },
    { CASE("\x80\2X\xff\0\0\0w"), LS_E_FORMAT, "BINUNICODE" },
    { CASE("\x80\2ctorch"), LS_E_FORMAT, "GLOBAL" },
    { CASE("\x80\2}}R."), LS_E_FORMAT, "REDUCE" },
    { CASE(""), LS_E_FORMAT, "STOP" },
    /* dicts */
    { CASE("\x80\2}q\0(X\1\0\0\0ah\0X\1\0\0\0bX\x28\0\0\0"
           "a dict that contains itself, and a text."
           "u."),
      LS_E_FORMAT, "32 deep" },
    { CASE("\x80\2}(X\1\0\0\0a]q\0(h\0h\0h\0h\0eu."), LS_E_FORMAT, "again" },
    { CASE("\x80\2}(X\3\0\0\0a.b" REBUILD FLOATS "K\0))" REST "X\1\0\0\0a}X\1\0\0\0b" REBUILD FLOATS
           "K\0))" REST "su."),
      LS_E_FORMAT, "two tensors" },
    { CASE("\x80\2}X\2\0\0\0\xff\xff" REBUILD FLOATS "K\0))" REST "s."), LS_E_FORMAT, "UTF-8" },
    { CASE("\x80\2}X\2\0\0\0a\0" REBUILD FLOATS "K\0))" REST "s."), LS_E_FORMAT, "UTF-8" },
    { CASE("\x80\2}X\0\0\0\0" REBUILD FLOATS "K\0))" REST "s."), LS_E_FORMAT, "empty" },
    { CASE("\x80\2}N" REBUILD FLOATS "K\0))" REST "s."), LS_E_FORMAT, "key" },
    /* tensors */
    { CASE(TENSOR("\0", "K\7", "K\1")), LS_E_FORMAT, "beyond its storage" },
    { CASE(TENSOR("\1", "K\2K\3", "K\3K\1")), LS_E_FORMAT, "beyond its storage" },
    { CASE(TENSOR("\6", "", "")), LS_E_FORMAT, "beyond its storage" },
    { CASE(TENSOR("\0", "K\2K\2", "K\3K\3")), LS_E_FORMAT, "beyond its storage" },
    { CASE(TENSOR("\0", "K\2", "K\1K\1")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "K\2", "J\xff\xff\xff\xff")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "J\xff\xff\xff\xff", "K\1")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "X\0\0\0\0", "K\1")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "K\2", "\x8a\1\xff")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "K\2", "\x8a\x09\1\0\0\0\0\0\0\0\1")), LS_E_FORMAT, "sizes and strides" },
    { CASE(TENSOR("\0", "K\3", "\x8a\x08\0\0\0\0\0\0\0\x40")), LS_E_FORMAT, "63 bits" },
    { CASE("\x80\2}(X\1\0\0\0v" HUGE_TENSOR "X\1\0\0\0w" HUGE_TENSOR "u."), LS_E_FORMAT,
      "\"w\": its sizes do not fit" },
    { CASE(TENSOR("\0", BILLION BILLION BILLION, "K\0K\0K\0")), LS_E_FORMAT, "63 bits" },
    { CASE(TENSOR("\0", BILLION BILLION BILLION, BILLION BILLION BILLION)), LS_E_FORMAT, "63 bits" },
    { CASE(TENSOR("\0", BILLION BILLION "K\2", "K\0K\0K\0")), LS_E_FORMAT, "63 bits" },
    { CASE(TENSOR("\0", BILLION BILLION, BILLION BILLION)), LS_E_FORMAT, "beyond its storage" },
    { CASE(TENSOR("\0", "K\1K\1K\1K\1K\1K\1K\1K\1K\1", "K\1K\1K\1K\1K\1K\1K\1K\1K\1")), LS_E_UNSUPPORTED,
      "dimensions" },
    { CASE(DICT(REBUILD FLOATS "J\xff\xff\xff\xff))" REST)), LS_E_FORMAT, "no storage and place" },
    { CASE(DICT(REBUILD "K\0K\0))" REST)), LS_E_FORMAT, "no storage and place" },
    { CASE(DICT("ctorch._utils\n_rebuild_tensor_v2\n)R")), LS_E_FORMAT, "too few or too many" },
    { CASE(DICT("ctorch._utils\n_rebuild_parameter\n)R")), LS_E_FORMAT, "too few or too many" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89)NNtR")), LS_E_FORMAT, "too few or too many" },
    { CASE(DICT(PARAMETER PARAMETER REBUILD FLOATS "K\0))" REST REST REST)), LS_E_FORMAT, "parameter" },
    { CASE(DICT(PARAMETER "N" REST)), LS_E_FORMAT, "parameter" },
    { CASE(DICT("ctorch._utils\n_rebuild_tensor_v3\n(" FLOATS "K\0))" REST)), LS_E_FORMAT,
      "too few or too many" },
    /* the arguments of the functions that make tensors */
    { CASE(DICT(REBUILD FLOATS "K\0))N)tR")), LS_E_FORMAT, "requires_grad" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89K\1\x85tR")), LS_E_UNSUPPORTED, "hooks" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89)" NEG("\x88") "tR")), LS_E_UNSUPPORTED, "resolve_neg" },
    { CASE(DICT(PARAMETER REBUILD FLOATS "K\0))\x89)" NEG("\x88") "tR" REST)), LS_E_UNSUPPORTED,
      "resolve_neg" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89)" NEG("K\1") "tR")), LS_E_FORMAT, "neither true nor false" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89)}X\4\0\0\0flip\x89stR")), LS_E_UNSUPPORTED,
      "other than neg and conj" },
    { CASE(DICT(REBUILD FLOATS "K\0))\x89)K\1tR")), LS_E_FORMAT, "metadata" },
    { CASE(DICT(V3 FLOATS "K\0))\x89)ctorch\nfloat32\n" NEG("\x88") "tR")), LS_E_UNSUPPORTED, "resolve_neg" },
    { CASE(DICT(V3 FLOATS "K\0))\x89)ctorch\nSize\ntR")), LS_E_FORMAT, "element type" },
    { CASE(DICT(PARAMETER REBUILD FLOATS "K\0))" REST "N)tR")), LS_E_FORMAT, "requires_grad" },
    { CASE(DICT(MOVED REBUILD FLOATS "K\0))" REST "ctorch\nfloat16\nX\3\0\0\0xla\x89tR")), LS_E_UNSUPPORTED,
      "another element type" },
    { CASE(DICT(MOVED REBUILD FLOATS "K\0))" REST "NX\3\0\0\0xla\x89tR")), LS_E_FORMAT, "element type" },
    { CASE(DICT(MOVED PARAMETER REBUILD FLOATS "K\0))" REST REST "ctorch\nfloat32\nN\x89tR")), LS_E_FORMAT,
      "not a tensor" },
    { CASE(DICT(TYPED V2 CLASS "N}tR")), LS_E_FORMAT, "not a tensor" },
    { CASE(DICT(TYPED V2 "ctorch\nSize\n(" FLOATS "K\0))\x89)t}tR")), LS_E_FORMAT, "not a tensor" },
    { CASE(DICT(TYPED "ctorch\nSize\n" CLASS "(" FLOATS "K\0))\x89)t}tR")), LS_E_FORMAT, "not a tensor" },
    { CASE(DICT(TYPED META CLASS ")}tR")), LS_E_UNSUPPORTED, "meta tensor" },
    { CASE(DICT(REBUILD FLOATS "K\0))" REST "}b")), LS_E_UNSUPPORTED, "changed after it was made" },
    { CASE(DICT("ctorch\nFloatTensor\n)R")), LS_E_UNSUPPORTED, "before PyTorch 0.4" },
    { CASE(DICT(FLOATS)), LS_E_UNSUPPORTED, "storage" },
    /* tensors without a name */
    { CASE(DICT("c__builtin__\nset\n(](" REBUILD FLOATS "K\0))" REST "etR")), LS_E_FORMAT, "in a set" },
    { CASE("\x80\4}X\1\0\0\0w\x8f(" REBUILD FLOATS "K\0))" REST "\x90s."), LS_E_FORMAT, "in a set" },
    { CASE("\x80\4}X\1\0\0\0w(" REBUILD FLOATS "K\0))" REST "\x91s."), LS_E_FORMAT, "in a set" },
    { CASE("\x80\2}\x88}X\1\0\0\0w" REBUILD FLOATS "K\0))" REST "ss."), LS_E_FORMAT, "key" },
    { CASE("\x80\2}X\1\0\0\0wctorch\nSize\n)R(K\1\x90s."), LS_E_FORMAT, "not applied to a set" },
    { CASE("\x80\4}X\1\0\0\0wB\xff\0\0\0s."), LS_E_FORMAT, "BINBYTES" },
    { CASE("\x80\4}X\1\0\0\0w\x8e\xff\xff\xff\xff\xff\xff\xff\xffs."), LS_E_FORMAT, "BINBYTES8" },
    { CASE(DICT("ctorch._utils\n_rebuild_tensor_v3\n(" FLOATS "K\0))\x89)NtR")), LS_E_FORMAT,
      "element type" },
    { CASE(DICT(REBUILD STORAGE("FloatStorage", "1", "\6") "K\0))" REST)), LS_E_FORMAT,
      "storage 1 should hold 24 bytes, the file has 0" },
    { CASE(DICT(REBUILD STORAGE("FloatStorage", "0", "\5") "K\0))" REST)), LS_E_FORMAT,
      "storage 0 should hold 20 bytes, the file has 24" },
    { CASE(DICT(REBUILD STORAGE("DoubleStorage", "0", "\6") "K\0))" REST)), LS_E_FORMAT, "48 bytes" },
    { CASE(DICT(REBUILD STORAGE("float32", "0", "\6") "K\0))" REST)), LS_E_FORMAT, "type is none" },
    { CASE(DICT(REBUILD STORAGE("QInt9Storage", "0", "\6") "K\0))" REST)), LS_E_UNSUPPORTED,
      "torch QInt9Storage" },
    { CASE(DICT(REBUILD "K\0QK\0))" REST)), LS_E_FORMAT, "type, key and size" },
    { CASE(DICT(REBUILD ID "J\xff\xff\xff\xfftQK\0))" REST)), LS_E_FORMAT, "type, key and size" },
    { CASE(DICT(REBUILD ID "K\6NNtQK\0))" REST)), LS_E_FORMAT, "type, key and size" },
    { CASE(DICT(REBUILD ID "K\6K\1tQK\0))" REST)), LS_E_UNSUPPORTED, "before PyTorch 0.4" },
};

static void refuses_bad_pickles(void **state)
{
    (void)state;
    ls_weights *w;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        ls_status s = ls_weights_open(&w, file_with(BAD[i].pickle, BAD[i].n));
        assert_null(w);
        if (s != BAD[i].code || !strstr(ls_error_message(), BAD[i].says) ||
            !strstr(ls_error_message(), "made.pt"))
            fail_msg("case %zu (%s): status %s, message: %s", i, BAD[i].says, ls_status_name(s),
                     ls_error_message());
    }
}

static void reads_made_pickles(void **state)
{
    (void)state;
    ls_weights *w;
    /* the pieces that the bad ones are made of are right */
    ASSERT_OK(ls_weights_open(&w, file_with(CASE(TENSOR("\0", "K\2K\3", "K\3K\1")))));
    assert_int_equal(ls_weights_at(w, 0)->bytes, 24);
    ls_weights_close(&w);
    static const struct {
        const char *pickle;
        size_t n;
    } ONES[] = {
        { CASE(DICT(PARAMETER REBUILD FLOATS "K\0))" REST REST)) },
        { CASE(DICT(REBUILD FLOATS "K\0))\x89)NtR")) },
        { CASE(DICT(REBUILD FLOATS "K\0))\x89)" NEG("\x89") "tR")) },
        { CASE(DICT("ctorch._utils\n_rebuild_tensor\n(" FLOATS "K\0))tR")) },
        { CASE(DICT(MOVED REBUILD FLOATS "K\0))" REST "ctorch\nfloat32\nX\3\0\0\0xla\x89tR")) },
        { CASE(DICT(TYPED V2 CLASS "(" FLOATS "K\0))\x89)t}tR")) },
        { CASE(DICT(PARAMETER TYPED V2 CLASS "(" FLOATS "K\0))\x89)t}tR" REST)) },
    };
    for (size_t i = 0; i < sizeof ONES / sizeof ONES[0]; i++) {
        ASSERT_OK(ls_weights_open(&w, file_with(ONES[i].pickle, ONES[i].n)));
        assert_int_equal(ls_weights_count(w), 1);
        assert_int_equal(ls_weights_at(w, 0)->bytes, 4);
        assert_string_equal(ls_weights_at(w, 0)->stored, "F32");
        ls_weights_close(&w);
    }
    ASSERT_OK(ls_weights_open(&w, file_with(CASE(TENSOR("\0", "\x8a\1\6", "\x8a\1\1")))));
    assert_int_equal(ls_weights_at(w, 0)->bytes, 24);
    ls_weights_close(&w);
    /* nothing, and where it would be is not looked at */
    ASSERT_OK(ls_weights_open(&w, file_with(CASE(TENSOR("\xff", "K\3K\0", "K\1K\1")))));
    const ls_weight *t = ls_weights_at(w, 0);
    assert_int_equal(t->bytes, 0);
    assert_null(t->strides);
    assert_true(t->offset < (uint64_t)ls_file_size(t->file));
    ls_weights_close(&w);
    /* one row: its stride says nothing */
    ASSERT_OK(ls_weights_open(&w, file_with(CASE(TENSOR("\0", "K\1K\6", "K\x64K\1")))));
    assert_null(ls_weights_at(w, 0)->strides);
    ls_weights_close(&w);
    ASSERT_OK(ls_weights_open(
        &w, file_with(CASE("\x80\2}X\x0c\0\0\0__metadata__" REBUILD FLOATS "K\0))" REST "s."))));
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("out.safetensors")), LS_E_ARG, "made.pt", "__metadata__");
    ASSERT_OK(ls_weights_export(w, ls_test_path("out.pt")));
    ls_weights_close(&w);
}

#define ENTRY(key) "X\1\0\0\0" key REBUILD FLOATS "K\0))" REST
#define MODEL "X\5\0\0\0model"
#define STATE_DICT "X\x0a\0\0\0state_dict"
#define MODEL_STATE_DICT "X\x10\0\0\0model_state_dict"

static void chooses_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t n;
        const char *names;
    } CASES[] = {
        { CASE("\x80\2}(" MODEL "}" ENTRY("a") "s" ENTRY("b") "u."), "a " },
        { CASE("\x80\2}(" MODEL "}" ENTRY("a") "s" STATE_DICT "}" ENTRY("b") "su."), "b " },
        { CASE("\x80\2}(" STATE_DICT "}" ENTRY("b") "s" MODEL_STATE_DICT "}" ENTRY("c") "su."), "c " },
        { CASE("\x80\2}(" MODEL "K\3" ENTRY("b") "u."), "b " },
        { CASE("\x80\2}(" MODEL "](K\3" REBUILD FLOATS "K\0))" REST "e" ENTRY("b") "u."), "model.1 b " },
        { CASE("\x80\2}(K\5}" ENTRY("a") "sX\1\0\0\0c}X\1\0\0\0d}" ENTRY("e") "ssu."), "5.a c.d.e " },
        { CASE("\x80\2(K\1" REBUILD FLOATS "K\0))" REST "t."), "1 " },
        { CASE("\x80\2}."), "" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_weights *w;
        char names[64] = "";
        ASSERT_OK(ls_weights_open(&w, file_with(CASES[i].pickle, CASES[i].n)));
        for (int64_t k = 0; k < ls_weights_count(w); k++)
            strcat(strcat(names, ls_weights_at(w, k)->name), " ");
        assert_string_equal(names, CASES[i].names);
        ls_weights_close(&w);
    }
}

/* The form of before 1.6, put together from its parts. */
#define MAGIC "\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8P\x19."
#define VERSION "\x80\2M\xe9\3."
#define SYSTEM "\x80\2}X\x0d\0\0\0little_endian\x88s."
#define OBJECT "\x80\2}X\1\0\0\0w" REBUILD ID "K\1NtQK\0))" REST "s."
#define KEYS           \
    "\x80\2]X\1\0\0\0" \
    "0a."
#define DATA "\1\0\0\0\0\0\0\0\0\0\x80\x3f"
static const struct {
    const char *file;
    size_t n;
    ls_status code;
    const char *says;
} ROWS[] = {
    { CASE(MAGIC VERSION SYSTEM OBJECT KEYS DATA), LS_OK, "" },
    { CASE(MAGIC "\x80\2M\xea\3." SYSTEM OBJECT KEYS DATA), LS_E_UNSUPPORTED, "unknown version" },
    { CASE(MAGIC "\x80\2N." SYSTEM OBJECT KEYS DATA), LS_E_UNSUPPORTED, "unknown version" },
    { CASE(MAGIC VERSION "\x80\2}X\x0d\0\0\0little_endian\x89s." OBJECT KEYS DATA), LS_E_UNSUPPORTED,
      "big-endian" },
    { CASE(MAGIC VERSION "\x80\2}." OBJECT KEYS DATA), LS_E_UNSUPPORTED, "big-endian" },
    { CASE(MAGIC VERSION "\x80\2]." OBJECT KEYS DATA), LS_E_UNSUPPORTED, "big-endian" },
    { CASE(MAGIC VERSION SYSTEM OBJECT "\x80\2]." DATA), LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM OBJECT "\x80\2}." DATA), LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM OBJECT "\x80\2]X\1\0\0\0"
                                       "1a." DATA),
      LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM OBJECT "\x80\2]K\0a." DATA), LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM OBJECT "\x80\2](X\1\0\0\0"
                                       "0X\1\0\0\0"
                                       "0e." DATA DATA),
      LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM "\x80\2}(X\1\0\0\0w" REBUILD ID "K\1NtQK\0))" REST
                                "X\1\0\0\0v" REBUILD STORAGE("FloatStorage", "1", "\1") "K\0))" REST "u."
                                                                                        "\x80\2](X\1\0\0\0"
                                                                                        "0X\1\0\0\0"
                                                                                        "0e." DATA DATA),
      LS_E_FORMAT, "list of storages" },
    { CASE(MAGIC VERSION SYSTEM OBJECT KEYS "\2\0\0\0\0\0\0\0\0\0\x80\x3f"), LS_E_FORMAT, "another size" },
    { CASE(MAGIC VERSION SYSTEM "\x80\2]" REBUILD ID "K\1NtQK\0))" REST "a." KEYS DATA), LS_OK, "" },
    { CASE(MAGIC VERSION SYSTEM "\x80\2]."
                                "\x80\2]."),
      LS_OK, "" },
    { CASE(MAGIC VERSION SYSTEM "\x80\2]](" REBUILD "K\1QK\0))" REST "ea." KEYS DATA), LS_E_FORMAT,
      "type, key and size" },
};

static void reads_rows_of_pickles(void **state)
{
    (void)state;
    ls_weights *w;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        ls_status s = ls_weights_open_memory(&w, ROWS[i].file, ROWS[i].n, "the/file");
        if (s != ROWS[i].code || (s != LS_OK && (!strstr(ls_error_message(), ROWS[i].says) ||
                                                 !strstr(ls_error_message(), "the/file"))))
            fail_msg("case %zu (%s): status %s, message: %s", i, ROWS[i].says, ls_status_name(s),
                     ls_error_message());
        ls_weights_close(&w);
    }
    for (size_t cut = 14; cut < ROWS[0].n; cut++)
        ASSERT_FAILS(ls_weights_open_memory(&w, ROWS[0].file, cut, "the/file"), LS_E_FORMAT, "the/file");
    /* a safetensors file with a header of 67 MB */
    assert_false(ls_pt_is((const uint8_t *)"PK\3\4\0\0\0\0{", 9));
    assert_true(ls_pt_is((const uint8_t *)"PK\3\4\0\0\0\0\0", 9));
}

static void refuses_long_names(void **state)
{
    (void)state;
    ls_weights *w;
    static char pickle[4096] = "\x80\2}X\xe8\3\0\0"; /* 1000 bytes of name, then a tensor */
    memset(pickle + 8, 'a', 1000);
    memcpy(pickle + 1008, CASE(REBUILD FLOATS "K\0))" REST "s."));
    size_t n = 1008 + sizeof(REBUILD FLOATS "K\0))" REST "s.") - 1;
    ASSERT_FAILS(ls_weights_open(&w, file_with(pickle, n)), LS_E_FORMAT, "1000 bytes");
    pickle[4] = (char)0xe7;
    memmove(pickle + 1007, pickle + 1008, n - 1008);
    ASSERT_OK(ls_weights_open(&w, file_with(pickle, n - 1)));
    assert_int_equal(strlen(ls_weights_at(w, 0)->name), 999);
    ls_weights_close(&w);
}

/* What real programs saved; the values were compared with PyTorch's by tools/golden/pt.py check. */
static void reads_real_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int tensors;
    } FILES[] = {
        { "burn-modules/complex_nested.pt", 23 },
        { "burn-modules/weights_with_config.pt", 3 },
        { "burn-reader/checkpoint.pt", 4 },
        { "burn-reader/legacy_uncloned_views.pt", 2 },
        { "burn-reader/bool.pt", 1 },
        { "burn-reader/simple_legacy.pt", 3 },
        { "candle/fortran_tensor_3d.pth", 1 },
        { "candle/test_with_key.pt", 1 },
        { "executorch/demo_rand_params.pth", 53 },
        { "executorch/keyword_spotting.pth", 56 },
        { "torchtext/t5.base.model.output.pt", 1 },
        { "torchtune/tiny_fair_checkpoint.pt", 21 },
    };
    const char *data = ls_test_data("pytorch-files");
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/pytorch-files/%s", data, FILES[i].name);
        ls_weights *w;
        ASSERT_OK(ls_weights_open(&w, path));
        assert_int_equal(ls_weights_count(w), FILES[i].tensors);
        ls_weights_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_pytorch_wrote), cmocka_unit_test(keeps_order_and_tells_views),
        cmocka_unit_test(refuses_what_is_not_data), cmocka_unit_test(refuses_bad_pickles),
        cmocka_unit_test(reads_made_pickles),       cmocka_unit_test(chooses_the_model),
        cmocka_unit_test(reads_rows_of_pickles),    cmocka_unit_test(refuses_long_names),
        cmocka_unit_test(reads_real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_pt_names.c - the globals that PyTorch's own loader allows: each is known, and a tensor for which a
 * copy of its storage would be wrong is refused with what to save instead. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "ckpt/pt.h"
#include "support/support.h"
#include "ckpt/pt_files.h"

/* Every name that PyTorch's loader allows is known, so that a file of them is read or refused for a reason.
 */
static void knows_the_names_of_pytorch(void **state)
{
    (void)state;
    char *text, *rest;
    size_t n;
    int names = 0;
    ASSERT_OK(ls_file_read(&text, &n, golden_pt("names.txt")));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), names++) {
        const ls_pt_name *name = ls_pt_name_find(line);
        if (!name)
            fail_msg("%s is not known", line);
        if (name->role == LS_PT_STORAGE || name->role == LS_PT_DTYPE)
            assert_true(name->stored && name->bits >= 8 && name->bits % 8 == 0);
        if (name->role == LS_PT_REFUSED || name->role == LS_PT_CLASS)
            assert_non_null(strstr(name->stored, "save "));
        if (strstr(line, "_rebuild_"))
            assert_true(name->role == LS_PT_REFUSED || (name->least > 0 && name->least <= name->most));
    }
    assert_true(names > 140);
    free(text);
    assert_null(ls_pt_name_find("torch.cuda FloatStorage2"));
    assert_null(ls_pt_name_find("torch.nn FloatTensor"));
    assert_string_equal(ls_pt_name_find("torch.cuda HalfStorage")->stored, "F16");
}

/* What PyTorch wrote, and what a copy of the storage would be wrong for. */
static void refuses_tensors_that_are_more(void **state)
{
    (void)state;
    static const struct {
        const char *file, *says;
    } FILES[] = {
        { "refused_negated.pt", "tensor.resolve_neg()" },
        { "refused_conjugated.pt", "tensor.resolve_conj()" },
        { "refused_meta.pt", "meta tensor" },
        { "refused_sparse.pt", "tensor.to_dense()" },
        { "refused_quantized.pt", "tensor.dequantize()" },
        { "refused_nested.pt", "tensor.to_padded_tensor(0)" },
        { "refused_storage.pt", "storage" },
    };
    ls_weights *w;
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        ASSERT_FAILS(ls_weights_open(&w, golden_pt(FILES[i].file)), LS_E_UNSUPPORTED, FILES[i].file,
                     "tensor \"odd\"", FILES[i].says);
    ASSERT_FAILS(ls_weights_open(&w, golden_pt("refused_arrays.pt")), LS_E_UNSUPPORTED, "arrays of NumPy",
                 "torch.from_numpy");
}

static bool no_name(const char *global)
{
    (void)global;
    return false;
}

/* A byte of a pickle may be a value that takes some 70 bytes of memory, so they are counted. */
static void counts_values(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t n;
        bool many;
    } CASES[] = {
        { CASE("\x80\2(NNt."), false },
        { CASE("\x80\2(NNNNt."), true },
        { CASE("\x80\2]q\0(h\0h\0e."), false },
        { CASE("\x80\2]q\0(h\0h\0h\0h\0e."), true },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_arena arena;
        ls_pickle_result result;
        ls_arena_init(&arena);
        const ls_pickle_source source = { .bytes = (const uint8_t *)CASES[i].pickle,
                                          .size = CASES[i].n,
                                          .path = "the/file",
                                          .known = no_name,
                                          .most = 4,
                                          .what = "it",
                                          .advice = "save less" };
        if (CASES[i].many)
            ASSERT_FAILS(ls_pickle_read(&result, &arena, &source), LS_E_UNSUPPORTED, "the/file",
                         "more than 4 values", "save less");
        else
            ASSERT_OK(ls_pickle_read(&result, &arena, &source));
        ls_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_names_of_pytorch),
        cmocka_unit_test(refuses_tensors_that_are_more),
        cmocka_unit_test(counts_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_locale.c - a host program that called setlocale, with a decimal comma: the library reads the same
 * numbers from recipes, options and files, and writes the same text. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "lockstep/lockstep.h"
#include "plan/collective_speed.h"
#include "support/support.h"

static const char RECIPE[] = "model: {type: vit, dropout: 0.25}\n"
                             "data: {type: fashion-mnist, mean: 0.5, std: 0.125}\n"
                             "optimizer: {type: adam, lr: 1.5e-3, betas: [0.9, 0.95]}\n"
                             "parallel: {units: \"size:1.5e3\"}\n";

/* Everything read and written once, as one text to be compared. */
static void all(ls_str *out)
{
    static const char *const SETS[] = { "train.clip_norm=0.75", "model.layers=2" };
    static const char CSV[] = "x,y\n0.5,1.25\n-2.5e-1,7.75\n";
    ls_recipe *r;
    ASSERT_OK(ls_recipe_load_text(&r, RECIPE, strlen(RECIPE), "here.yaml", 2, SETS));
    char *yaml = ls_recipe_yaml(r, true);
    ls_str_add(out, yaml);
    free(yaml);
    ls_recipe_destroy(&r);

    ASSERT_OK(ls_parallel_check_units("size:1.5e3"));
    ls_collective_speed w;
    ASSERT_OK(ls_wire_parse(&w, "12.5us,12.5GB/s"));
    ls_str_printf(out, "wire %g %g\n", w.latency, w.bandwidth);

    ASSERT_OK(ls_file_write(ls_test_path("a.csv"), CSV, sizeof CSV - 1));
    ls_dataset *set;
    float x[2];
    char file[600];
    snprintf(file, sizeof file, "%s:x,y", ls_test_path("a.csv"));
    ASSERT_OK(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1,
                             &(ls_array_field){ .field = "x", .file = file, .as = LS_F32 }));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(set->read(set, i, (void *[]){ x }));
        ls_str_printf(out, "row %g %g\n", (double)x[0], (double)x[1]);
    }
    ls_dataset_close(&set);

    uint8_t pixels[1] = { 128 };
    ls_picture_cell cell = { pixels, "a", NULL, -1 };
    size_t n;
    char *svg;
    ASSERT_OK(ls_picture_write(ls_test_path("p.svg"), &(ls_picture){ "title", "", 1, 1, 1, 1, 1, &cell }));
    ASSERT_OK(ls_file_read(&svg, &n, ls_test_path("p.svg")));
    ls_str_add(out, svg);
    free(svg);

    char size[32];
    ls_str_printf(out, "%s %.3f\n", ls_format_bytes(size, 1536), 1.5);
    ls_fail(LS_E_ARG, "%g of it", 0.5);
    ls_str_add(out, ls_error_message());
}

static void a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    ls_test_comma_locale();
    setlocale(LC_NUMERIC, "C");
    ls_str point = { 0 }, comma = { 0 };
    all(&point);
    ls_test_comma_locale();
    assert_true(strtod("1,5", NULL) == 1.5); /* the locale is in force */
    all(&comma);
    setlocale(LC_NUMERIC, "C");
    ASSERT_CONTAINS(ls_str_text(&point), "lr: 0.0015");
    assert_string_equal(ls_str_text(&point), ls_str_text(&comma));
    ls_str_release(&point);
    ls_str_release(&comma);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_decimal_comma_changes_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

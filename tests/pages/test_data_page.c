/* test_data_page.c - the page of `lockstep data`: it shows what the model gets, after changes and
 * normalisation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/support.h"
#include "verbs/commands.h"

static char *page_of(const char *yaml)
{
    char path[512], recipe[512], *text;
    size_t size;
    snprintf(path, sizeof path, "%s", ls_test_path("data.html"));
    snprintf(recipe, sizeof recipe, "%s", ls_test_path("recipe.yaml"));
    ASSERT_OK(ls_file_write(recipe, yaml, strlen(yaml)));
    const ls_data_opts o = { .recipe = { .name = recipe }, .samples = 4, .out = path };
    const ls_ui ui = { .out = stdout };
    ASSERT_OK(ls_data_command(&o, &ui));
    ASSERT_OK(ls_file_read(&text, &size, path));
    return text;
}

/* Four images of 2 x 2 pixels: 0, 51, 102, 255. */
static void images_are_normalised(void **state)
{
    (void)state;
    uint8_t images[16 + 4 * 4] = { 0, 0, 8, 3, [7] = 4, [11] = 2, [15] = 2 },
                            labels[8 + 4] = { 0, 0, 8, 1, [7] = 4 };
    char text[2400], dir[256];
    for (int i = 0; i < 4; i++)
        memcpy(images + 16 + 4 * i, (const uint8_t[4]){ 0, 51, 102, 255 }, 4);
    snprintf(dir, sizeof dir, "%s", ls_test_dir());
    ASSERT_OK(ls_file_write(ls_test_path("images"), images, sizeof images));
    ASSERT_OK(ls_file_write(ls_test_path("labels"), labels, sizeof labels));
    snprintf(text, sizeof text,
             "model: {type: mlp, hidden: [4], image_size: 2}\ndata: {type: idx, mean: 0.25, std: 0.5, "
             "train_images: %s/images, "
             "train_labels: %s/labels, eval_images: %s/images, eval_labels: %s/labels}\n"
             "train: {global_batch: 2}\n",
             dir, dir, dir, dir);
    char *page = page_of(text);
    ASSERT_CONTAINS(page, "<td>channel 0, as the loader gives it</td><td>pixel / 255</td><td>0</td><td>1</td>"
                          "<td>0.4</td>");
    ASSERT_CONTAINS(page,
                    "<td>channel 0, as the model computes with it</td><td>(pixel / 255 − 0.25) / 0.5</td>"
                    "<td>-0.5</td><td>1.5</td><td>0.3</td>");
    ASSERT_CONTAINS(page, "<br/>-0.5 to 1.5, mean 0.3</figcaption>");
    free(page);
}

/* A field that is called images and has none is shown as numbers. */
static void a_field_of_numbers_is_no_picture(void **state)
{
    (void)state;
    char text[2400], dir[256];
    static const char TABLE[] = "images,y\n1,2\n3,4\n5,6\n7,8\n";
    snprintf(dir, sizeof dir, "%s", ls_test_dir());
    ASSERT_OK(ls_file_write(ls_test_path("table.csv"), TABLE, sizeof TABLE - 1));
    snprintf(text, sizeof text,
             "model: {type: mlp, inputs: {images: []}, outputs: {y: []}}\n"
             "data: {type: arrays, train: {images: %s/table.csv, y: %s/table.csv}, "
             "eval: {images: %s/table.csv, y: %s/table.csv}}\n"
             "loss: {type: mse, of: y}\ntrain: {global_batch: 2}\n",
             dir, dir, dir, dir);
    char *page = page_of(text);
    ASSERT_CONTAINS(page, "<th>sample</th><th>images</th><th>y</th>");
    assert_null(strstr(page, "<img"));
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images_are_normalised),
                                        cmocka_unit_test(a_field_of_numbers_is_no_picture) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

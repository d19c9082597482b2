/* test_image_mask.c - masks of pictures: a mask is cut, moved and turned as its picture is; steps of colour
 * leave it alone; which files are masks. */
#include "files.h"

#include "data/image.h"
#include "data/image_mask.h"
#include "data/image_set.h"

enum { H = 40, W = 52, SIDE = 32 };

/* Four areas of other sizes, so that no flip or crop gives the same picture. */
static int class_at(int x, int y) { return (x >= 20) + 2 * (y >= 12); }
static int level_of(int class) { return 50 + 60 * class; }

static void write_png(const char *path, int height, int width, const uint8_t *pixels)
{
    bytes b;
    assert_ok(ls_png_encode(&b.data, &b.size, 1, height, width, pixels));
    write_bytes(path, b);
    free_bytes(&b);
}

/* DIR/train with one picture, levels of its classes, and its mask. */
static char *make_set(void)
{
    uint8_t image[H * W], mask[H * W];
    char *dir = make_folder();
    for (int i = 0; i < H * W; i++) {
        mask[i] = (uint8_t)class_at(i % W, i / W);
        image[i] = (uint8_t)level_of(mask[i]);
    }
    assert_ok(ls_make_dirs(in(dir, "train/images")));
    assert_ok(ls_make_dirs(in(dir, "train/masks")));
    write_png(in(dir, "train/images/one.two.png"), H, W, image);
    write_png(in(dir, "train/masks/one.two.png"), H, W, mask);
    return dir;
}

/* Whether a pixel and its neighbours have one level, so that it is not a mixture of two areas. */
static bool is_flat(const float *image, int x, int y)
{
    for (int v = y - 1; v <= y + 1; v++)
        for (int u = x - 1; u <= x + 1; u++)
            if (u >= 0 && u < SIDE && v >= 0 && v < SIDE && image[v * SIDE + u] != image[y * SIDE + x])
                return false;
    return true;
}

/* Compares pixels with their labels. Returns how many were compared. */
static int compare(const float *image, const int32_t *mask)
{
    int compared = 0;
    for (int i = 0; i < SIDE * SIDE; i++) {
        if (!is_flat(image, i % SIDE, i / SIDE))
            continue;
        int32_t want = LS_IGNORE_LABEL; /* of level 0, which comes from outside */
        for (int c = 0; c < 4; c++)
            want = image[i] == (float)level_of(c) ? c : want;
        assert_int_equal(mask[i], want);
        compared++;
    }
    return compared;
}

static void test_same_geometry(void **state)
{
    (void)state;
    enum { DRAWS = 300 };
    static const ls_augment CASES[] = {
        { .crop = LS_CROP_RESIZED, .scale = { 0.2, 1 }, .ratio = { 0.5, 2 }, .flip = 0.5 },
        { .crop = LS_CROP_PADDED, .padding = 6, .flip = 0.5 },
    };
    static float image[SIDE * SIDE], again[SIDE * SIDE];
    static int32_t mask[SIDE * SIDE], mask_again[SIDE * SIDE];
    void *const to[] = { image, mask }, *const to_again[] = { again, mask_again };
    char *dir = make_set();
    ls_dataset *set;
    assert_ok(ls_images_open(&set, LS_SPLIT_TRAIN, 1, SIDE, .path = dir, .classes = 4, .mask = "mask"));
    assert_int_equal(set->n, 1);
    assert_string_equal(set->fields[0].name, "image");
    assert_string_equal(set->fields[1].name, "mask");
    assert_int_equal(set->fields[1].below, 4);
    assert_ok(set->read(set, 0, to));
    assert_true(compare(image, mask) > SIDE * SIDE / 2);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        int compared = 0, changed = 0, outside = 0;
        ls_images_augment(set, &CASES[c]);
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            assert_ok(set->read(set, 0, to_again));
            assert_ok(set->read_drawn(set, 0, draw, to));
            compared += compare(image, mask);
            changed += memcmp(mask, mask_again, sizeof mask) != 0;
            outside += mask[0] == LS_IGNORE_LABEL;
            assert_ok(set->read_drawn(set, 0, draw, to_again)); /* a function of the draw */
            assert_memory_equal(image, again, sizeof image);
            assert_memory_equal(mask, mask_again, sizeof mask);
            memset(mask_again, 0, sizeof mask_again);
            assert_ok(set->read_drawn(set, 0, draw, (void *[]){ NULL, mask_again })); /* the mask alone */
            assert_memory_equal(mask, mask_again, sizeof mask);
        }
        assert_true(compared > DRAWS * SIDE * SIDE / 2);
        assert_true(changed > DRAWS / 2);
        assert_true(c == 0 ? outside == 0 : outside > DRAWS / 4);
    }
    ls_dataset_close(&set);
    remove_tree(dir);
}

/* Every kind of step: what moves pixels moves those of a mask as those of an image; no other changes a mask.
 */
static void test_steps(void **state)
{
    (void)state;
    uint8_t image[H * W], mask[H * W], before[H * W];
    for (int i = 0; i < H * W; i++)
        before[i] = (uint8_t)(1 + i % 200);
    for (int k = LS_AUGMENT_SHIFT; k <= LS_AUGMENT_ERASE; k++) {
        const bool moves = k <= LS_AUGMENT_FLIP || (k >= LS_AUGMENT_SHEAR_X && k <= LS_AUGMENT_ROTATE);
        const bool far = k >= LS_AUGMENT_TRANSLATE_X && k <= LS_AUGMENT_ROTATE;
        const ls_augment_step s = { .kind = (ls_augment_kind)k,
                                    .value = far ? 7 : 0.3,
                                    .x = 3,
                                    .y = 2,
                                    .width = 4,
                                    .height = 5 };
        memcpy(image, before, sizeof image);
        memcpy(mask, before, sizeof mask);
        assert_ok(ls_augment_apply(&s, 1, 1, H, W, image));
        assert_ok(ls_augment_mask(&s, 1, H, W, mask));
        assert_memory_equal(mask, moves ? image : before, sizeof mask);
        assert_true(!moves || memcmp(mask, before, sizeof mask));
    }
}

static void choose_all(const void *context, int height, int width, ls_cut *out)
{
    (void)context;
    *out = (ls_cut){ .width = width, .height = height };
}

static void test_values(void **state)
{
    (void)state;
    static const uint8_t VALUES[2 * 3] = { 0, 1, 2, 255, 2, 0 };
    static const int UNKNOWN[2] = { 0 };
    const ls_view same = { .channels = 1, .height = 2, .width = 3, .choose = choose_all },
                  larger = { .channels = 1, .height = 4, .width = 6, .choose = choose_all };
    uint8_t mask[4 * 6];
    int32_t labels[2 * 3];
    bytes b, colour;
    assert_ok(ls_png_encode(&b.data, &b.size, 1, 2, 3, VALUES));
    assert_ok(ls_png_encode(&colour.data, &colour.size, 3, 1, 2, VALUES));
    ls_mask_values m = { .classes = 3, .ignore = 255 };
    assert_ok(ls_mask_view(mask, &same, &m, (const int[2]){ 2, 3 }, b.data, b.size, "m"));
    ls_mask_labels(labels, mask, 6);
    assert_memory_equal(labels, ((const int32_t[]){ 0, 1, 2, LS_IGNORE_LABEL, 2, 0 }), sizeof labels);
    assert_ok(ls_mask_view(mask, &larger, &m, UNKNOWN, b.data, b.size, "m")); /* each pixel becomes 2 x 2 */
    for (int i = 0; i < 4 * 6; i++)
        assert_int_equal(mask[i], (uint8_t)(VALUES[i / 12 * 3 + i % 6 / 2] + 1));
    static const uint8_t OTHERS[2 * 3] = { 0, 1, 2, 2, 1, 0 };
    bytes others;
    assert_ok(ls_png_encode(&others.data, &others.size, 1, 2, 3, OTHERS));
    m.ignore = 1; /* a class may be ignored */
    assert_ok(ls_mask_view(mask, &same, &m, UNKNOWN, others.data, others.size, "m"));
    ls_mask_labels(labels, mask, 6);
    assert_memory_equal(labels, ((const int32_t[]){ 0, LS_IGNORE_LABEL, 2, 2, LS_IGNORE_LABEL, 0 }),
                        sizeof labels);
    free_bytes(&others);
    assert_fails(LS_E_SHAPE, ls_mask_view(mask, &same, &m, UNKNOWN, b.data, b.size, "m"),
                 "m: the pixel (0, 1) has the value 255", "with 3 classes values are 0 to 2");
    assert_fails(LS_E_FORMAT,
                 ls_mask_view(mask, &same, &m, (const int[2]){ 3, 2 }, b.data, b.size, "m"),
                 "m: the mask has 3 x 2 pixels", "its picture has 2 x 3");
    assert_fails(LS_E_FORMAT, ls_mask_view(mask, &same, &m, UNKNOWN, colour.data, colour.size, "m"),
                 "m: a PNG with colours", "gray of 8 bits or with a palette");
    assert_fails(LS_E_FORMAT, ls_mask_view(mask, &same, &m, UNKNOWN, "P5 1 1 255 a", 12, "m"),
                 "m: a mask is a PNG file", "");
    for (size_t n = 0; n < b.size; n++)
        assert_int_equal(ls_mask_view(mask, &same, &m, UNKNOWN, b.data, n, "m"), LS_E_FORMAT);
    free_bytes(&b);
    free_bytes(&colour);
}

/* A mask that is made smaller has the pixels in the middle of what each new one covers; made larger by three
 * halves it repeats some. */
static void test_nearest_pixels(void **state)
{
    (void)state;
    enum { WIDE = 6, HIGH = 4 };
    static const int HALF[] = { 1, 3, 5 }, LARGER[] = { 0, 1, 1, 2, 3, 3, 4, 5, 5 };
    const ls_mask_values m = { .classes = 200, .ignore = 255 };
    uint8_t values[HIGH * WIDE], mask[2 * 9];
    bytes b;
    for (int i = 0; i < HIGH * WIDE; i++)
        values[i] = (uint8_t)(i / WIDE * 20 + i % WIDE);
    assert_ok(ls_png_encode(&b.data, &b.size, 1, HIGH, WIDE, values));
    const ls_view half = { .channels = 1, .height = 2, .width = 3, .choose = choose_all },
                  larger = { .channels = 1, .height = 2, .width = 9, .choose = choose_all };
    assert_ok(ls_mask_view(mask, &half, &m, (const int[2]){ HIGH, WIDE }, b.data, b.size, "m"));
    for (int i = 0; i < 2 * 3; i++)
        assert_int_equal(mask[i] - 1, (2 * (i / 3) + 1) * 20 + HALF[i % 3]);
    assert_ok(ls_mask_view(mask, &larger, &m, (const int[2]){ HIGH, WIDE }, b.data, b.size, "m"));
    for (int i = 0; i < 2 * 9; i++)
        assert_int_equal(mask[i] - 1, (2 * (i / 9) + 1) * 20 + LARGER[i % 9]);
    free_bytes(&b);
}

static void test_missing(void **state)
{
    (void)state;
    char *dir = make_set();
    ls_dataset *set;
    assert_fails(LS_E_USAGE, ls_images_open(&set, LS_SPLIT_EVAL, 1, SIDE, .path = dir, .mask = "mask"),
                 "val/images: no such folder", "PATH/val/masks");
    assert_fails(LS_E_USAGE,
                 ls_images_open(&set, LS_SPLIT_TRAIN, 1, SIDE, .path = dir, .mask = "mask", .classes = 256),
                 "masks of 256 classes", "at most 255");
    assert_int_equal(unlink(in(dir, "train/masks/one.two.png")), 0);
    assert_fails(LS_E_USAGE, ls_images_open(&set, LS_SPLIT_TRAIN, 1, SIDE, .path = dir, .mask = "mask"),
                 "train/masks/one.two.png: no such mask", "train/images/one.two.png needs one");
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_geometry),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_nearest_pixels), cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

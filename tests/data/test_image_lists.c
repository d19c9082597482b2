/* test_image_lists.c - lists of pictures: labels of a CSV file, ends of tar shards, and pipes in place of
 * files. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/stop.h"
#include "data/image_list.h"
#include "files.h"

static char *dir;

static const char *put_text(const char *name, const char *text)
{
    write_bytes(in(dir, name), (bytes){ (uint8_t *)(uintptr_t)text, strlen(text) });
    return in(dir, name);
}

static const char PICTURE[] = "P2 1 1 255 7\n";

/* ---- labels of a list */

static ls_status read_list(ls_image_list *l, const char *rows, const char *train)
{
    char text[400];
    snprintf(text, sizeof text, "path,label\n%s", rows);
    const char *split = put_text("list.csv", text), *other = NULL;
    if (train) {
        snprintf(text, sizeof text, "path,label\n%s", train);
        other = put_text("train.csv", text);
    }
    *l = (ls_image_list){ 0 };
    const ls_status s = ls_image_table(l, &(ls_image_source){ .split = split, .train = other });
    if (s != LS_OK)
        ls_image_list_release(l);
    return s;
}

static void numbers_are_in_their_order(void **state)
{
    (void)state;
    ls_image_list l;
    assert_ok(read_list(&l, "a,10\nb,2\nc,0\nd,1\n", NULL));
    assert_true(l.classes == 11 && !l.names);
    assert_true(l.at[0].label == 10 && l.at[1].label == 2 && l.at[2].label == 0 && l.at[3].label == 1);
    ls_image_list_release(&l);
    assert_ok(read_list(&l, "a,10th\nb,2nd\nc,10th\n", NULL)); /* names may begin with digits */
    assert_true(l.classes == 2 && l.at[0].label == 0 && l.at[1].label == 1);
    assert_string_equal(l.names[0], "10th");
    ls_image_list_release(&l);
}

static void odd_labels_are_named(void **state)
{
    (void)state;
    ls_image_list l;
    static const struct {
        const char *rows, *train, *says, *more;
    } CASES[] = {
        { "a,0\nb,1\nc,-1\nd,2\n", NULL, "list.csv line 4: the label \"-1\" is not a class", "0 to 1000000" },
        { "a,0\nb,99999999\n", NULL, "list.csv line 3: the label \"99999999\" is not a class", "" },
        { "a,0\nb,1.5\n", NULL, "list.csv line 3: the label \"1.5\" is not a class", "" },
        { "a,0\nb,1\nc,cat\n", NULL, "list.csv line 4: the label \"cat\" is a name", "\"0\" of line 2" },
        { "a,cat\nb,dog\nc,3\n", NULL, "list.csv line 4: the label \"3\" is a number", "\"cat\" of line 2" },
        { "a,0\n", "a,0\nb,-1\n", "train.csv line 3: the label \"-1\" is not a class", "" },
        { "a,0\n", "a,cat\n", "list.csv line 2: the label \"0\" is a number", "are names" },
        { "a,cat\n", "a,0\n", "list.csv line 2: the label \"cat\" is a name", "are numbers" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_fails(LS_E_FORMAT, read_list(&l, CASES[i].rows, CASES[i].train), CASES[i].says, CASES[i].more);
    static const char NUL[] = "path,label\na,0\n\0b,1\n";
    write_bytes(in(dir, "list.csv"), (bytes){ (uint8_t *)(uintptr_t)NUL, sizeof NUL - 1 });
    l = (ls_image_list){ 0 };
    assert_fails(LS_E_FORMAT, ls_image_table(&l, &(ls_image_source){ .split = in(dir, "list.csv") }),
                 "list.csv line 3: a field has a byte 0", "");
    ls_image_list_release(&l);
    put_text("list.csv", "path;label\na.png;1\n");
    l = (ls_image_list){ 0 };
    assert_fails(LS_E_FORMAT, ls_image_table(&l, &(ls_image_source){ .split = in(dir, "list.csv") }),
                 "list.csv line 1: semicolons separate its fields", "sep=None");
    ls_image_list_release(&l);
}

/* ---- shards */

enum { BLOCK = 512 };

/* Adds a file of one block to an archive. */
static void add_file(bytes *tar, const char *name, const char *text)
{
    tar->data = realloc(tar->data, tar->size + 2 * BLOCK);
    char *h = (char *)tar->data + tar->size;
    memset(h, 0, 2 * BLOCK);
    tar->size += 2 * BLOCK;
    snprintf(h, 100, "%s", name);
    snprintf(h + 100, 8, "0000644");
    snprintf(h + 124, 12, "%011o", (unsigned)strlen(text));
    memcpy(h + 257, "ustar\00000", 8);
    h[156] = '0';
    memset(h + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += (uint8_t)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    memcpy(h + BLOCK, text, strlen(text));
}

static ls_status read_shard(const char *name, bytes tar, size_t zeros, int64_t *n)
{
    bytes all = { calloc(1, tar.size + zeros), tar.size + zeros };
    if (tar.size)
        memcpy(all.data, tar.data, tar.size);
    write_bytes(in(dir, name), all);
    free_bytes(&all);
    ls_image_list l = { 0 };
    const ls_status s = ls_image_shards(&l, &(ls_image_source){ .split = in(dir, name) });
    *n = l.n;
    ls_image_list_release(&l);
    return s;
}

static void shards_have_an_end(void **state)
{
    (void)state;
    bytes tar = { 0 };
    int64_t n;
    add_file(&tar, "1.ppm", PICTURE);
    add_file(&tar, "1.cls", "0");
    const size_t one = tar.size;
    add_file(&tar, "2.ppm", PICTURE);
    add_file(&tar, "2.cls", "1");
    assert_ok(read_shard("a.tar", tar, 10240 - tar.size, &n)); /* as GNU tar fills a record */
    assert_int_equal(n, 2);
    assert_ok(read_shard("a.tar", tar, 2 * BLOCK, &n)); /* POSIX */
    assert_ok(read_shard("a.tar", tar, BLOCK, &n));     /* GNU tar reads this, too */
    assert_int_equal(n, 2);
    assert_fails(LS_E_FORMAT, read_shard("a.tar", tar, 0, &n), "a.tar: truncated at offset 4096",
                 "blocks of zeros that end a tar archive are missing; get the file again");
    const bytes cut = { tar.data, one };
    assert_fails(LS_E_FORMAT, read_shard("a.tar", cut, 0, &n), "a.tar: truncated at offset 2048", "");
    assert_fails(LS_E_FORMAT, read_shard("a.tar", (bytes){ 0 }, 0, &n), "a.tar: truncated at offset 0", "");
    bytes joined = { calloc(1, 3 * one + BLOCK), 2 * one + BLOCK };
    memcpy(joined.data, tar.data, one);
    memcpy(joined.data + one + BLOCK, tar.data, one);
    assert_fails(LS_E_FORMAT, read_shard("a.tar", joined, BLOCK, &n), "the tar archive ends at offset 2048",
                 "name each as a file of its own");
    free_bytes(&joined);
    free_bytes(&tar);
}

/* ---- what is not a file */

/* Opens a set and reads its first sample. */
static ls_status read_first(const ls_images_options *o)
{
    ls_dataset *set;
    float image[4];
    int32_t label[4];
    LS_TRY(ls_images_open_with(&set, LS_SPLIT_TRAIN, 1, 2, o));
    const ls_status s = set->read(set, 0, (void *[]){ image, label });
    ls_dataset_close(&set);
    return s;
}

/* Each replaces a file that was there when the list was made. */
static void make_pipe(const char *path)
{
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void make_socket(const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    unlink(path);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    close(fd);
}

static void make_inner_folder(const char *path)
{
    unlink(path);
    assert_ok(ls_make_dirs(path));
}

static void make_link(const char *path)
{
    unlink(path);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
}

/* Opening a pipe waits for a writer for ever, and no signal ends that: the alarm would. */
static void other_than_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        void (*make)(const char *path);
        const char *says;
    } CASES[] = { { make_pipe, "it is a pipe, not a regular file" },
                  { make_socket, "it is a socket, not a regular file" },
                  { make_inner_folder, "Is a directory" },
                  { make_link, "No such file" } };
    alarm(60);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_ok(ls_make_dirs(in(dir, "set/a"))); /* in a list; in a folder; as a mask */
        assert_ok(ls_make_dirs(in(dir, "masked/train/images")));
        assert_ok(ls_make_dirs(in(dir, "masked/train/masks")));
        put_text("set/a/0.ppm", PICTURE);
        put_text("masked/train/images/0.ppm", PICTURE);
        put_text("list.csv", "path,label\nset/a/1.ppm,0\n");
        CASES[i].make(in(dir, "set/a/1.ppm"));
        CASES[i].make(in(dir, "masked/train/masks/0.png"));
        const ls_images_options list = { LS_IMAGES_DEFAULTS, .train = in(dir, "list.csv") };
        assert_fails(LS_E_IO, read_first(&list), "set/a/1.ppm", CASES[i].says);
        unlink(in(dir, "set/a/0.ppm"));
        if (CASES[i].make != make_inner_folder) { /* a folder in a class holds pictures of the class */
            const ls_images_options folder = { LS_IMAGES_DEFAULTS, .train = in(dir, "set") };
            assert_fails(LS_E_IO, read_first(&folder), "set/a/1.ppm", CASES[i].says);
        }
        if (CASES[i].make != make_link) { /* a mask that is not there is named when the set is opened */
            const ls_images_options masked = { LS_IMAGES_DEFAULTS, .path = in(dir, "masked"), .classes = 2,
                                               .mask = "mask" };
            assert_fails(LS_E_IO, read_first(&masked), "masks/0.png", CASES[i].says);
        }
        remove(in(dir, "set/a/1.ppm"));
        remove(in(dir, "masked/train/masks/0.png"));
    }
    alarm(0);
}

/* ---- a request to stop */

static void lists_can_be_stopped(void **state)
{
    (void)state;
    volatile sig_atomic_t flag = 1;
    ls_image_list l = { 0 };
    bytes tar = { 0 };
    int64_t n;
    add_file(&tar, "1.ppm", PICTURE);
    add_file(&tar, "1.cls", "0");
    assert_ok(ls_make_dirs(in(dir, "stop/a")));
    put_text("stop/a/0.ppm", PICTURE);
    ls_stop_on(&flag);
    assert_fails(LS_E_STOPPED, read_list(&l, "a,10\n", NULL), "stopped while reading", "list.csv");
    assert_fails(LS_E_STOPPED, read_shard("a.tar", tar, BLOCK, &n), "stopped while", "a.tar");
    assert_fails(LS_E_STOPPED, ls_image_folder(&l, &(ls_image_source){ .split = in(dir, "stop") }),
                 "stopped while listing", "stop");
    ls_stop_on(NULL);
    ls_image_list_release(&l);
    free_bytes(&tar);
}

static int set_up(void **state)
{
    (void)state;
    dir = make_folder();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_in_their_order),   cmocka_unit_test(odd_labels_are_named),
        cmocka_unit_test(shards_have_an_end),           cmocka_unit_test(other_than_files_are_refused),
        cmocka_unit_test(lists_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* test_idx.c - IDX bytes and files. Every damage is refused with path, offset and what was expected. The
 * inflated copy is found again, and is not used when its source has changed. */
#include "files.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/hash.h"
#include "base/log.h"
#include "data/idx.h"
#include "data/source_hash.h"

static const uint32_t DIMS[3] = { 5, 4, 3 };

static void test_parse(void **state)
{
    (void)state;
    bytes b = make_idx(3, DIMS, NULL);
    ls_idx x;
    assert_ok(ls_idx_parse(&x, b.data, b.size, 3, "a"));
    assert_int_equal(x.dims[0], 5);
    assert_int_equal(x.dims[1], 4);
    assert_int_equal(x.dims[2], 3);
    assert_int_equal(x.bytes, 60);
    assert_ptr_equal(x.data, b.data + 16);
    assert_int_equal(x.data[12 * 2 + 5], 7);
    free_bytes(&b);
}

/* Every prefix is refused, and (under ASan) nothing behind it is read: each copy has exactly its size. */
static void test_every_truncation(void **state)
{
    (void)state;
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    for (size_t n = 0; n < b.size; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, b.data, n);
        ls_idx x;
        assert_fails(LS_E_FORMAT, ls_idx_parse(&x, copy, n, 3, "some/file"), "some/file", "offset");
        free(copy);
    }
    for (size_t n = 0; n < z.size; n++) {
        uint8_t *copy = malloc(n ? n : 1), *out;
        size_t size;
        memcpy(copy, z.data, n);
        assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, copy, n, 3, "some/file"), "some/file",
                     "offset");
        assert_null(out);
        free(copy);
    }
    free_bytes(&b);
    free_bytes(&z);
}

static void test_damaged_header(void **state)
{
    (void)state;
    bytes b = make_idx(3, DIMS, NULL);
    ls_idx x;
    b.data[0] = 0x50;
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 3, "f"), "not an IDX file", "50 00 08 03");
    b.data[0] = 0;
    b.data[2] = 0x0d;
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 3, "f"), "type 0x0d at offset 2", "0x08");
    b.data[2] = 8;
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 1, "f"), "3 dimensions", "swapped");
    /* 2^32 x 2^32 x 2^32 nearly: must not wrap round to something small */
    b.data[4] = b.data[8] = b.data[12] = 0xff;
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 3, "f"), "2^47", "offset 8");
    free_bytes(&b);
    uint32_t one[3] = { 1, 1, 1 };
    b = make_idx(3, one, NULL);
    memcpy(b.data + 4, "\0\1\0\0\0\1\0\0\0\1\0\0", 12); /* 2^16 each, 2^48 in all: nothing overflows */
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 3, "f"), "2^47", "offset 12");
    free_bytes(&b);
    uint32_t none[3] = { 5, 0, 3 };
    b = make_idx(3, none, NULL);
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, b.data, b.size, 3, "f"), "dimension 1 is 0", "offset 8");
    free_bytes(&b);
    uint8_t longer[17 + 60] = { 0 };
    b = make_idx(3, DIMS, NULL);
    memcpy(longer, b.data, b.size);
    assert_fails(LS_E_FORMAT, ls_idx_parse(&x, longer, sizeof longer, 3, "f"), "1 bytes after the end",
                 "offset 76");
    free_bytes(&b);
}

static void test_damaged_gzip(void **state)
{
    (void)state;
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    uint8_t *out;
    size_t size;
    volatile sig_atomic_t flag = 1;
    ls_stop_on(&flag);
    assert_fails(LS_E_STOPPED, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"),
                 "stopped while inflating f", "f");
    ls_stop_on(NULL);
    assert_ok(ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"));
    assert_int_equal(size, b.size);
    assert_memory_equal(out, b.data, size);
    free(out);

    z.data[z.size - 8] ^= 1; /* the CRC */
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"), "damaged gzip data",
                 "incorrect data check");
    z.data[z.size - 8] ^= 1;
    z.data[z.size - 4] ^= 1; /* the length */
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"), "damaged gzip data",
                 "incorrect length check");
    z.data[z.size - 4] ^= 1;

    z.data = realloc(z.data, z.size + 3);
    memset(z.data + z.size, 0, 3); /* padding, as of a tape */
    assert_ok(ls_idx_inflate(&out, &size, z.data, z.size + 3, 3, "f"));
    assert_int_equal(size, b.size);
    free(out);
    memset(z.data + z.size, 7, 3);
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size + 3, 3, "f"),
                 "3 bytes after the end of the gzip data", "offset");
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, b.data, b.size, 3, "f"), "not a gzip file", "f:");
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 1, "f"), "3 dimensions",
                 "expected 1");
    free_bytes(&z);

    b.data[7] = 4; /* the header promises 4 images, the stream has 5, and the other way round */
    z = make_gzip(b);
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"),
                 "inflates to more than the 64 bytes", "f:");
    free_bytes(&z);
    b.data[7] = 6;
    z = make_gzip(b);
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"), "after 76 inflated bytes",
                 "12 more");
    free_bytes(&z);
    b.data[4] = 0x7f; /* terabytes from a hundred bytes: refused before anything is allocated */
    z = make_gzip(b);
    assert_fails(LS_E_FORMAT, ls_idx_inflate(&out, &size, z.data, z.size, 3, "f"), "cannot hold them", "f:");
    free_bytes(&z);
    free_bytes(&b);
}

static void set_age(const char *path)
{
    struct timeval t[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    assert_int_equal(utimes(path, t), 0);
}

static int count_files(const char *dir, const char *suffix)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t len = strlen(e->d_name), k = strlen(suffix);
        n += e->d_name[0] != '.' && len >= k && !strcmp(e->d_name + len - k, suffix);
    }
    if (d)
        closedir(d);
    return n;
}

static void test_cache(void **state)
{
    (void)state;
    char *dir = make_folder();
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    const char *path = in(dir, "x.gz");
    write_bytes(path, z);
    ls_idx_file f;
    assert_ok(ls_idx_open(&f, path, 3));
    assert_non_null(f.map.data); /* the copy in the cache, not the heap */
    assert_null(f.heap);
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    ls_idx_close(&f);
    ls_idx_close(&f);
    assert_int_equal(count_files(in(dir, "cache/inflated"), ".idx"), 1);

    /* Other content, the same size: never the old content. */
    b.data[75] ^= 1;
    bytes z2 = make_gzip(b);
    assert_int_equal(z.size, z2.size);
    write_bytes(path, z2);
    assert_ok(ls_idx_open(&f, path, 3));
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    ls_idx_close(&f);
    assert_int_equal(count_files(in(dir, "cache/inflated"), ".idx"), 2);

    /* A cut copy in the cache is made again. */
    DIR *d = opendir(in(dir, "cache/inflated"));
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".idx"))
            assert_int_equal(truncate(in(in(dir, "cache/inflated"), e->d_name), 30), 0);
    closedir(d);
    assert_ok(ls_idx_open(&f, path, 3));
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    assert_true(f.digest == ls_hash64(b.data, b.size));
    ls_idx_close(&f);

    /* A damaged source leaves nothing in the cache. */
    z.data[z.size - 8] ^= 1;
    write_bytes(path, z);
    assert_fails(LS_E_FORMAT, ls_idx_open(&f, path, 3), path, "damaged gzip");
    assert_null(f.idx.data);
    assert_int_equal(count_files(in(dir, "cache/inflated"), ".idx"), 2);
    free_bytes(&b);
    free_bytes(&z);
    free_bytes(&z2);
    remove_tree(dir);
}

/* The path of the only file in DIR whose name ends in `suffix`. */
static const char *only_file(const char *dir, const char *suffix)
{
    static char path[1024];
    DIR *d = opendir(dir);
    assert_non_null(d);
    *path = 0;
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name), k = strlen(suffix);
        if (e->d_name[0] != '.' && e->d_type == DT_REG && len >= k && !strcmp(e->d_name + len - k, suffix)) {
            assert_int_equal(*path, 0);
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        }
    }
    closedir(d);
    return path;
}

static char logged[4096];

static void keep_log(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

/* Every byte of a copy in the cache is guarded: what differs is made again, and the log says so. A plain file
 * has the digest of its gzip. */
static void test_damaged_copy(void **state)
{
    (void)state;
    char *dir = make_folder(), copy[1024];
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    char path[1024];
    snprintf(path, sizeof path, "%s", in(dir, "x.gz"));
    write_bytes(path, z);
    ls_idx_file f;
    assert_ok(ls_idx_open(&f, path, 3));
    const uint64_t digest = f.digest;
    assert_true(digest && digest == ls_hash64(b.data, b.size));
    ls_idx_close(&f);
    snprintf(copy, sizeof copy, "%s", only_file(in(dir, "cache/inflated"), ".idx"));
    char *whole;
    size_t n;
    assert_ok(ls_file_read(&whole, &n, copy));
    assert_int_equal(n, b.size + sizeof(ls_idx_footer));
    ls_log_set(keep_log, NULL, LS_WARN);
    for (size_t at = 0; at < n; at += 3) {
        whole[at] ^= 1;
        write_bytes(copy, (bytes){ (uint8_t *)whole, n });
        whole[at] ^= 1;
        *logged = 0;
        assert_ok(ls_idx_open(&f, path, 3));
        assert_memory_equal(f.idx.data, b.data + 16, 60);
        assert_true(f.digest == digest && f.map.data);
        ls_idx_close(&f);
        if (!strstr(logged, copy) || !strstr(logged, "the source is inflated again"))
            fail_msg("byte %zu of the copy: the log says \"%s\"", at, logged);
    }
    *logged = 0;
    assert_ok(ls_idx_open(&f, path, 3));
    ls_idx_close(&f);
    assert_string_equal(logged, "");
    const ls_idx_footer others = ls_idx_footer_of(whole, b.size, 7); /* sound, and made from another source */
    memcpy(whole + b.size, &others, sizeof others);
    write_bytes(copy, (bytes){ (uint8_t *)whole, n });
    assert_ok(ls_idx_open(&f, path, 3));
    ls_idx_close(&f);
    assert_non_null(strstr(logged, "the source is inflated again"));
    write_bytes(copy, (bytes){ (uint8_t *)whole, b.size }); /* as versions before the footer wrote it */
    assert_ok(ls_idx_open(&f, path, 3));
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    ls_idx_close(&f);
    ls_log_set(NULL, NULL, LS_WARN);
    write_bytes(in(dir, "plain"), b);
    assert_ok(ls_idx_open(&f, in(dir, "plain"), 3));
    assert_true(f.digest == digest);
    ls_idx_close(&f);
    free(whole);
    free_bytes(&b);
    free_bytes(&z);
    remove_tree(dir);
}

/* Same inode, same size, same modification time: only the change time, which nobody can set, tells. */
static void rewrite_in_place(const char *path, bytes b)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.size, f), b.size);
    assert_int_equal(fclose(f), 0);
    set_age(path);
}

static int known_hashes(const char *dir) { return count_files(in(dir, "cache/inflated/known"), ""); }

static void known_path(char path[1024], const char *dir, const char *source)
{
    snprintf(path, 1024, "%s/%016" PRIx64, in(dir, "cache/inflated/known"), ls_source_key(source));
}

/* A copy whose checksum is remembered is not read: shown by remembering it for a damaged one. */
static void test_known_copy(void **state)
{
    (void)state;
    char *dir = make_folder(), path[1024], copy[1024], known[1024], text[32];
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    ls_idx_file f;
    snprintf(path, sizeof path, "%s", in(dir, "x.gz"));
    write_bytes(path, z);
    assert_ok(ls_idx_open(&f, path, 3));
    const uint64_t digest = f.digest;
    ls_idx_close(&f);
    snprintf(copy, sizeof copy, "%s", only_file(in(dir, "cache/inflated"), ".idx"));
    bytes damaged = { malloc(b.size + sizeof(ls_idx_footer)), b.size + sizeof(ls_idx_footer) };
    const ls_idx_footer footer = ls_idx_footer_of(b.data, b.size, ls_hash64(z.data, z.size));
    memcpy(damaged.data, b.data, b.size);
    memcpy(damaged.data + b.size, &footer, sizeof footer);
    damaged.data[16] ^= 1;
    write_bytes(copy, damaged);
    sleep(3);
    assert_int_equal(mkdir(in(dir, "cache/inflated/known"), 0777), 0);
    snprintf(text, sizeof text, "%016" PRIx64 "\n", digest);
    known_path(known, dir, copy);
    write_bytes(known, (bytes){ (uint8_t *)text, 17 });
    assert_ok(ls_idx_open(&f, path, 3));
    assert_int_equal(f.idx.data[0], damaged.data[16]);
    ls_idx_close(&f);
    write_bytes(known, (bytes){ (uint8_t *)"00000000000000aa\n", 17 }); /* of other bytes: it is compared */
    assert_ok(ls_idx_open(&f, path, 3));
    assert_int_equal(f.idx.data[0], b.data[16]);
    ls_idx_close(&f);
    free_bytes(&b);
    free_bytes(&z);
    free_bytes(&damaged);
    remove_tree(dir);
}

/* Once the source is old enough, its hash is remembered under its identity and its bytes are not read any
 * more: shown by making the memory name another file's copy. A changed file has another identity. */
static void test_known_hash(void **state)
{
    (void)state;
    char *dir = make_folder();
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    const char *path = in(dir, "x.gz");
    ls_idx_file f;
    write_bytes(path, z);
    set_age(path);
    assert_ok(ls_idx_open(&f, path, 3));
    ls_idx_close(&f);
    /* its modification time is old, its change time too young to be sure */
    assert_int_equal(known_hashes(dir), 0);
    sleep(3);
    assert_ok(ls_idx_open(&f, path, 3));
    ls_idx_close(&f);
    assert_int_equal(known_hashes(dir), 2); /* the source's, and the checksum of its copy */
    assert_ok(ls_idx_open(&f, path, 3));
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    ls_idx_close(&f);

    bytes other = make_idx(3, DIMS, NULL);
    other.data[16] = 77;
    const ls_idx_footer footer = ls_idx_footer_of(other.data, other.size, 0xaa);
    bytes there = { malloc(other.size + sizeof footer), other.size + sizeof footer };
    memcpy(there.data, other.data, other.size);
    memcpy(there.data + other.size, &footer, sizeof footer);
    write_bytes(in(in(dir, "cache/inflated"), "00000000000000aa.idx"), there);
    free_bytes(&there);
    char known[1024];
    known_path(known, dir, path);
    write_bytes(known, (bytes){ (uint8_t *)"00000000000000aa\n", 17 });
    assert_ok(ls_idx_open(&f, path, 3));
    assert_int_equal(f.idx.data[0], 77);
    ls_idx_close(&f);

    /* Remembered is something that is not a hash, or a copy that is gone: the source is read. */
    const char *useless[] = { "nonsense nonsense", "00000000000000bb\n" };
    for (int i = 0; i < 2; i++) {
        write_bytes(known, (bytes){ (uint8_t *)(uintptr_t)useless[i], 17 });
        assert_ok(ls_idx_open(&f, path, 3));
        assert_memory_equal(f.idx.data, b.data + 16, 60);
        ls_idx_close(&f);
    }

    b.data[75] ^= 1;
    bytes z2 = make_gzip(b);
    assert_int_equal(z.size, z2.size);
    rewrite_in_place(path, z2);
    sleep(3);
    assert_ok(ls_idx_open(&f, path, 3));
    assert_memory_equal(f.idx.data, b.data + 16, 60);
    ls_idx_close(&f);
    assert_int_equal(known_hashes(dir), 3); /* the new copy is too young to be sure */
    free_bytes(&b);
    free_bytes(&other);
    free_bytes(&z);
    free_bytes(&z2);
    remove_tree(dir);
}

static int warnings;
static void count_warning(void *context, ls_level level, const char *message)
{
    (void)context;
    warnings += level == LS_WARN && strstr(message, "LOCKSTEP_CACHE");
}

static void test_unwritable_cache(void **state)
{
    (void)state;
    char *dir = make_folder();
    write_bytes(in(dir, "plainfile"), (bytes){ (uint8_t *)"x", 1 });
    setenv("LOCKSTEP_CACHE", in(dir, "plainfile/cache"), 1); /* also root cannot make a folder there */
    bytes b = make_idx(3, DIMS, NULL), z = make_gzip(b);
    write_bytes(in(dir, "x.gz"), z);
    ls_log_set(count_warning, NULL, LS_WARN);
    for (int i = 0; i < 2; i++) {
        ls_idx_file f;
        assert_ok(ls_idx_open(&f, in(dir, "x.gz"), 3));
        assert_memory_equal(f.idx.data, b.data + 16, 60);
        assert_non_null(f.heap);
        ls_idx_close(&f);
    }
    ls_log_set(NULL, NULL, LS_ERROR);
    assert_int_equal(warnings, 1);
    free_bytes(&b);
    free_bytes(&z);
    remove_tree(dir);
}

static void test_plain_and_missing(void **state)
{
    (void)state;
    char *dir = make_folder();
    bytes b = make_idx(1, (uint32_t[]){ 7 }, NULL);
    write_bytes(in(dir, "labels"), b);
    ls_idx_file f;
    assert_ok(ls_idx_open(&f, in(dir, "labels"), 1));
    assert_int_equal(f.idx.dims[0], 7);
    ls_idx_close(&f);
    assert_fails(LS_E_FORMAT, ls_idx_open(&f, in(dir, "labels"), 3), "labels", "swapped");
    assert_fails(LS_E_IO, ls_idx_open(&f, in(dir, "absent"), 3), "absent", "");
    assert_fails(LS_E_IO, ls_idx_open(&f, dir, 3), dir, "");
    write_bytes(in(dir, "empty"), (bytes){ (uint8_t *)"", 0 });
    assert_fails(LS_E_FORMAT, ls_idx_open(&f, in(dir, "empty"), 3), "empty", "0 bytes");
    assert_false(ls_dir_exists(in(dir, "cache"))); /* plain files leave nothing behind */
    free_bytes(&b);
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_damaged_header),
        cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_damaged_copy),
        cmocka_unit_test(test_known_hash),
        cmocka_unit_test(test_known_copy),
        cmocka_unit_test(test_unwritable_cache),
        cmocka_unit_test(test_plain_and_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

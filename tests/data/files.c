/* files.c - see files.h */
#include "files.h"

#include <ftw.h>
#include <sys/stat.h>
#include <zlib.h>

char *make_folder(void)
{
    char *dir = strdup("/tmp/lockstep-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("LOCKSTEP_CACHE", in(dir, "cache"), 1);
    unsetenv("LOCKSTEP_DATA");
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void remove_tree(char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

const char *in(const char *dir, const char *name)
{
    static char buffer[8][512];
    static int next;
    char *b = buffer[next++ % 8];
    snprintf(b, sizeof buffer[0], "%s/%s", dir, name);
    return b;
}

bytes make_idx(int rank, const uint32_t *dims, const uint8_t *data)
{
    size_t head = 4 + 4 * (size_t)rank, n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    bytes b = { calloc(1, head + n), head + n };
    assert_non_null(b.data);
    b.data[2] = 8;
    b.data[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 4; k++)
            b.data[4 + 4 * i + k] = (uint8_t)(dims[i] >> (24 - 8 * k));
    size_t row = rank == 3 ? (size_t)dims[1] * dims[2] : 1;
    for (size_t i = 0; i < n; i++)
        b.data[head + i] = data ? data[i] : (uint8_t)(i / row + i % row);
    return b;
}

bytes make_gzip(bytes plain)
{
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    bytes out = { NULL, deflateBound(&z, plain.size) };
    assert_non_null(out.data = malloc(out.size));
    z.next_in = plain.data;
    z.avail_in = (uInt)plain.size;
    z.next_out = out.data;
    z.avail_out = (uInt)out.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.size = z.total_out;
    deflateEnd(&z);
    return out;
}

void write_bytes(const char *path, bytes b) { assert_ok(ls_file_write(path, b.data, b.size)); }

void free_bytes(bytes *b)
{
    free(b->data);
    *b = (bytes){ 0 };
}

static void write_one(const char *dir, const char *name, bytes b, bool gzip)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, gzip ? ".gz" : "");
    bytes out = gzip ? make_gzip(b) : b;
    write_bytes(path, out);
    if (gzip)
        free_bytes(&out);
    free_bytes(&b);
}

void write_set(const char *dir, int train, int eval, int h, int w, int classes, bool gzip)
{
    assert_ok(ls_make_dirs(dir));
    int n[2] = { train, eval };
    for (int s = 0; s < 2; s++) {
        uint32_t dims[3] = { (uint32_t)n[s], (uint32_t)h, (uint32_t)w };
        uint8_t *labels = malloc((size_t)n[s]);
        for (int i = 0; i < n[s]; i++)
            labels[i] = (uint8_t)(i % classes);
        write_one(dir, s ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", make_idx(3, dims, NULL),
                  gzip);
        write_one(dir, s ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", make_idx(1, dims, labels),
                  gzip);
        free(labels);
    }
}

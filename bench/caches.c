/* caches.c - the cost of checksums in caches. Opening an inflated IDX file or a file of tokens reads all of
 * it once and compares its checksum.
 *
 *   bench_caches FOLDER [--mb 256] [--rounds 7]
 *
 * Makes 47 MB of images (60,000 of 28 x 28, as gzip) and `mb` MB of tokens in FOLDER, which must be there,
 * and opens each as training does. Prints one JSON line a cache: `bytes` checked, `first_ms` (when it is
 * made), `open_ms` (median of later opens, pages in memory), `gb_per_s`, and `hash_gb_per_s` of the checksum
 * alone over memory that is there already: the rest is page faults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/idx.h"
#include "lockstep/data.h"

enum { IMAGES = 60000, PIXELS = 28 * 28, MOST = 100 };

static char folder[512];
static int rounds = 7;
static double lap; /* seconds of the last open */

static const char *in(const char *name)
{
    static char path[2][1024];
    static int k;
    snprintf(path[k ^= 1], sizeof path[0], "%s/%s", folder, name);
    return path[k];
}

static ls_status write_images(const char *path)
{
    static const uint8_t HEAD[16] = { 0, 0, 8, 3, 0, 0, IMAGES >> 8, IMAGES & 255, 0, 0, 0, 28, 0, 0, 0, 28 };
    uint8_t image[PIXELS];
    gzFile f = gzopen(path, "wb1");
    if (!f)
        return ls_fail(LS_E_IO, "%s: cannot be written", path);
    gzwrite(f, HEAD, sizeof HEAD);
    for (uint32_t i = 0; i < IMAGES; i++) {
        for (uint32_t k = 0; k < PIXELS; k++)
            image[k] = (uint8_t)((i * PIXELS + k) * 2654435761u >> 28);
        gzwrite(f, image, sizeof image);
    }
    return gzclose(f) == Z_OK ? LS_OK : ls_fail(LS_E_IO, "%s: cannot be written", path);
}

/* Two bytes of tokens a byte of text. */
static ls_status write_text(const char *path, int64_t mb)
{
    static char block[1 << 16];
    ls_writer w;
    LS_TRY(ls_writer_open(&w, path));
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = i % 512 == 511 ? '\n' : (char)('a' + i * 2654435761u % 26);
    for (int64_t i = 0; i < mb * 8; i++)
        LS_TRY(ls_writer_put(&w, block, sizeof block));
    return ls_writer_commit(&w);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static ls_status open_images(int64_t *bytes)
{
    ls_idx_file f;
    const double start = ls_now();
    LS_TRY(ls_idx_open(&f, in("images.gz"), 3));
    lap = ls_now() - start;
    *bytes = (int64_t)f.map.size;
    ls_idx_close(&f);
    return LS_OK;
}

/* As the first open of a process: a second one of the same file does not read it again, so that each is
 * preceded by that of another. */
static ls_status open_tokens(int64_t *bytes)
{
    ls_dataset *set;
    const double start = ls_now();
    LS_TRY(ls_text_open(&set, LS_SPLIT_TRAIN, in("text.txt"), "bytes", 512, .documents = LS_DOCUMENTS_LINE));
    lap = ls_now() - start;
    *bytes = 2 * set->n * 512;
    ls_dataset_close(&set);
    LS_TRY(ls_text_open(&set, LS_SPLIT_TRAIN, in("other.txt"), "bytes", 8, .documents = LS_DOCUMENTS_LINE));
    ls_dataset_close(&set);
    return LS_OK;
}

static double hash_rate(int64_t bytes)
{
    char *memory = malloc((size_t)bytes);
    double best = 0;
    if (!memory)
        return 0;
    memset(memory, 7, (size_t)bytes);
    for (int i = 0; i < 3; i++) {
        const double start = ls_now();
        volatile uint64_t sink = ls_hash64(memory, (size_t)bytes);
        (void)sink;
        const double rate = (double)bytes / (ls_now() - start);
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}

static ls_status measure(const char *name, ls_status (*open)(int64_t *bytes))
{
    double seconds[MOST];
    int64_t bytes;
    LS_TRY(open(&bytes));
    const double first = lap;
    sleep(3); /* sources that are older than this are known by their times (data/source_hash.h) */
    LS_TRY(open(&bytes));
    for (int i = 0; i < rounds; i++) {
        LS_TRY(open(&bytes));
        seconds[i] = lap;
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_value);
    const double median = seconds[rounds / 2];
    printf("{\"cache\":\"%s\",\"bytes\":%lld,\"first_ms\":%.1f,\"open_ms\":%.2f,\"gb_per_s\":%.2f,\"hash_gb_"
           "per_s\":%.2f}\n",
           name, (long long)bytes, 1e3 * first, 1e3 * median, 1e-9 * (double)bytes / median,
           1e-9 * hash_rate(bytes));
    fflush(stdout);
    return LS_OK;
}

static ls_status run(int64_t mb)
{
    LS_TRY(write_images(in("images.gz")));
    LS_TRY(measure("inflated", open_images));
    LS_TRY(write_text(in("text.txt"), mb));
    LS_TRY(ls_file_write(in("other.txt"), "abcdefgh\nabcdefgh\n", 18));
    return measure("tokens", open_tokens);
}

int main(int argc, char **argv)
{
    int64_t mb = 256;
    for (int i = 2; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--mb"))
            mb = atoll(argv[i + 1]);
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[i + 1]);
    if (argc < 2 || argc % 2 || mb < 1 || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "bench_caches FOLDER [--mb 256] [--rounds 7]\n");
        return 2;
    }
    snprintf(folder, sizeof folder, "%s/bench-caches-%d", argv[1], (int)getpid());
    setenv("LOCKSTEP_CACHE", in("cache"), 1);
    ls_status s = ls_make_dirs(folder);
    if (s == LS_OK)
        s = run(mb);
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) || s != LS_OK;
}

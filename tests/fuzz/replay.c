/* replay.c - a main for fuzz targets without a fuzzer: every file of the corpus folder, and of each small one
 * all truncations and three changes of every single byte. Each input is a fresh heap block of its very size,
 * so that a sanitizer sees a read beyond it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long runs;

static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void run_mutations(uint8_t *data, size_t size)
{
    static const uint8_t CHANGES[] = { 0x01, 0x10, 0xff };
    for (size_t n = 0; n < size; n++)
        run(data, n);
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < sizeof CHANGES; k++) {
            data[i] ^= CHANGES[k];
            run(data, size);
            data[i] ^= CHANGES[k];
        }
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "";
    DIR *d = opendir(folder);
    if (!d) {
        fprintf(stderr, "%s: no such corpus folder\n", folder);
        return 2;
    }
    int files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        static uint8_t data[1 << 20];
        FILE *f = fopen(path, "rb");
        if (!f) {
            fprintf(stderr, "%s: cannot open\n", path);
            return 2;
        }
        size_t size = fread(data, 1, sizeof data, f);
        fclose(f);
        run(data, size);
        if (size <= 1024)
            run_mutations(data, size);
        files++;
    }
    closedir(d);
    printf("%ld inputs from %d files\n", runs, files);
    return files > 0 ? 0 : 2;
}

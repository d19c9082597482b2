/* images.c - how fast pictures in files become samples: JPEG decoding, cutting and resizing, in threads of a
 * loader. bench/images.py runs it in pairs with torchvision's DataLoader.
 *
 *     bench_images FOLDER SPLIT SIZE THREADS SECONDS     prints pictures a second
 *     bench_images FOLDER SPLIT SIZE --dump FILE         writes the samples, u8 [n, 3, SIZE, SIZE] */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "data/image_set.h"
#include "lockstep/data.h"

typedef struct work {
    const ls_dataset *set;
    int size;
    double end;
    atomic_llong done;
} work;

static void fail(void)
{
    fprintf(stderr, "bench_images: %s\n", ls_error_message());
    exit(1);
}

static void *run(void *context)
{
    work *w = context;
    uint8_t *pixels = malloc((size_t)(3 * w->size * w->size));
    while (ls_now() < w->end) {
        const int64_t k = atomic_fetch_add(&w->done, 1), i = k % w->set->n;
        void *to[2] = { pixels, NULL };
        if ((w->set->read_drawn ? w->set->read_drawn(w->set, i, (uint64_t)k * 0x9e3779b97f4a7c15, to)
                                : w->set->read(w->set, i, to)) != LS_OK)
            fail();
    }
    free(pixels);
    return NULL;
}

static int dump(const ls_dataset *set, int size, const char *path)
{
    const size_t bytes = (size_t)(3 * size * size);
    uint8_t *pixels = malloc(bytes);
    FILE *f = fopen(path, "wb");
    for (int64_t i = 0; f && i < set->n; i++) {
        if (set->read(set, i, (void *[2]){ pixels, NULL }) != LS_OK)
            fail();
        fwrite(pixels, 1, bytes, f);
    }
    free(pixels);
    return !f || fclose(f);
}

int main(int argc, char **argv)
{
    enum { MOST = 64 };
    if (argc != 6) {
        fprintf(stderr, "usage: bench_images FOLDER SPLIT SIZE THREADS SECONDS | --dump FILE\n");
        return 2;
    }
    work w = { .size = atoi(argv[3]) };
    ls_dataset *set;
    if (ls_images_open(&set, strcmp(argv[2], "train") ? LS_SPLIT_EVAL : LS_SPLIT_TRAIN, 3, w.size,
                       .path = argv[1]) != LS_OK)
        fail();
    w.set = set;
    const ls_augment a = {
        .crop = LS_CROP_RESIZED, .scale = { 0.08, 1 }, .ratio = { 3.0 / 4, 4.0 / 3 }, .flip = 0.5
    };
    if (set->split == LS_SPLIT_TRAIN)
        ls_images_augment(set, &a); /* RandomResizedCrop and RandomHorizontalFlip */
    if (!strcmp(argv[4], "--dump"))
        return dump(set, w.size, argv[5]);
    const int threads = atoi(argv[4]) < MOST ? atoi(argv[4]) : MOST;
    const double start = ls_now();
    pthread_t thread[MOST];
    w.end = start + atof(argv[5]);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run, &w);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("%.1f\n", (double)atomic_load(&w.done) / (ls_now() - start));
    ls_dataset_close(&set);
    return 0;
}

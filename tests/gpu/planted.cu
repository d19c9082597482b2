/* planted.cu - kernels with one mistake each, and their correct forms, for test_emulator.c. The comment names
 * the line that a report must name. */
#include "dialect.h"

struct planted_args {
    gpu_address x, y;
    int n;
};
struct planted_shared {
    float a[2][64];
};

/* y[i] = x[n - 1 - i], by way of shared memory */
#ifdef MISTAKE
#define BARRIER_UNLESS_MISTAKE() ((void)0)
enum { NEWEST = 1, OWN_COLUMN = 0, ONE_MORE = 1 };
#else
#define BARRIER_UNLESS_MISTAKE() BARRIER()
enum { NEWEST = 0, OWN_COLUMN = 1, ONE_MORE = 0 };
#endif

KERNEL_SHARED(mirror, struct planted_args, 64, struct planted_shared)
{
    s->a[0][THREAD] = AT(const float, a.x)[BLOCK * 64 + THREAD];
    BARRIER_UNLESS_MISTAKE();
    AT(float, a.y)[BLOCK * 64 + THREAD] = s->a[0][63 - THREAD]; /* line: mirror */
}

/* the sum of two rows: each thread has a column */
KERNEL(columns, struct planted_args, 64)
{
    float *y = AT(float, a.y) + BLOCK * 64;
    for (int row = 0; row < 2; row++) {
        const int column = OWN_COLUMN ? THREAD : (THREAD + 33 * row) % 64;
        const float before = row ? y[column] : 0;
        y[column] = before + AT(const float, a.x)[BLOCK * 64 + column]; /* line: columns */
    }
}

/* two groups of copies; the second half is read too */
KERNEL_SHARED(groups, struct planted_args, 64, struct planted_shared)
{
    for (int half = 0; half < 2; half++) {
        if (THREAD < 16)
            COPY_16(&s->a[half][4 * THREAD], AT(const float, a.x) + BLOCK * 64 + 4 * THREAD);
        COPY_COMMIT();
    }
    COPY_WAIT(NEWEST);
    BARRIER();
    const float first = s->a[0][THREAD], second = s->a[1][63 - THREAD]; /* line: groups */
    AT(float, a.y)[BLOCK * 64 + THREAD] = first + second;
}

KERNEL(beyond, struct planted_args, 64)
{
    const i64 i = BLOCK * 64 + THREAD;
    if (i < a.n + ONE_MORE)
        AT(float, a.y)[i] = 1; /* line: beyond */
}

KERNEL_SHARED(beyond_shared, struct planted_args, 64, struct planted_shared)
{
    s->a[1][THREAD + ONE_MORE] = (float)THREAD; /* line: beyond_shared */
    BARRIER();
    AT(float, a.y)[BLOCK * 64 + THREAD] = s->a[1][THREAD];
}

KERNEL(parting, struct planted_args, 64)
{
    if (ONE_MORE && THREAD >= 40)
        BARRIER(); /* line: parting */
    else
        BARRIER(); /* line: other */
    AT(float, a.y)[BLOCK * 64 + THREAD] = 1;
}

KERNEL(lonely, struct planted_args, 64)
{
    float v = (float)THREAD;
    if (!ONE_MORE || THREAD != 7)
        v = WARP_XOR(v, 1); /* line: lonely */
    AT(float, a.y)[BLOCK * 64 + THREAD] = v;
}

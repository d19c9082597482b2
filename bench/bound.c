/* bound.c - how fast the processor multiplies and adds at this moment: what steps are compared with.
 *
 *   bench_bound
 *
 * Answers every line "THREADS f32|bf16" of stdin with a line of JSON, {"gflops": RATE}: the best of five
 * bursts of 5 to 20 ms on that number of threads. bench/run.py asks between the programs that it measures. */
#include <stdio.h>
#include <string.h>

#include "plan/burst.h"

int main(void)
{
    char type[8];
    int threads;
    puts("{\"ready\": true}");
    fflush(stdout);
    while (scanf("%d %7s", &threads, type) == 2) {
        const double rate = ls_burst(ls_isa_best(), strcmp(type, "bf16") ? LS_F32 : LS_BF16, threads, 5);
        printf("{\"gflops\": %.1f, \"isa\": \"%s\"}\n", 1e-9 * rate, ls_isa_name(ls_isa_best()));
        fflush(stdout);
    }
    return 0;
}

/* bound.c - how fast the processor multiplies and adds at this moment: what steps are compared with.
 *
 *   bench_bound
 *
 * Answers every line "THREADS f32|bf16" of stdin with a line of JSON, {"gflops": BEST, "mean": MEAN}: the
 * best and the mean rate of a hundred bursts of some milliseconds on that number of threads. The mean is
 * lower where others share the cores, also where neither load nor steal shows them (other machines on the
 * cores' second threads). bench/run.py asks between the programs that it measures. */
#include <stdio.h>
#include <string.h>

#include "device/cpu/peak_rate.h"
#include "device/cpu/isa.h"

enum {
    BURSTS = 100,
    FIRST = 10 /* not in the mean: threads wake, and those of the program before still spin */
};

int main(void)
{
    char type[8];
    int threads;
    puts("{\"ready\": true}");
    fflush(stdout);
    while (scanf("%d %7s", &threads, type) == 2) {
        double best = 0, sum = 0;
        for (int i = 0; i < BURSTS; i++) {
            const double rate = ls_cpu_peak_rate(ls_isa_arch(ls_isa_best()),
                                                 strcmp(type, "bf16") ? LS_F32 : LS_BF16, threads, 1);
            best = rate > best ? rate : best;
            sum += i < FIRST ? 0 : rate;
        }
        printf("{\"gflops\": %.1f, \"mean\": %.1f, \"isa\": \"%s\"}\n", 1e-9 * best,
               1e-9 * sum / (BURSTS - FIRST), ls_isa_name(ls_isa_best()));
        fflush(stdout);
    }
    return 0;
}

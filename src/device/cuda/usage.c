/* usage.c - what a kernel needs of a multiprocessor, read from the compiler's log:
 *
 *   ptxas info    : Compiling entry function 'sum' for 'sm_80'
 *   ptxas info    : Function properties for sum
 *       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *   ptxas info    : Used 18 registers, used 1 barriers, 372 bytes cmem[0] */
#include <stdio.h>
#include <string.h>

#include "cuda_own.h"

int ls_cuda_usage_of(ls_cuda_usage *out, int most, const char *log)
{
    int n = 0;
    ls_cuda_usage *now = NULL;
    while (*log) {
        const size_t length = strcspn(log, "\n");
        char line[512], *found;
        snprintf(line, sizeof line, "%.*s", (int)length, log);
        if ((found = strstr(line, "entry function '")) && n < most) {
            now = &out[n++];
            *now = (ls_cuda_usage){ 0 };
            snprintf(now->kernel, sizeof now->kernel, "%.*s", (int)strcspn(found + 16, "'"), found + 16);
        } else if (now && (found = strstr(line, "stack frame,"))) {
            int stores = 0, loads = 0;
            if (sscanf(found, "stack frame, %d bytes spill stores, %d", &stores, &loads) == 2)
                now->spills = stores + loads;
            sscanf(line, "%d", &now->stack);
        } else if (now && (found = strstr(line, "Used "))) {
            sscanf(found, "Used %d", &now->registers);
        }
        log += length + (log[length] == '\n');
    }
    return n;
}

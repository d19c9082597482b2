/* archs.c - the GPUs that kernels are compiled for. sm_80 is the first with products of bf16 and with copies
 * to shared memory beside the work (cp.async), which the kernels need. */
#include "cuda_own.h"

const ls_arch ls_cuda_archs[] = {
    { "sm_80", 80 },   /* A100 */
    { "sm_86", 86 },   /* A10, A40, RTX 30 */
    { "sm_89", 89 },   /* L4, L40, RTX 40 */
    { "sm_90", 90 },   /* H100, H200 */
    { "sm_100", 100 }, /* B200 */
    { "sm_103", 103 }, /* B300 */
    { "sm_120", 120 }, /* RTX 50, RTX PRO 6000 */
    { NULL, 0 },
};

/* Code for sm_86 runs on sm_87, but not on sm_90. */
const ls_arch *ls_cuda_arch_of(int capability)
{
    const ls_arch *found = NULL;
    for (const ls_arch *a = ls_cuda_archs; a->name; a++)
        if (a->level / 10 == capability / 10 && a->level <= capability)
            found = a;
    return found;
}

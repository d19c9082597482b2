/* The compiler of device cuda, with NVIDIA's library where it is installed: a kernel in the dialect becomes
 * code for every arch, and what does not compile is said with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_own.h"
#include "support/support.h"

static const char TEXT[] = "#include \"dialect.h\"\n"
                           "typedef struct sums { gpu_address x, y; i64 n; } sums;\n"
                           "typedef struct room { float parts[WARP], more[20000]; } room;\n"
                           "KERNEL_SHARED(sum, sums, 256, room)\n"
                           "{\n"
                           "    float v = 0;\n"
                           "    for (i64 i = THREAD; i < a.n; i += THREADS)\n"
                           "        v += LOAD(bf16, AT(const bf16, a.x), i);\n"
                           "    v = block_sum(v, s->parts);\n"
                           "    if (!THREAD)\n"
                           "        STORE(f32, AT(f32, a.y), 0, sqrt_(v) / 3.0f);\n"
                           "}\n";

static void need_compiler(void)
{
    const ls_cuda_compiler *c;
    if (ls_cuda_compiler_open(&c) != LS_OK)
        ls_test_skip("%s", ls_error_message());
}

typedef struct usage {
    char kernel[128];
    int registers, stack, spills; /* of a thread; the others in bytes */
} usage;

/* What a kernel needs of a multiprocessor, read from the compiler's log. Returns the number of kernels, at
 * most `most`.
 *
 *   ptxas info    : Compiling entry function 'sum' for 'sm_80'
 *   ptxas info    : Function properties for sum
 *       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *   ptxas info    : Used 18 registers, used 1 barriers, 372 bytes cmem[0] */
static int usage_of(usage *out, int most, const char *log)
{
    int n = 0;
    usage *now = NULL;
    while (*log) {
        const size_t length = strcspn(log, "\n");
        char line[512], *found;
        snprintf(line, sizeof line, "%.*s", (int)length, log);
        if ((found = strstr(line, "entry function '")) && n < most) {
            now = &out[n++];
            *now = (usage){ 0 };
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

static void code_for_every_arch(void **state)
{
    (void)state;
    need_compiler();
    for (const ls_arch *a = ls_cuda_archs; a->name; a++) {
        ls_cuda_code c;
        ASSERT_OK(ls_cuda_compile(&c, a, "sum.cu", TEXT));
        assert_true(c.bytes > 1000);
        assert_memory_equal(c.cubin, "\177ELF", 4);
        usage u[4];
        assert_int_equal(usage_of(u, 4, c.log), 1);
        assert_string_equal(u[0].kernel, "sum");
        assert_true(u[0].registers > 8 && u[0].registers < 64);
        assert_int_equal(u[0].spills, 0);
        free(c.cubin);
        free(c.log);
    }
}

static void an_error_names_its_line(void **state)
{
    (void)state;
    ls_cuda_code c;
    need_compiler();
    ASSERT_FAILS(ls_cuda_compile(&c, ls_cuda_archs, "bad.cu", "#line 1 \"bad.cu\"\nint x = ;\n"),
                 LS_E_INTERNAL, "kernels/bad.cu", "sm_80", "bad.cu(1): error");
    assert_null(c.cubin);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(code_for_every_arch),
                                        cmocka_unit_test(an_error_names_its_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

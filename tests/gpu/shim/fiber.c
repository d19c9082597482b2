/* fiber.c - see fiber.h. */
#define _GNU_SOURCE
#include "fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(EMULATOR_ASAN)
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *bytes);
#endif
#if defined(EMULATOR_TSAN)
void *__tsan_create_fiber(unsigned flags);
void *__tsan_get_current_fiber(void);
void __tsan_destroy_fiber(void *f);
void __tsan_switch_to_fiber(void *f, unsigned flags);
enum { NO_ORDER = 1 }; /* a switch orders no memory accesses */
#endif

#if defined(EMULATOR_ASAN) || defined(EMULATOR_TSAN)
enum { STACK = 256 << 10 };
#else
enum { STACK = 64 << 10 };
#endif
enum { PAGE = 4096 };

/* fiber_swap(save, to): registers that a call keeps go onto the stack, whose pointer goes to *save. */
#if defined(__x86_64__)
void fiber_swap(void **save, void *to);
__asm__(".text\n.globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap, @function\nfiber_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size fiber_swap, .-fiber_swap\n");
static void *first_frame(char *top, void (*main)(void))
{
    void **sp = (void **)(void *)top;
    *--sp = NULL; /* main's return address, which also aligns the stack as a call does */
    *--sp = (void *)(uintptr_t)main;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
#elif defined(__aarch64__)
void fiber_swap(void **save, void *to);
__asm__(".text\n.globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap, %function\nfiber_swap:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
        "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n.size fiber_swap, .-fiber_swap\n");
static void *first_frame(char *top, void (*main)(void))
{
    void **sp = (void **)(void *)(top - 160);
    for (int i = 0; i < 20; i++)
        sp[i] = NULL;
    sp[11] = (void *)(uintptr_t)main; /* x30 */
    return sp;
}
#else
#include <ucontext.h>
static void fiber_swap(void **save, void *to)
{
    ucontext_t own;
    *save = &own;
    if (swapcontext(&own, to))
        abort();
}
static void *first_frame(char *top, void (*main)(void))
{
    ucontext_t *c = (ucontext_t *)(void *)(top - (sizeof *c + 63) / 64 * 64);
    getcontext(c);
    c->uc_stack.ss_sp = top - STACK / 2;
    c->uc_stack.ss_size = (size_t)((char *)c - (top - STACK / 2));
    c->uc_link = NULL;
    makecontext(c, main, 0);
    return c;
}
#endif

void fiber_of_thread(fiber *f)
{
    *f = (fiber){ 0 };
#if defined(EMULATOR_TSAN)
    f->tsan = __tsan_get_current_fiber();
#endif
}

void fiber_make(fiber *f, void (*main)(void))
{
    /* Stacks do not begin at the same place of a page, so that they do not share few sets of the cache. */
    static unsigned color;
    char *map = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (map == MAP_FAILED || mprotect(map, PAGE, PROT_NONE)) {
        fprintf(stderr, "emulator: no memory for the stack of a thread\n");
        abort();
    }
    *f = (fiber){ .stack = map + PAGE, .bytes = STACK };
    f->sp = first_frame(map + PAGE + STACK - 64 - __atomic_fetch_add(&color, 1, __ATOMIC_RELAXED) % 60 * 192,
                        main);
#if defined(EMULATOR_TSAN)
    f->tsan = __tsan_create_fiber(0);
#endif
}

void fiber_free(fiber *f)
{
#if defined(EMULATOR_TSAN)
    __tsan_destroy_fiber(f->tsan);
#endif
    munmap(f->stack - PAGE, STACK + PAGE);
}

#if defined(EMULATOR_ASAN)
static _Thread_local fiber *came_from;
#endif

void fiber_switch(fiber *from, fiber *to)
{
#if defined(EMULATOR_TSAN)
    __tsan_switch_to_fiber(to->tsan, NO_ORDER);
#endif
#if defined(EMULATOR_ASAN)
    came_from = from;
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
#endif
    fiber_swap(&from->sp, to->sp);
#if defined(EMULATOR_ASAN)
    fiber_begun(from);
#endif
}

void fiber_begun(fiber *own)
{
#if defined(EMULATOR_ASAN)
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(own->fake, &bottom, &bytes);
    if (came_from && !came_from->stack) { /* the thread's own stack is known from here on */
        came_from->stack = (char *)(uintptr_t)bottom;
        came_from->bytes = bytes;
    }
#else
    (void)own;
#endif
}

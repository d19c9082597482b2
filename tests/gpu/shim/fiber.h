/* fiber.h - stacks that one thread of the host switches among. The file that uses it is compiled without
 * -fsanitize, in every build; EMULATOR_ASAN and EMULATOR_TSAN say that the kernels are compiled with it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct fiber {
    void *sp;
    char *stack; /* lowest address; NULL: of the thread itself */
    size_t bytes;
    void *fake; /* AddressSanitizer's */
    void *tsan; /* ThreadSanitizer's */
    struct fiber *next;
} fiber;

/* Describes the calling thread, which switches away and is switched back to. */
void fiber_of_thread(fiber *f);
/* A stack that will run `main`, which never returns. Ends the process if there is no memory. */
void fiber_make(fiber *f, void (*main)(void));
void fiber_free(fiber *f);
/* Runs `to` until something switches back to `from`. */
void fiber_switch(fiber *from, fiber *to);
/* The first call of a fiber's main. */
void fiber_begun(fiber *from);

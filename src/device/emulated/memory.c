/* memory.c - memory of the device: the host's, under addresses that the host cannot read. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/str.h"
#include "base/sys.h"
#include "emulated_own.h"

size_t ls_emulated_memory(const ls_device *d)
{
    ls_emulation e;
    (void)d;
    return ls_emulation_read(&e) == LS_OK ? (size_t)e.memory : 0;
}

static ls_status map(void **out, size_t bytes)
{
    char text[32];
    *out = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out != MAP_FAILED)
        return LS_OK;
    *out = NULL;
    return ls_fail(LS_E_MEMORY, "the system refuses %s", ls_format_bytes(text, bytes));
}

ls_status ls_emulated_room(void **out, const ls_device *d, size_t bytes)
{
    char a[32], b[32];
    *out = NULL;
    if (bytes > ls_emulated_memory(d))
        return ls_fail(LS_E_MEMORY, "device emulated refuses %s: it has %s (LOCKSTEP_EMULATED, memory=)",
                       ls_format_bytes(a, bytes), ls_format_bytes(b, ls_emulated_memory(d)));
    LS_TRY(map(out, bytes));
    *out = ls_emulated_tag(*out);
    return LS_OK;
}

void ls_emulated_release(void *room, size_t bytes) { munmap(ls_emulated_host(room), bytes); }

ls_status ls_emulated_pinned(void **out, const ls_device *d, size_t bytes)
{
    (void)d;
    return map(out, bytes);
}

void ls_emulated_unpin(void *pinned, size_t bytes) { munmap(pinned, bytes); }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before; /* what a fault did before this device was opened */

/* x86-64 does not say at which address it faulted if the address is none of a program's. */
static void explain(int signal, siginfo_t *info, void *context)
{
    const bool device = info->si_code == SI_KERNEL || ((uintptr_t)info->si_addr & LS_EMULATED_TAG);
    (void)context;
    if (device)
        ls_print_stack("the host read or wrote at a device address, by these calls (addr2line -e FILE OFFSET "
                       "gives the line of one)");
    /* the access repeats */
    sigaction(signal, device ? &(struct sigaction){ .sa_handler = SIG_DFL } : &before, NULL);
    if (info->si_code <= 0) /* another process sent it: nothing repeats */
        raise(signal);
}

void ls_emulated_explain_faults(void)
{
    struct sigaction now;
    pthread_mutex_lock(&lock);
    sigaction(SIGSEGV, NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != explain) {
        before = now;
        ls_print_stack(NULL); /* loads what it needs, which a handler may not */
        sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = explain, .sa_flags = SA_SIGINFO }, NULL);
    }
    pthread_mutex_unlock(&lock);
}

/* code_hash.c - see code_hash.h. */
#include "code_hash.h"

#include <link.h>
#include <stdbool.h>

#include "hash.h"

typedef struct code {
    uintptr_t here;
    uint64_t hash;
} code;

static int hash_object(struct dl_phdr_info *o, size_t size, void *context)
{
    (void)size;
    code *c = context;
    bool mine = false;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < o->dlpi_phnum; i++) {
            const ElfW(Phdr) *h = &o->dlpi_phdr[i];
            const uintptr_t at = o->dlpi_addr + h->p_vaddr;
            if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
                continue;
            mine = mine || (c->here >= at && c->here < at + h->p_memsz);
            if (pass && mine)
                c->hash = ls_hash64_more(c->hash, (const void *)at, h->p_filesz);
        }
    return mine;
}

uint64_t ls_code_hash(const void *here)
{
    code c = { .here = here ? (uintptr_t)here : (uintptr_t)&ls_code_hash };
    dl_iterate_phdr(hash_object, &c);
    return c.hash;
}

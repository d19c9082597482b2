/* survey.c - compiles kernels to see what they need, also for GPUs that this machine does not have: rows put
 * their launches into a queue that only notes them. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/thread_pool.h"
#include "cuda_own.h"

/* A symbol's value in code, which is an ELF file; NULL: it has none, or fewer bytes. */
static const void *value_of(const ls_cuda_code *c, const char *symbol, size_t bytes)
{
    Elf64_Ehdr head;
    if (c->bytes < sizeof head)
        return NULL;
    memcpy(&head, c->cubin, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_shoff > c->bytes ||
        (c->bytes - head.e_shoff) / sizeof(Elf64_Shdr) < head.e_shnum)
        return NULL;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(c->cubin + head.e_shoff);
    for (int i = 0; i < head.e_shnum; i++) {
        const Elf64_Shdr *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= head.e_shnum)
            continue;
        const Elf64_Sym *list = (const Elf64_Sym *)(const void *)(c->cubin + table->sh_offset);
        const char *names = c->cubin + sections[table->sh_link].sh_offset;
        for (size_t k = 0; k < table->sh_size / sizeof *list; k++) {
            const Elf64_Sym *s = &list[k];
            if (s->st_shndx < head.e_shnum && !strcmp(names + s->st_name, symbol) && s->st_size >= bytes)
                return c->cubin + sections[s->st_shndx].sh_offset + s->st_value;
        }
    }
    return NULL;
}

bool ls_cuda_facts_of(uint32_t facts[2], const ls_cuda_code *c, const char *kernel)
{
    char name[160];
    snprintf(name, sizeof name, "%s_facts", kernel);
    const void *found = value_of(c, name, 2 * sizeof *facts);
    if (found)
        memcpy(facts, found, 2 * sizeof *facts);
    return found != NULL;
}

/* The most that a block may have: NVIDIA's table of compute capabilities. */
static int shared_most(const ls_arch *arch)
{
    return arch->level == 80 ? 163 << 10 : arch->level >= 90 && arch->level < 120 ? 227 << 10 : 99 << 10;
}

typedef struct one {
    const char *file, *before;
    ls_cuda_code code;
    ls_status status;
    char message[1024];
} one;

typedef struct work {
    const ls_arch *arch;
    one *list;
} work;

static void compile(void *context, int64_t begin, int64_t end, int worker)
{
    const work *w = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        one *o = &w->list[i];
        char *text = NULL;
        o->status = ls_cuda_whole_text(&text, o->file, o->before);
        if (o->status == LS_OK)
            o->status = ls_cuda_compile(&o->code, w->arch, o->file, text);
        if (o->status != LS_OK)
            snprintf(o->message, sizeof o->message, "%s", ls_error_message());
        free(text);
    }
}

enum { IN_FILE = 64 };

/* All kernels of the code; those that no call needs, too. */
static void say_all(const one *o, const ls_arch *arch, ls_kernel_say say, void *context)
{
    ls_cuda_usage used[IN_FILE];
    const int n = o->status == LS_OK ? ls_cuda_usage_of(used, IN_FILE, o->code.log) : 0;
    ls_kernel_usage u = { .file = o->file, .before = o->before, .shared_most = shared_most(arch) };
    if (o->status != LS_OK) {
        u.kernel = "";
        u.failed = o->message;
        say(context, &u);
    }
    for (int i = 0; i < n; i++) {
        uint32_t facts[2] = { 0, 0 };
        ls_cuda_facts_of(facts, &o->code, used[i].kernel);
        u.kernel = used[i].kernel;
        u.registers = used[i].registers;
        u.spills = used[i].spills;
        u.stack = used[i].stack;
        u.threads = (int)facts[0];
        u.shared = (int)facts[1];
        say(context, &u);
    }
}

ls_status ls_cuda_survey(const ls_arch *arch, ls_kernel_say say, void *context)
{
    const ls_cuda_compiler *c;
    const ls_cuda_module_name *names;
    int n;
    LS_TRY(ls_cuda_compiler_open(&c));
    LS_TRY(ls_cuda_modules(&names, &n));
    work w = { arch, ls_sys_calloc((size_t)n + 1, sizeof *w.list) };
    ls_status s = ls_sys_have(w.list);
    for (int i = 0; i < n && s == LS_OK; i++)
        w.list[i] = (one){ .file = names[i].file, .before = names[i].before };
    free((void *)names);
    if (s == LS_OK)
        ls_parallel_for(ls_cpu_count(), n, compile, &w);
    for (int i = 0; i < n && s == LS_OK; i++) {
        say_all(&w.list[i], arch, say, context);
        free(w.list[i].code.cubin);
        free(w.list[i].code.log);
    }
    free(w.list);
    return s;
}

/* compile_all.c - compiles texts of kernels with NVIDIA's own compiler for every architecture, and says what
 * each kernel needs. No GPU and no driver is needed, only NVRTC (pip install nvidia-cuda-nvrtc).
 *
 *   gpu_compile_all FOLDER SPILLS [--all] [--keep] [ARCH ...]
 *
 * --all: each text for each architecture. Without it only the first text of a file is; of its others, which
 * differ in types and sizes, every third one is compiled for one architecture, in turn.
 * --keep: puts the code into the cache of kernels, so that the op suite, which compiles one text after the
 * other, finds it there.
 * ARCH: sm_90, or `here`: that of this machine's GPU, which needs its driver.
 *
 * Where a text has a file of kernels in it, the file as it is now (LOCKSTEP_KERNELS) takes its place.
 *
 * FOLDER: texts that a run with LOCKSTEP_KERNEL_DUMP=FOLDER wrote. SPILLS: a file that names, one a line, the
 * kernels that may spill registers. Fails where a text does not compile, another kernel spills, or a block
 * needs more shared memory than the architecture has. Exit status 77: there is no NVRTC. */
#include <elf.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "device/cuda/cuda_own.h"

static const char *const DEFAULT_ARCHS[] = { "sm_80", "sm_90", "sm_100", "sm_120", NULL };

typedef struct job {
    const char *path, *file; /* FOLDER/HASH-FILE, FILE */
    const ls_arch *arch;
    bool keep;
    ls_cuda_code code;
    ls_status status;
    double seconds;
    char message[1024];
} job;

/* The most bytes of shared memory that a block may have. */
static unsigned shared_most(int level)
{
    return (level == 80 || level == 87 ? 163u : level / 10 == 8 || level / 10 == 12 ? 99u : 227u) << 10;
}

/* The text, with its file of kernels as that is now. */
static ls_status read_text(char **out, const job *j)
{
    char *old = NULL, *mark = ls_sys_text("\n#line 1 \"%s\"\n", j->file);
    size_t size;
    ls_status s = ls_sys_have(mark);
    if (s == LS_OK)
        s = ls_file_read(&old, &size, j->path);
    char *at = s == LS_OK ? strstr(old, mark) : NULL;
    free(mark);
    if (!at) {
        *out = old;
        return s;
    }
    *at = 0;
    s = ls_cuda_whole_text(out, j->file, old);
    free(old);
    return s;
}

static ls_status compile_one(job *j)
{
    char *text = NULL;
    ls_cuda_key key;
    ls_status s = read_text(&text, j);
    if (s == LS_OK)
        s = ls_cuda_compile(&j->code, j->arch, j->file, text);
    if (s == LS_OK && j->keep && (s = ls_cuda_key_of(&key, j->arch, text)) == LS_OK)
        ls_cuda_cache_keep(&j->code, key);
    free(text);
    return s;
}

static void compile(void *context, int64_t begin, int64_t end, int worker)
{
    job *jobs = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        job *j = &jobs[i];
        const double start = ls_now();
        j->status = compile_one(j);
        if (j->status != LS_OK)
            snprintf(j->message, sizeof j->message, "%s", ls_error_message());
        j->seconds = ls_now() - start;
    }
}

/* Threads and bytes of shared memory of a kernel: NAME_facts in its code, an ELF file. */
static bool read_facts(const ls_cuda_code *c, const char *kernel, uint32_t facts[2])
{
    const char *file = c->cubin;
    const Elf64_Ehdr *head = (const void *)file;
    char wanted[200];
    snprintf(wanted, sizeof wanted, "%s_facts", kernel);
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *sections = (const void *)(file + head->e_shoff), *s = &sections[i];
        if (s->sh_type != SHT_SYMTAB)
            continue;
        const char *names = file + sections[s->sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(file + s->sh_offset);
        for (size_t k = 0; k < s->sh_size / sizeof *symbols; k++)
            if (!strcmp(names + symbols[k].st_name, wanted) && symbols[k].st_shndx < head->e_shnum) {
                memcpy(facts, file + sections[symbols[k].st_shndx].sh_offset + symbols[k].st_value, 8);
                return true;
            }
    }
    return false;
}

/* Whether a line of the list is this name. */
static bool listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)); p++)
        if ((p == list || p[-1] == '\n') && (p[n] == '\n' || p[n] == ' ' || !p[n]))
            return true;
    return false;
}

typedef struct totals {
    int kernels, registers, spilled, bad;
    unsigned shared;
} totals;

/* A kernel in the compiler's log: `line` says which one. */
static void look_at_kernel(totals *t, const job *j, const char *line, const char *may_spill)
{
    char name[160] = "";
    int registers = 0, spill = 0, loads = 0;
    uint32_t facts[2] = { 0 };
    sscanf(line, "Compiling entry function '%159[^']'", name);
    const char *next = strstr(line + 1, "Compiling entry function"),
               *spills = strstr(line, "bytes stack frame, "), *used = strstr(line, "Used ");
    if (spills && (!next || spills < next))
        sscanf(spills, "bytes stack frame, %d bytes spill stores, %d", &spill, &loads);
    if (used && (!next || used < next))
        sscanf(used, "Used %d registers", &registers);
    const bool known = read_facts(&j->code, name, facts), allowed = listed(may_spill, name);
    const bool large = facts[1] > shared_most(j->arch->level),
               bad = !known || !registers || large || (spill && !allowed);
    char spills_text[64] = "";
    if (spill)
        snprintf(spills_text, sizeof spills_text, "%s %d bytes%s", allowed ? "spills" : "SPILLS", spill,
                 allowed ? " (as listed)" : "");
    printf("%-7s %-28s %3d registers %6u bytes shared %4u threads %s%s%s\n", j->arch->name, name, registers,
           facts[1], facts[0], spills_text, large ? "TOO MUCH SHARED MEMORY" : "", known ? "" : "NO FACTS");
    t->kernels++;
    t->spilled += spill != 0;
    t->bad += bad;
    t->registers = registers > t->registers ? registers : t->registers;
    t->shared = facts[1] > t->shared ? facts[1] : t->shared;
}

static const ls_arch *arch_here(void)
{
    const ls_cuda_gpu *gpu;
    const ls_arch *a = ls_cuda_gpu_of_process(&gpu) == LS_OK ? ls_cuda_arch_of(gpu->capability) : NULL;
    if (a)
        return a;
    fprintf(stderr, "gpu_compile_all: here: %s\n", ls_error_message());
    exit(2);
}

static const ls_arch *arch_named(const char *name)
{
    if (!strcmp(name, "here"))
        return arch_here();
    for (const ls_arch *a = ls_cuda_archs; a->name; a++)
        if (!strcmp(a->name, name))
            return a;
    fprintf(stderr, "gpu_compile_all: there is no architecture %s\n", name);
    exit(2);
}

/* Which of the texts of its file it is: 0 for the first. FOLDER/HASH-FILE */
static int number_in_file(const glob_t *found, size_t i)
{
    int n = 0;
    for (size_t k = 0; k < i; k++)
        n += !strcmp(strrchr(found->gl_pathv[k], '-'), strrchr(found->gl_pathv[i], '-'));
    return n;
}

int main(int argc, char **argv)
{
    const ls_cuda_compiler *c;
    const bool all = argc > 3 && !strcmp(argv[3], "--all"),
               keep = argc > 3 + all && !strcmp(argv[3 + all], "--keep");
    const int options = 3 + all + keep;
    const char *const *names = argc > options ? (const char *const *)argv + options : DEFAULT_ARCHS;
    const ls_arch *archs[16];
    char *may_spill = NULL, *pattern = argc > 2 ? ls_path_join(argv[1], "*.cu") : NULL;
    size_t size;
    glob_t found;
    int n_archs = 0;
    totals t = { 0 };
    if (argc < 3 || glob(pattern, 0, NULL, &found) || ls_file_read(&may_spill, &size, argv[2]) != LS_OK) {
        fprintf(stderr,
                "usage: gpu_compile_all FOLDER SPILLS [--all] [--keep] [ARCH ...]; texts are in FOLDER\n");
        return 2;
    }
    for (; names[n_archs] && n_archs < 16; n_archs++) /* the driver first: it decides which NVRTC fits */
        archs[n_archs] = arch_named(names[n_archs]);
    if (ls_cuda_compiler_open(&c) != LS_OK) {
        printf("skipped: %s\n", ls_error_message());
        return 77;
    }
    int n = 0;
    job *jobs = calloc(found.gl_pathc * (size_t)n_archs, sizeof *jobs);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const int number = number_in_file(&found, i);
        for (int k = 0; k < n_archs; k++)
            if (all || number == 0 || (number % 3 == 0 && number / 3 % n_archs == k))
                jobs[n++] = (job){ .path = found.gl_pathv[i],
                                   .file = strrchr(found.gl_pathv[i], '-') + 1,
                                   .arch = archs[k],
                                   .keep = keep };
    }
    int texts = 0;
    for (int i = 0; i < n; i++)
        texts += i == 0 || jobs[i].path != jobs[i - 1].path;
    const double start = ls_now();
    ls_parallel_for(ls_cpu_count(), n, compile, jobs);
    const double seconds = ls_now() - start;
    for (int i = 0; i < n; i++) {
        const job *j = &jobs[i];
        printf("%s for %s: %.2f s%s%s\n", j->path, j->arch->name, j->seconds, j->status == LS_OK ? "" : ": ",
               j->message);
        t.bad += j->status != LS_OK;
        for (const char *line = j->code.log; line && (line = strstr(line, "Compiling entry function"));
             line++)
            look_at_kernel(&t, j, line, may_spill);
    }
    printf(
        "NVRTC %d.%d: %d of %d texts for %d architectures in %.0f s: %d kernels, at most %d registers and %u "
        "bytes of shared memory, %d spill, %d bad\n",
        c->major, c->minor, texts, (int)found.gl_pathc, n_archs, seconds, t.kernels, t.registers, t.shared,
        t.spilled, t.bad);
    return t.bad || !t.kernels;
}

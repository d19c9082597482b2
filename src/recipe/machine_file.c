/* machine_file.c - see machine_file.h. One table has the keys, their units and members. */
#include "machine_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/field.h"
#include "base/file.h"
#include "base/sys.h"
#include "recipe_fields.h"
#include "yaml_tree.h"

typedef enum kind { TEXT, COUNT, BYTES, RATE, FLOPS, SECONDS, PART, FACTOR } kind;
/* least, most: further than any machine, so that no time becomes infinite */
static const struct {
    const char *unit, *example, *range;
    double least, most;
} UNITS[] = {
    [TEXT] = { .example = "a text" },
    [COUNT] = { "", "8", "a whole number from 1 to 1048576", 1, 1 << 20 },
    [BYTES] = { "B", "80GB or 512GiB", "from 1MB to 1000PB", 1e6, 1e18 },
    [RATE] = { "B/s", "3.35TB/s", "from 1kB/s to 1000PB/s", 1e3, 1e18 },
    [FLOPS] = { "FLOP/s", "989TFLOP/s", "from 1MFLOP/s to 1000PFLOP/s", 1e6, 1e18 },
    [SECONDS] = { "s", "3us", "from 1ps to 1000s", 1e-12, 1e3 },
    [PART] = { "", "0.5", "above 0 and at most 1", 1e-6, 1 },
    [FACTOR] = { "", "1.5", "from 1 to 1000000", 1, 1e6 },
};

typedef struct key {
    const char *name;
    kind kind;
    size_t offset;
    bool needed;
    const char *help;
} key;
#define ROW(member, kind, needed, help)                           \
    {                                                             \
#member, kind, offsetof(ls_machine, member), needed, help \
    }
#define NAMED(name, member, kind, needed, help)                \
    {                                                          \
        name, kind, offsetof(ls_machine, member), needed, help \
    }
static const key KEYS[] = {
    ROW(name, TEXT, true, "what the machine is"),
    ROW(source, TEXT, true, "where the figures are from"),
    ROW(host.ranks, COUNT, true, "ranks that a host runs: its GPUs, or as you start them"),
    ROW(host.cores, COUNT, true, "cores of a host"),
    ROW(host.memory, BYTES, false, "memory of a host"),
    ROW(device.type, TEXT, true, "the recipe's key device: cpu or cuda"),
    ROW(device.isa, TEXT, false, "the recipe's key isa: sm_90, avx512"),
    ROW(device.hardware, TEXT, false, "the processor that `lockstep doctor` measured"),
    NAMED("device.f32", device.flops, FLOPS, true, "peak of f32, of a GPU or of all cores of a host"),
    NAMED("device.bf16", device.narrow, FLOPS, false, "peak of bf16 and f16, with sums in f32"),
    ROW(device.efficiency, PART, true, "the part of the peak that a typical product reaches"),
    ROW(device.bandwidth, RATE, true, "of its memory"),
    ROW(device.memory, BYTES, false, "memory of a GPU"),
    ROW(device.copies, RATE, false, "copies between a GPU and its host, one way"),
    ROW(device.kernel, SECONDS, true, "time of a kernel call that does nothing"),
    ROW(link.latency, SECONDS, false, "time in which ranks of a host meet"),
    ROW(link.bandwidth, RATE, false, "what a rank takes in from the others of its host"),
    ROW(network.nics, COUNT, false, "network adapters of a host"),
    ROW(network.latency, SECONDS, false, "time in which ranks of two hosts meet"),
    ROW(network.bandwidth, RATE, false, "what an adapter takes in"),
    ROW(network.alone, RATE, false, "what one rank takes in while the others of its host are still"),
    ROW(network.message, SECONDS, false, "time of a rank for each message"),
    ROW(network.busy, PART, false, "the part of a core that a communication thread uses"),
};
enum { N_KEYS = sizeof KEYS / sizeof *KEYS };

static const struct {
    const char *name, *text;
} BUNDLED[] = {
#include "machines.inc"
};
enum { N_BUNDLED = sizeof BUNDLED / sizeof *BUNDLED };

const char *ls_machine_bundled(int i, const char **summary)
{
    static _Thread_local char line[160];
    if (i < 0 || i >= N_BUNDLED)
        return NULL;
    const char *text = BUNDLED[i].text;
    snprintf(line, sizeof line, "%.*s", *text == '#' ? (int)strcspn(text + 2, "\n") : 0, text + 2);
    *summary = line;
    return BUNDLED[i].name;
}

/* ---- quantities */

/* "3.35TB/s", "3.35 TB/s": a number, a prefix, the unit. Bytes take Ki, Mi, Gi and Ti too. */
static bool quantity(double *out, const char *text, kind k)
{
    static const struct {
        const char *text;
        double factor;
    } PREFIXES[] = { { "p", 1e-12 },     { "n", 1e-9 },    { "u", 1e-6 },    { "\u00b5", 1e-6 },
                     { "\u03bc", 1e-6 }, { "m", 1e-3 },    { "", 1 },        { "k", 1e3 },
                     { "Ki", 0x1p10 },   { "Mi", 0x1p20 }, { "Gi", 0x1p30 }, { "Ti", 0x1p40 },
                     { "M", 1e6 },       { "G", 1e9 },     { "T", 1e12 },    { "P", 1e15 } };
    char *end;
    double x = ls_strtod(text, &end);
    if (end == text || !isfinite(x))
        return false;
    while (*end == ' ')
        end++;
    const char *unit = UNITS[k].unit;
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        const size_t n = strlen(PREFIXES[i].text);
        const bool binary = n && PREFIXES[i].text[n - 1] == 'i', small = PREFIXES[i].factor < 1;
        if (strncmp(end, PREFIXES[i].text, n) || strcmp(end + n, unit) || (n && !*unit) ||
            (binary && k != BYTES && k != RATE) || (n && small != (k == SECONDS)))
            continue;
        *out = x * PREFIXES[i].factor;
        return true;
    }
    return false;
}

/* Networks are sold in bits: "100Gb/s", "100 Gbit/s", "100Gbps". */
static bool is_in_bits(const char *text)
{
    char *end;
    if (ls_strtod(text, &end) <= 0 || end == text)
        return false;
    end += strspn(end, " ");
    end += *end && strchr("kMGT", *end) ? 1 : 0;
    return !strcmp(end, "b/s") || !strcmp(end, "bit/s") || !strcmp(end, "bps");
}

/* The number with the largest prefix that leaves it at 1 or above. */
static void print_quantity(ls_str *out, double x, kind k)
{
    static const struct {
        const char *text;
        double factor;
    } LARGE[] = { { "T", 1e12 }, { "G", 1e9 }, { "M", 1e6 }, { "", 1 } },
      SMALL[] = { { "", 1 }, { "m", 1e-3 }, { "u", 1e-6 }, { "n", 1e-9 } };
    char text[32];
    int i = 0;
    const bool prefixed = k != COUNT && k != PART;
    if (k == BYTES && fmod(x, 0x1p20) == 0 && fmod(x, 1e6) != 0) {
        const bool large = fmod(x, 0x1p30) == 0;
        ls_str_printf(out, "%.0f%s", x / (large ? 0x1p30 : 0x1p20), large ? "GiB" : "MiB");
        return;
    }
    while (prefixed && i < 3 && x < (k == SECONDS ? SMALL : LARGE)[i].factor)
        i++;
    const double factor = !prefixed ? 1 : (k == SECONDS ? SMALL : LARGE)[i].factor;
    ls_snprintf(text, sizeof text, k == BYTES || k == COUNT ? "%.15g" : "%.4g", x / factor);
    ls_str_printf(out, "%s%s%s", text, !prefixed ? "" : (k == SECONDS ? SMALL : LARGE)[i].text,
                  UNITS[k].unit);
}

/* ---- reading */

typedef struct reader {
    ls_machine *m;
    ls_arena *a;
    const char *file;
    bool given[N_KEYS];
} reader;

static int key_find(const char *name)
{
    for (int i = 0; i < N_KEYS; i++)
        if (!strcmp(KEYS[i].name, name))
            return i;
    return -1;
}

static bool is_section(const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < N_KEYS; i++)
        if (!strncmp(KEYS[i].name, name, n) && KEYS[i].name[n] == '.')
            return true;
    return false;
}

static ls_status unknown(const reader *r, int line, const char *name)
{
    static const char *const OTHERS[] = { "switches", "host", "device", "link", "network" };
    enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };
    const char *names[N_KEYS + N_OTHERS];
    for (int i = 0; i < N_KEYS; i++)
        names[i] = KEYS[i].name;
    memcpy(names + N_KEYS, OTHERS, sizeof OTHERS);
    const char *near = ls_nearest_name(name, names, N_KEYS + N_OTHERS);
    return ls_fail(LS_E_USAGE, "%s:%d: %s: a machine has no such key%s%s%s", r->file, line, name,
                   near ? "; did you mean " : "; docs/plan.md lists them", near ? near : "", near ? "?" : "");
}

static ls_status machine_number(double *out, const reader *r, const ls_yaml *v, const char *name, kind k)
{
    if (v->kind != LS_YAML_SCALAR || !*v->text)
        return ls_fail(LS_E_USAGE, "%s:%d: %s: one value is needed, as in %s", r->file, v->line, name,
                       UNITS[k].example);
    if (k == RATE && is_in_bits(v->text))
        return ls_fail(LS_E_USAGE, "%s:%d: %s: '%s' is in bits: divide it by 8, as 100Gb/s are 12.5GB/s",
                       r->file, v->line, name, v->text);
    const bool read = quantity(out, v->text, k);
    if (!read && *UNITS[k].unit)
        return ls_fail(LS_E_USAGE, "%s:%d: %s: '%s': write it as in %s", r->file, v->line, name, v->text,
                       UNITS[k].example);
    if (!read || *out < UNITS[k].least || *out > UNITS[k].most || (k == COUNT && *out != floor(*out)))
        return ls_fail(LS_E_USAGE, "%s:%d: %s: '%s': it has to be %s", r->file, v->line, name, v->text,
                       UNITS[k].range);
    return LS_OK;
}

static ls_status read_key(reader *r, int i, const ls_yaml *v)
{
    const key *k = &KEYS[i];
    char *at = (char *)r->m + k->offset;
    double x;
    r->given[i] = true;
    if (k->kind == TEXT) {
        bool plain = v->kind == LS_YAML_SCALAR && *v->text;
        for (const char *c = v->text; plain && *c; c++)
            plain = (unsigned char)*c >= ' ' && *c != 0x7f; /* plan prints it */
        if (!plain)
            return ls_fail(LS_E_USAGE, "%s:%d: %s: a text of one line is needed: %s", r->file, v->line,
                           k->name, k->help);
        *(const char **)(void *)at = v->text;
        return LS_OK;
    }
    LS_TRY(machine_number(&x, r, v, k->name, k->kind));
    if (k->kind == COUNT || k->kind == BYTES)
        *(int64_t *)(void *)at = (int64_t)x;
    else
        *(double *)(void *)at = x;
    return LS_OK;
}

/* [{hosts: 32, oversubscription: 1}, {hosts: 256, oversubscription: 2}] */
static ls_status read_switches(reader *r, const ls_yaml *list)
{
    static const char EXAMPLE[] = "[{hosts: 32, oversubscription: 2}]";
    ls_machine *m = r->m;
    if (list->kind != LS_YAML_LIST)
        return ls_fail(LS_E_USAGE, "%s:%d: switches: write a list, as in %s", r->file, list->line, EXAMPLE);
    for (const ls_yaml *c = list->child; c; c = c->next) {
        const ls_yaml *level = ls_yaml_real(c);
        double hosts = 0, over = 0;
        if (level->kind != LS_YAML_MAP)
            return ls_fail(LS_E_USAGE, "%s:%d: switches: a level is a map, as in %s", r->file, c->line,
                           EXAMPLE);
        if (m->n_switches == LS_SWITCH_LEVELS)
            return ls_fail(LS_E_USAGE, "%s:%d: switches: at most %d levels", r->file, c->line,
                           LS_SWITCH_LEVELS);
        for (const ls_yaml *v = level->child; v; v = v->next) {
            const bool first = !strcmp(v->key, "hosts");
            if (!first && strcmp(v->key, "oversubscription"))
                return ls_fail(LS_E_USAGE, "%s:%d: switches: %s: a level is %s", r->file, v->key_line, v->key,
                               EXAMPLE);
            LS_TRY(first ? machine_number(&hosts, r, ls_yaml_real(v), "switches: hosts", COUNT)
                         : machine_number(&over, r, ls_yaml_real(v), "switches: oversubscription", FACTOR));
        }
        const int64_t below = m->n_switches ? m->switches[m->n_switches - 1].hosts : 0;
        if (!(hosts > 0) || !(over > 0))
            return ls_fail(LS_E_USAGE, "%s:%d: switches: a level needs hosts and oversubscription, as in %s",
                           r->file, c->line, EXAMPLE);
        if (hosts <= (double)below)
            return ls_fail(
                LS_E_USAGE,
                "%s:%d: switches: hosts: %.0f: a level has more hosts than the one before, which has "
                "%lld",
                r->file, c->line, hosts, (long long)below);
        m->switches[m->n_switches++] = (ls_switch_level){ (int64_t)hosts, over };
    }
    return LS_OK;
}

static ls_status read_map(reader *r, const ls_yaml *map, const char *section)
{
    for (const ls_yaml *c = map->child; c; c = c->next) {
        const ls_yaml *v = ls_yaml_real(c);
        const char *name = *section ? ls_arena_printf(r->a, "%s.%s", section, c->key) : c->key;
        LS_TRY(ls_arena_status(r->a));
        const int i = key_find(name);
        if (i >= 0)
            LS_TRY(read_key(r, i, v));
        else if (!strcmp(name, "switches"))
            LS_TRY(read_switches(r, v));
        else if (!*section && is_section(name) && v->kind == LS_YAML_MAP)
            LS_TRY(read_map(r, v, name));
        else if (!*section && is_section(name))
            return ls_fail(LS_E_USAGE, "%s:%d: %s: it is a map of keys, as {%s}", r->file, c->key_line, name,
                           !strcmp(name, "host")     ? "ranks: 8, cores: 64"
                           : !strcmp(name, "device") ? "type: cpu, f32: 4TFLOP/s, ..."
                           : !strcmp(name, "link")   ? "latency: 2us, bandwidth: 30GB/s"
                                                     : "nics: 2, latency: 4us, bandwidth: 12.5GB/s");
        else
            return unknown(r, c->key_line, name);
    }
    return LS_OK;
}

/* Of the recipe's key isa: those of GPUs begin with sm_. */
static ls_status check_isa(const reader *r, bool cuda)
{
    const char *isa = r->m->device.isa, *const *word = ls_key_named("isa")->words;
    ls_str can = { 0 };
    bool found = !*isa;
    for (; *word; word++)
        if (strcmp(*word, "auto") && !strncmp(*word, "sm_", 3) == cuda) {
            found = found || !strcmp(*word, isa);
            ls_str_printf(&can, "%s%s", can.len ? ", " : "", *word);
        }
    const ls_status s = found ? LS_OK
                              : ls_fail(LS_E_USAGE, "%s: device.isa: '%s': device %s has %s", r->file, isa,
                                        r->m->device.type, ls_str_text(&can));
    ls_str_release(&can);
    return s;
}

static ls_status check(const reader *r)
{
    const ls_machine *m = r->m;
    for (int i = 0; i < N_KEYS; i++)
        if (KEYS[i].needed && !r->given[i])
            return ls_fail(LS_E_USAGE, "%s: %s is missing: %s", r->file, KEYS[i].name, KEYS[i].help);
    const bool cuda = !strcmp(m->device.type, "cuda");
    if (!cuda && strcmp(m->device.type, "cpu"))
        return ls_fail(LS_E_USAGE, "%s: device.type: '%s': cpu or cuda is needed", r->file, m->device.type);
    LS_TRY(check_isa(r, cuda));
    if (cuda && (!*m->device.isa || !(m->device.copies > 0)))
        return ls_fail(LS_E_USAGE, "%s: a machine with GPUs needs device.isa (sm_90) and device.copies",
                       r->file);
    if (!cuda && (m->device.copies > 0 || m->device.memory > 0))
        return ls_fail(LS_E_USAGE, "%s: device.%s: device cpu works in host memory; leave it out", r->file,
                       m->device.copies > 0 ? "copies" : "memory");
    if ((m->network.nics > 0) != (m->network.bandwidth > 0) ||
        (m->network.nics > 0 && !(m->network.latency > 0)))
        return ls_fail(LS_E_USAGE, "%s: network: nics, bandwidth and latency belong together", r->file);
    const char *of_network = m->network.message > 0 ? "network.message"
                             : m->network.alone > 0 ? "network.alone"
                             : m->network.busy > 0  ? "network.busy"
                             : m->n_switches        ? "switches"
                                                    : NULL;
    if (of_network && !m->network.nics)
        return ls_fail(
            LS_E_USAGE,
            "%s: %s: without network.nics, network.bandwidth and network.latency it changes nothing", r->file,
            of_network);
    if ((m->link.latency > 0) != (m->link.bandwidth > 0))
        return ls_fail(LS_E_USAGE, "%s: link: latency and bandwidth belong together", r->file);
    return LS_OK;
}

static ls_status machine_read(ls_machine *out, ls_arena *a, const char *text, size_t size, const char *file)
{
    *out = (ls_machine){ .device = { .isa = "", .hardware = "" } };
    reader r = { .m = out, .a = a, .file = ls_arena_printf(a, "%s", file) };
    ls_yaml *root;
    LS_TRY(ls_arena_status(a));
    LS_TRY(ls_yaml_parse(&root, a, text, size, r.file));
    if (!root || root->kind != LS_YAML_MAP)
        return ls_fail(LS_E_USAGE, "%s: a machine is a map of keys, as machines/h100.yaml", file);
    LS_TRY(read_map(&r, root, ""));
    return check(&r);
}

ls_status ls_machine_load(ls_machine *out, ls_arena *a, const char *name)
{
    char *text;
    size_t size;
    for (int i = 0; i < N_BUNDLED; i++)
        if (!strcmp(BUNDLED[i].name, name))
            return machine_read(out, a, BUNDLED[i].text, strlen(BUNDLED[i].text), BUNDLED[i].name);
    ls_status s = ls_file_read(&text, &size, name);
    if (s != LS_OK) {
        ls_str all = { 0 };
        for (int i = 0; i < N_BUNDLED; i++)
            ls_str_printf(&all, "%s%s", i ? ", " : "", BUNDLED[i].name);
        s = ls_fail(LS_E_USAGE, "%s; a machine is a file, or one of %s", ls_error_message(),
                    ls_str_text(&all));
        ls_str_release(&all);
        return s;
    }
    s = machine_read(out, a, text, size, name);
    free(text);
    return s;
}

/* ---- printing */

void ls_machine_print(ls_str *out, const ls_machine *m)
{
    char section[16] = "", text[32];
    for (int i = 0; i < N_KEYS; i++) {
        const key *k = &KEYS[i];
        const char *at = (const char *)m + k->offset, *dot = strchr(k->name, '.');
        const char *word = k->kind == TEXT ? *(const char *const *)(const void *)at : "";
        const double x = k->kind == TEXT                        ? 0
                         : k->kind == COUNT || k->kind == BYTES ? (double)*(const int64_t *)(const void *)at
                                                                : *(const double *)(const void *)at;
        if (!(x > 0) && !*word)
            continue;
        const int n = dot ? (int)(dot - k->name) : 0;
        if (n && (strncmp(section, k->name, (size_t)n) || section[n])) {
            snprintf(section, sizeof section, "%.*s", n, k->name);
            ls_str_printf(out, "%s:\n", section);
        }
        ls_str_printf(out, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : k->name);
        if (k->kind == TEXT)
            ls_yaml_print_text(out, word);
        else
            print_quantity(out, x, k->kind);
        ls_str_add(out, "\n");
    }
    for (int i = 0; i < m->n_switches; i++)
        ls_str_printf(out, "%s  - {hosts: %lld, oversubscription: %s}\n", i ? "" : "switches:\n",
                      (long long)m->switches[i].hosts, ls_format_f64(text, m->switches[i].oversubscription));
}

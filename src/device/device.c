/* device.c - opens a device by name, and finds the kernel for an op. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/cpu_limits.h"
#include "base/log.h"
#include "base/str.h"
#include "comm/host_share.h"
#include "device.h"
#include "device/gpu/gpu.h"
#include "device/link.h"

static ls_status check_kernels(const char *word)
{
    if (!word || !strcmp(word, "own") || !strcmp(word, "tf32") || !strcmp(word, "cublaslt"))
        return LS_OK;
    return ls_fail(LS_E_USAGE, "kernels: \"%s\" is not known%s; use own, or tf32 or cublaslt on device cuda",
                   word,
                   strcmp(word, "onednn") ? "" : ": oneDNN was removed, because own kernels are faster");
}

/* A plan of another machine needs no library here. */
static ls_status choose_kernels(const ls_kernel **out, const ls_device_ops *ops, const ls_device_opts *o)
{
    const char *word = o->kernels;
    *out = NULL;
    if (!word || strcmp(word, "own") == 0)
        return LS_OK;
    if (ops != &ls_device_cuda)
        return ls_fail(LS_E_UNSUPPORTED, "kernels: %s needs device cuda, not %s", word, ops->name);
    const bool tf32 = strcmp(word, "tf32") == 0;
    *out = tf32 ? ls_gpu_products_tf32 : ls_kernels_cublaslt;
    return tf32 || (o->elsewhere && o->isa) ? LS_OK : ls_cublaslt_open();
}

/* The device that a name means: NULL is what LOCKSTEP_DEVICE says, else cuda where there is a GPU, else cpu.
 */
static ls_status find_device(const ls_device_ops **out, const char *name, const ls_device_opts *o)
{
    static const ls_device_ops *const all[] = { &ls_device_cpu, &ls_device_cuda, &ls_device_ref,
                                                &ls_device_null, &ls_device_emulated };
    enum { DEVICES = sizeof all / sizeof *all };
    const char *words[DEVICES], *said = getenv("LOCKSTEP_DEVICE"), *who = "device ";
    if (!name && said && *said) {
        name = said;
        who = "LOCKSTEP_DEVICE: device ";
    }
    if (!name)
        name = ls_cuda_takes_auto(o) ? ls_device_cuda.name : ls_device_cpu.name;
    for (int i = 0; i < DEVICES; i++) {
        words[i] = all[i]->name;
        if (!strcmp(name, words[i])) {
            *out = all[i];
            return LS_OK;
        }
    }
    const char *near = ls_nearest_name(name, words, DEVICES);
    return ls_fail(LS_E_UNSUPPORTED,
                   "%s\"%s\" is not known; there are cpu, cuda, ref and, for tests, null and emulated%s%s%s",
                   who, name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

ls_status ls_device_open(ls_device *out, const char *name, const ls_device_opts *o)
{
    const ls_device_ops *ops = NULL;
    LS_TRY(check_kernels(o->kernels));
    LS_TRY(find_device(&ops, name, o));
    if (o->threads < 0)
        return ls_fail(LS_E_ARG, "ls_device_open: %d threads; use 0 for all cores", o->threads);
    ls_device d = { .ops = ops, .threads = o->threads ? o->threads : ls_default_threads(1, NULL) };
    LS_TRY(ops->choose(&d, o->isa, o->elsewhere));
    LS_TRY(choose_kernels(&d.overrides, ops, o));
    *out = d;
    return LS_OK;
}

ls_status ls_device_host(ls_device *out, const ls_device *d, const ls_device_opts *o)
{
    ls_device_opts own = *o;
    if (d->ops == &ls_device_cuda) {
        own.isa = NULL;
        own.kernels = NULL;
    }
    return ls_device_open(out, ls_device_cpu.name, &own);
}

ls_status ls_device_link(ls_device *d)
{
    static _Atomic bool said;
    const ls_link_ops *link = d->ops->link;
    const char *name = NULL;
    d->linked = link && !d->here;
    if (!link || !d->here)
        return LS_OK;
    const ls_status s = link->find(&name, d);
    d->linked = s == LS_OK;
    if (s != LS_OK && s != LS_E_UNSUPPORTED)
        return s;
    if (ls_host_share_get().rank == 0 && !atomic_exchange(&said, true)) {
        if (d->linked)
            ls_log(LS_INFO, "device %s: values travel between ranks by %s", d->ops->name, name);
        else
            ls_log(LS_INFO, "device %s: values travel between ranks through host memory: %s", d->ops->name,
                   ls_error_message());
    }
    return LS_OK;
}

const char *ls_device_bits(const char *name)
{
    return strcmp(name, ls_device_emulated.name) ? name : ls_device_cpu.name;
}

static const ls_kernel *search(const ls_kernel *table, const char *op)
{
    for (; table && table->op; table++)
        if (strcmp(table->op, op) == 0)
            return table;
    return NULL;
}

const ls_kernel *ls_device_find(const ls_device *d, const char *op, const ls_kernel_args *shapes,
                                const char **why)
{
    const ls_kernel *k = search(d->overrides, op);
    for (const ls_kernel *const *t = d->ops->tables(d->arch); t && *t && !k; t++)
        k = search(*t, op);
    const char *reason = !k ? "this device has no kernel for it" : k->supports ? k->supports(shapes) : NULL;
    if (why)
        *why = reason;
    return reason ? NULL : k;
}

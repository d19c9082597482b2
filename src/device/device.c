/* device.c - opens a device by name, and finds the kernel for an op. */
#include <string.h>
#include "base/cpu_limits.h"
#include "base/thread_pool.h"
#include "base/str.h"
#include "device.h"
#ifdef LS_HAVE_ONEDNN
#include "device/cpu/onednn.h"
#endif

static ls_status choose_kernels(const ls_kernel **out, const ls_device_ops *ops, const char *word)
{
    *out = NULL;
    if (!word || strcmp(word, "own") == 0)
        return LS_OK;
    if (strcmp(word, "onednn") != 0)
        return ls_fail(LS_E_USAGE, "kernels: \"%s\" is not known; use own or onednn", word);
    if (ops != &ls_device_cpu)
        return ls_fail(LS_E_UNSUPPORTED, "kernels: onednn needs device cpu, not %s", ops->name);
#ifdef LS_HAVE_ONEDNN
    LS_TRY(ls_onednn_open());
    *out = ls_kernels_onednn;
    ls_parallel_use_openmp(true); /* oneDNN uses OpenMP, so our loops do too: one pool for both */
    return LS_OK;
#else
    return ls_fail(LS_E_UNSUPPORTED,
                   "kernels: this build has no oneDNN: install its headers (Debian: libdnnl-dev) and build "
                   "again, or use own");
#endif
}

ls_status ls_device_open(ls_device *out, const char *name, const ls_device_opts *o)
{
    static const ls_device_ops *const all[] = { &ls_device_cpu, &ls_device_ref, &ls_device_null };
    const char *words[3];
    const ls_device_ops *ops = NULL;
    for (int i = 0; i < 3; i++) {
        words[i] = all[i]->name;
        if (strcmp(name, all[i]->name) == 0)
            ops = all[i];
    }
    if (!ops) {
        const char *near = ls_nearest_name(name, words, 3);
        return ls_fail(LS_E_UNSUPPORTED, "device \"%s\" is not known; there are cpu, ref and null%s%s%s",
                       name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    }
    if (o->threads < 0)
        return ls_fail(LS_E_ARG, "ls_device_open: %d threads; use 0 for all cores", o->threads);
    ls_device d = { .ops = ops, .threads = o->threads ? o->threads : ls_default_threads(1, NULL) };
    LS_TRY(ops->choose(&d, o->isa, o->elsewhere));
    LS_TRY(choose_kernels(&d.overrides, ops, o->kernels));
    *out = d;
    return LS_OK;
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

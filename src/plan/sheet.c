/* sheet.c - a calibration from a device's data sheet, for estimates without a measurement. */
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"
#include "calibration.h"

/* Assumed: products reach half of the peak, memory nine tenths, as good kernels on other GPUs do; caches are
 * twice as fast; a kernel of a CUDA graph costs 3 us. */
ls_status ls_calibration_of_sheet(ls_calibration *out, const ls_device *d)
{
    ls_device host;
    ls_rates r;
    ls_calibration c;
    if (!d->ops->rates)
        return ls_fail(LS_E_UNSUPPORTED, "device %s has no data sheet", d->ops->name);
    ls_calibration_of(&c, d);
    d->ops->rates(&r, d);
    c.flops = r.flops;
    c.narrow_flops = r.narrow_flops;
    c.gemm_efficiency = c.narrow_efficiency = 0.5;
    c.bytes_memory = 0.9 * r.memory;
    c.bytes_cache = 2 * c.bytes_memory;
    c.op_overhead = 3e-6;
    c.cores = d->threads;
    c.to_device = c.to_host = r.copies;
    snprintf(c.source, sizeof c.source, "%s", r.source);
    LS_TRY(ls_calibration_host(&host, d));
    LS_TRY(ls_sys_have(c.host = ls_sys_calloc(1, sizeof *c.host)));
    if (ls_calibration_load(c.host, &host) != LS_OK) {
        free(c.host);
        c.host = NULL;
    }
    *out = c;
    return LS_OK;
}

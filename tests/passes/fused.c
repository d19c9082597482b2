/* fused.c - see fused.h. */
#include "device/cpu/isa.h"
#include "passes/fused.h"
#include <stdio.h>

#include "ops/rules.h"
#include "support/support.h"

ls_value constant_of(parts *c, double v) { return ls_fill(c->g, LS_TYPE(c->t, 6, 32), v); }
void add_output(parts *c, const char *name, ls_value v) { ls_output(c->g, name, v); }

void compare_fused(ls_graph *before, ls_dtype t, const char *name)
{
    ls_graph *after = copy_graph(before);
    ASSERT_OK(ls_pass_fuse(&after));
    ASSERT_OK(ls_pass_dce(&after));
    const char *device;
    int isa;
    for (int k = 0; evaluate_device(k, &device, &isa); k++) {
        if (t == LS_F64 && k)
            break;
        evaluated a = evaluate(before, device, isa, 1, NULL), b = evaluate(after, device, isa, 2, NULL);
        char what[120];
        snprintf(what, sizeof what, "%s, %s, %s %s", name, ls_dtype_name(t), device,
                 k ? ls_isa_name((ls_isa)isa) : "");
        expect_same_bits(&a, &b, what);
        evaluated_release(&a);
        evaluated_release(&b);
    }
    ls_graph_destroy(&after);
}

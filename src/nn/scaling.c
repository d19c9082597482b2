/* scaling.c - fields in units of their deviation. The numbers are buffers of the model, so weights and the
 * units they were trained in stay together. */
#define LS_NO_CALL_SITES
#include "base/argument.h"
#include "graph/graph.h"
#include "lockstep/nn.h"

ls_scaling ls_scaling_of(ls_graph *g, const char *field, int64_t channels)
{
    const ls_value failed = { .id = -1 };
    LS_ARG_OR(g, ((ls_scaling){ failed, failed }));
    LS_BUILD_ARG(g, field, ((ls_scaling){ failed, failed }));
    LS_SCOPE(g, "scaling", "");
    LS_SCOPE(g, field, "Scaling");
    const ls_type type = LS_TYPE(LS_F32, channels);
    return (ls_scaling){ ls_buffer(g, "mean", type, (ls_init){ .kind = LS_INIT_ZERO }),
                         ls_buffer(g, "deviation", type, (ls_init){ .kind = LS_INIT_ONE }) };
}

ls_value(ls_scale)(ls_graph *g, ls_scaling s, ls_value x)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_wide_begin(g);
    const ls_value y = ls_div(g, ls_sub(g, x, s.mean), s.deviation);
    ls_wide_end(g);
    return y;
}

ls_value(ls_unscale)(ls_graph *g, ls_scaling s, ls_value x)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_wide_begin(g);
    const ls_value y = ls_add(g, ls_mul(g, x, s.deviation), s.mean);
    ls_wide_end(g);
    return y;
}

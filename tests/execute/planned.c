/* planned.c - see planned.h. */
#include "execute/planned.h"
#include "interpret.h"
#include "ops/rules.h"
#include "support/support.h"

static ls_device device(const char *name, int threads)
{
    ls_device d;
    ASSERT_OK(ls_device_open(&d, name, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = threads }));
    return d;
}

ls_graph *new_graph(const char *name)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, name));
    return g;
}

ls_plan *plan_of(ls_graph *g, const char *dev, int threads)
{
    ls_plan *p;
    const ls_device d = device(dev, threads);
    ASSERT_OK(ls_graph_finish(g));
    ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
    return p;
}

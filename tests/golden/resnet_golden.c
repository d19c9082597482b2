/* resnet_golden.c - see resnet_golden.h. */
#include "golden/resnet_golden.h"
#include <stdio.h>
#include "passes/autodiff.h"
#include "ops/rules.h"
#include "support/levels.h"
#include "support/support.h"

const ls_resnet_config TUTORIAL = {
    .depth = 18, .image_size = 28, .in_channels = 1, .classes = 10, .mean = 0.5, .std = 0.5
};
ls_weights *resnet_values;

int open_golden(void **state)
{
    (void)state;
    resnet_values = golden_open("resnet");
    return 0;
}

int close_golden(void **state)
{
    (void)state;
    ls_weights_close(&resnet_values);
    return 0;
}

machine start_machine(ls_graph *g, const char *device, int isa, int threads)
{
    machine m = { 0 };
    ls_device d;
    ASSERT_OK(ls_device_open(
        &d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = threads }));
    ASSERT_OK(ls_pass_cse(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_fuse(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_plan_create(&m.plan, g, &d, NULL));
    ASSERT_OK(ls_session_create(&m.session, 1, &m.plan, NULL));
    snprintf(m.what, sizeof m.what, "%s %s, %d threads", device, isa < 0 ? "" : ls_isa_name((ls_isa)isa),
             threads);
    ls_graph_destroy(&g);
    return m;
}

void stop_machine(machine *m)
{
    ls_session_destroy(&m->session);
    ls_plan_destroy(&m->plan);
}

void feed_golden(const machine *m, const char *input, const char *name)
{
    golden_put(m->session, input, golden_get(resnet_values, "%s", name));
}

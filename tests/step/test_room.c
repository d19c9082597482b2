/* test_room.c - a device whose memory is its own: what a step needs of it and of the host, and steps that do
 * not fit. The device is the CPU with another table of memory; nothing runs. */
#include "device/queue.h"
#include "ops/rules.h"
#include "step/images.h"
#include "step/memory.h"

static size_t memory; /* of the device */

static size_t memory_of(const ls_device *d)
{
    (void)d;
    return memory;
}

static const ls_queue_ops QUEUE = { .apart = true, .shared = true, .memory = memory_of };
static ls_device_ops ops;

/* Compiled with copies, as the layout of such a device has it; then the device has memory of its own. */
static void compile(ls_compiled *c, ls_build_fn build, const void *config, int ranks, bool offload)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS,        .threads = 1,     .micro_batch = 2,
                          .micro_batches = 4 * ranks, .ema_decay = 0.9, .stage_saves = true,
                          .elsewhere = true };
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.gather = LS_GATHER_COPY;
    o.parallel.offload = offload ? LS_OFFLOAD_CPU : LS_OFFLOAD_NONE;
    ASSERT_OK(ls_compile(c, build, config, &o, NULL));
    ops = ls_device_cpu;
    ops.name = "own";
    ops.queue = &QUEUE;
    c->device.here = true;
}

static size_t sum(const size_t by_category[LS_CAT_COUNT])
{
    size_t all = 0;
    for (int i = 0; i < LS_CAT_COUNT; i++)
        all += by_category[i];
    return all;
}

static void both_memories_are_counted(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int offload = 0; offload < 2; offload++) {
            ls_compiled c;
            compile(&c, training_build_vit, &VIT, ranks, offload);
            const ls_step_memory one = ls_compiled_memory(&c);
            c.device.ops = &ops;
            c.updater.ops = offload ? &ls_device_cpu : &ops;
            const ls_step_memory m = ls_compiled_memory(&c);
            const ls_footprint *f = &m.plans;
            const size_t spares = m.spares.level_bytes + m.spares.scratch_bytes;
            assert_true(m.apart && !one.apart && m.saves > 0 && m.spares.undo_bytes == 0);
            assert_int_equal(m.spares.scratch_bytes, 4 << 20);
            assert_int_equal(one.total, f->total + spares + m.saves);
            assert_int_equal(one.host, f->host + (offload ? m.spares.level_bytes : 0));
            /* with offload `update` runs on the host, and what it uses is there */
            const size_t scratch = offload ? m.spares.scratch_bytes : 0;
            assert_int_equal(m.device, one.device - m.saves - scratch);
            assert_int_equal(m.host, one.host + m.saves + f->window - f->host_window + scratch);
            assert_int_equal(one.total, one.device + one.host);
            assert_int_equal(m.total, m.device + m.host);
            assert_int_equal(f->window > 0, ranks > 1);
            assert_int_equal(one.by_category[LS_CAT_STAGING] - m.by_category[LS_CAT_STAGING], m.saves);
            /* by category: what is packed, without gaps */
            assert_in_range(m.device - sum(m.by_category), 0, m.device / 10);
            assert_in_range(one.total - sum(one.by_category), 0, one.total / 10);
            ls_compiled_release(&c);
        }
}

/* Running statistics are copied in each step, each once. */
static void copies_of_buffers_are_counted(void **state)
{
    (void)state;
    ls_compiled c;
    compile(&c, training_build_resnet, &training_resnet, 1, false);
    size_t bytes = 0;
    int n = 0;
    const ls_plan *p = c.plans[LS_MICRO];
    for (int i = 0; i < p->graph->n_nodes; i++)
        if (p->graph->nodes[i]->op == &ls_op_buffer) {
            bytes += (ls_type_bytes(ls_type_of(p->graph, p->graph->nodes[i]->out[0])) + 63) / 64 * 64;
            n++;
        }
    assert_true(n > 0 && c.spares.n_undo == n);
    assert_int_equal(c.spares.undo_bytes, bytes);
    assert_int_equal(c.spares.n, c.spares.levels * c.units.trained + n + 1);
    assert_int_equal(c.spares.undo, c.spares.levels * c.units.trained);
    assert_int_equal(c.spares.scratch, c.spares.undo + n);
    for (int k = 0; k < n; k++)
        assert_true(ls_type_equal(&c.spares.types[c.spares.undo + k],
                                  ls_type_of(p->graph, c.spares.changed[k]->out[0])));
    ls_compiled_release(&c);
}

static void a_step_must_fit(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_compiled c;
        compile(&c, training_build_vit, &VIT, ranks, false);
        c.device.ops = c.updater.ops = &ops;
        const size_t need = ls_compiled_memory(&c).device;
        memory = need * (size_t)ranks;
        ASSERT_OK(ls_compiled_fits(&c));
        memory -= 1;
        if (ranks == 1)
            ASSERT_FAILS(ls_compiled_fits(&c), LS_E_UNSUPPORTED, "device: a step needs ",
                         "device own has no more", "most is alive at step ", "unit root (f32 [",
                         "in encoder.layers.encoder_layer_", " of sums of micro-batches",
                         "a smaller micro_batch", "offload: cpu");
        else
            ASSERT_FAILS(ls_compiled_fits(&c), LS_E_UNSUPPORTED, "device: a step needs ",
                         "which the 2 ranks of a host share");
        c.parallel.ranks_per_host = 1; /* a device each */
        assert_int_equal(ls_compiled_fits(&c), ranks == 1 ? LS_E_UNSUPPORTED : LS_OK);
        c.parallel.device_memory = (int64_t)need - 1; /* the smaller limit counts */
        ASSERT_FAILS(ls_compiled_fits(&c), LS_E_UNSUPPORTED, "device_memory: a step needs ");
        c.parallel.device_memory = (int64_t)need;
        c.device.here = false; /* a plan for another machine */
        ASSERT_OK(ls_compiled_fits(&c));
        ls_compiled_release(&c);
    }
}

/* What a session on such a device has is what the plan says; it rounds each kind of memory up to pages. */
enum { AVERAGES, BUFFERS, OFFLOAD, STAGES, WAYS };
static ls_status has_what_is_planned(ls_group *g, void *context)
{
    const int way = *(const int *)context;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .device = "emulated",
                          .threads = 1,        .micro_batch = 2,
                          .micro_batches = 8,  .ema_decay = way == BUFFERS ? 0 : 0.9,
                          .group = g,          .parallel = ls_parallel_over(g) };
    ls_trainer *t;
    if (way == STAGES)
        o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "pp", ls_group_size(g) } } };
    o.parallel.units = way == STAGES ? "class:EncoderBlock" : o.parallel.units;
    o.parallel.offload = way == OFFLOAD ? LS_OFFLOAD_CPU : LS_OFFLOAD_NONE;
    LS_TRY(way == BUFFERS ? ls_trainer_create_with(&t, training_build_resnet, &training_resnet, &o)
                          : ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    const ls_step_memory m = ls_compiled_memory(&t->compiled);
    const size_t held = ls_session_bytes(t->session), planned = m.device + m.host - m.pinned - m.saves;
    RANK_CHECK(m.apart && held >= planned && held <= planned + (size_t)12 * 4096);
    RANK_CHECK((m.spares.undo_bytes > 0) == (way == BUFFERS));
    RANK_CHECK((m.spares.scratch_bytes > 0) == (way != BUFFERS));
    RANK_CHECK((m.pinned > 0) == (ls_group_size(g) > 1));
    RANK_CHECK((m.offloaded > 0) == (way == OFFLOAD));
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void sessions_have_what_is_planned(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int way = 0; way < WAYS; way++)
            ASSERT_OK(run_ranks(ranks, has_what_is_planned, &(int){ way }));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(both_memories_are_counted),
                                        cmocka_unit_test(copies_of_buffers_are_counted),
                                        cmocka_unit_test(a_step_must_fit),
                                        cmocka_unit_test(sessions_have_what_is_planned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

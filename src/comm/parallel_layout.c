/* parallel_layout.c - resolves a parallel layout's options for a mesh, and refuses layouts that are
 * impossible. */
#include "lockstep/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/c_locale.h"
#include "base/field.h"
#include "base/str.h"
#include "comm/axes.h"
#include "lockstep/group.h"
#include "mesh_own.h"

/* ---- resolving options */

enum { CONTEXT = LS_ROLE_BIT(LS_ROLE_CONTEXT), EXPERT = LS_ROLE_BIT(LS_ROLE_EXPERT) };

static const char *shard_axes(const ls_parallel *p, unsigned without)
{
    const unsigned roles = p->data == LS_DATA_FSDP     ? LS_ROLES_DATA | CONTEXT
                           : p->data == LS_DATA_HYBRID ? LS_ROLE_BIT(LS_ROLE_SHARD) | EXPERT | CONTEXT
                                                       : 0;
    return ls_mesh_axes_of(&p->mesh, roles & ~without);
}

static const char *replicate_axes(const ls_parallel *p, unsigned without)
{
    const unsigned roles = p->data == LS_DATA_DDP      ? LS_ROLES_DATA | CONTEXT
                           : p->data == LS_DATA_HYBRID ? LS_ROLE_BIT(LS_ROLE_REPLICATE)
                                                       : 0;
    return ls_mesh_axes_of(&p->mesh, roles & ~without);
}

const char *ls_parallel_shard_axes(const ls_parallel *p)
{
    LS_ARG_OR(p, NULL);
    return shard_axes(p, 0);
}

const char *ls_parallel_replicate_axes(const ls_parallel *p)
{
    LS_ARG_OR(p, NULL);
    return replicate_axes(p, 0);
}

const char *ls_parallel_expert_shard_axes(const ls_parallel *p) { return shard_axes(p, EXPERT); }
const char *ls_parallel_expert_replicate_axes(const ls_parallel *p) { return replicate_axes(p, EXPERT); }

int64_t ls_parallel_reshards(const ls_parallel *p)
{
    LS_ARG_OR(p, 0);
    int64_t n = p->reshard_after_forward;
    if (n > 1 && n >= ls_mesh_group_size(&p->mesh, ls_parallel_shard_axes(p)))
        return -1; /* a slice of 1/size is what the rank owns without it */
    return n == 1 ? 0 : n;
}

static bool deals_experts(const ls_parallel *p)
{
    return ls_mesh_group_size(&p->mesh, ls_mesh_axis(&p->mesh, LS_ROLE_EXPERT)) > 1;
}

bool ls_parallel_synchronizes_each(const ls_parallel *p)
{
    LS_ARG_OR(p, false);
    if (p->synchronize != LS_SYNCHRONIZE_AUTO)
        return p->synchronize == LS_SYNCHRONIZE_EACH;
    return p->data == LS_DATA_FSDP || p->data == LS_DATA_HYBRID || p->sync_batch_norm || p->slices ||
           deals_experts(p);
}

/* Whether every group that gathers lies on one machine. Members ascend, so it is enough to look at the first
 * and the last. */
static bool gathers_on_one_host(const ls_parallel *p)
{
    const char *axes = ls_parallel_shard_axes(p);
    const int ranks = (int)ls_mesh_ranks(&p->mesh), last = ls_mesh_group_size(&p->mesh, axes) - 1;
    if (!p->ranks_per_host)
        return true;
    for (int r = 0; r < ranks; r++)
        if (ls_mesh_member(&p->mesh, r, axes, 0) / p->ranks_per_host !=
            ls_mesh_member(&p->mesh, r, axes, last) / p->ranks_per_host)
            return false;
    return true;
}

bool ls_parallel_maps(const ls_parallel *p)
{
    LS_ARG_OR(p, false);
    if (p->gather != LS_GATHER_AUTO)
        return p->gather == LS_GATHER_MAP;
    return p->offload == LS_OFFLOAD_NONE && gathers_on_one_host(p);
}

/* ---- refusals */

static ls_status check_mesh(const ls_parallel *p)
{
    const ls_mesh *m = &p->mesh;
    ls_mesh again;
    char text[128];
    int64_t ranks = m->n > 0 && m->n <= LS_MESH_AXES ? ls_mesh_ranks(m) : 1;
    if (ranks == 0)
        return ls_fail(LS_E_USAGE, "mesh %s: the auto axis has no size yet; ls_mesh_resolve gives it one",
                       ls_mesh_text(text, m));
    LS_TRY(ls_mesh_resolve(&again, m, ranks)); /* names and number of axes */
    if (p->rank < 0 || p->rank >= ranks)
        return ls_fail(LS_E_USAGE, "rank %d is not in the mesh %s, which has ranks 0 to %lld", p->rank,
                       ls_mesh_text(text, m), (long long)ranks - 1);
    return LS_OK;
}

/* Number of the axis with that role; -1: none. */
static int axis_of(const ls_mesh *m, ls_axis_role role)
{
    const char *name = ls_mesh_axis(m, role);
    for (int i = 0; i < m->n && *name; i++)
        if (!strcmp(m->axes[i].name, name))
            return i;
    return -1;
}

static ls_status check_strategy(const ls_parallel *p)
{
    const ls_mesh *m = &p->mesh;
    char text[128];
    const int dp = axis_of(m, LS_ROLE_REPLICATE), shard = axis_of(m, LS_ROLE_SHARD),
              n = ls_mesh_group_size(m, ls_mesh_axes_of(m, LS_ROLES_DATA | LS_ROLE_BIT(LS_ROLE_CONTEXT)));
    if (p->data == LS_DATA_NONE && n > 1)
        return ls_fail_field(LS_E_USAGE, "data",
                             "none keeps nothing equal over %d ranks of mesh %s; say fsdp, "
                             "ddp or hybrid",
                             n, ls_mesh_text(text, m));
    if (p->data != LS_DATA_HYBRID)
        return LS_OK;
    if (dp < 0 || shard < 0)
        return ls_fail_field(LS_E_USAGE, "data",
                             "hybrid shards over an axis shard and replicates over an axis dp; "
                             "the mesh has no axis %s. "
                             "Write mesh: {dp: auto, shard: 2}, or fsdp",
                             dp >= 0 ? "shard" : "dp");
    /* the sums of neighbouring ranks must come first, so that the tree over all ranks is the tree of a single
     * process */
    if (dp > shard)
        return ls_fail_field(LS_E_USAGE, "data",
                             "hybrid needs shard inside dp, so that neighbours shard: "
                             "write dp before shard in the mesh");
    return LS_OK;
}

static bool is_count(const char *text)
{
    char *end;
    double n = ls_strtod(text, &end);
    return strspn(text, "0123456789.e+") == strlen(text) && *text && !*end && n >= 1 && n <= 1e18 &&
           n == (double)(int64_t)n;
}

ls_status ls_parallel_check_units(const char *units)
{
    LS_ARG(units);
    char word[512];
    int sizes = 0, used;
    const char *rest = units;
    if (!strcmp(units, "none"))
        return LS_OK;
    for (; sscanf(rest, "%511s%n", word, &used) == 1; rest += used) {
        const bool size = !strncmp(word, "size:", 5);
        if (!size && (strncmp(word, "class:", 6) || !word[6]) && (strncmp(word, "pattern:", 8) || !word[8]))
            return ls_fail_field(
                LS_E_USAGE, "units",
                "'%s' is not a policy; words class:NAME, pattern:GLOB, size:1e6 (elements), or none", word);
        if (size && !is_count(word + 5))
            return ls_fail_field(LS_E_USAGE, "units",
                                 "'%s' is not a number of elements: write, for example, size:1e6", word);
        if ((sizes += size) > 1)
            return ls_fail_field(LS_E_USAGE, "units", "'%s': has two words size:N: keep one of them", units);
    }
    return rest == units ? ls_fail_field(LS_E_USAGE, "units",
                                         "it is empty: write none to make the whole model one FSDP module")
                         : LS_OK;
}

static ls_status check_tensor(const ls_parallel *p)
{
    const char *words = p->tensor;
    int n = 0;
    for (const char *w = words; *w && strcmp(words, "auto"); w += strcspn(w, " "), w += *w == ' ', n++)
        if ((strncmp(w, "colwise:", 8) && strncmp(w, "rowwise:", 8)) || strcspn(w, " ") <= 8)
            return ls_fail_field(LS_E_USAGE, "tensor",
                                 "'%s' is neither auto nor words colwise:MODULE and rowwise:MODULE", words);
    if (!n && strcmp(words, "auto"))
        return ls_fail_field(LS_E_USAGE, "tensor",
                             "it is empty; write auto, or words colwise:MODULE and rowwise:MODULE");
    if (axis_of(&p->mesh, LS_ROLE_TENSOR) < 0 && !p->slices && (n || p->sequence))
        return ls_fail_field(
            LS_E_USAGE, n ? "tensor" : "sequence",
            "has no effect: the mesh has no axis of role tensor; write mesh: {%s: auto, %s: 2}, "
            "or leave it out",
            ls_mesh_name(LS_ROLE_REPLICATE), ls_mesh_name(LS_ROLE_TENSOR));
    return LS_OK;
}

static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/* The slices of a micro-batch's tokens are the innermost level of the tree of a gradient. */
static ls_status check_slices(const ls_parallel *p)
{
    const ls_mesh *m = &p->mesh;
    static const ls_axis_role ROLES[] = { LS_ROLE_TENSOR, LS_ROLE_CONTEXT };
    if (!p->slices)
        return LS_OK;
    if (p->slices < 2 || p->slices > LS_SLICES_MOST || !is_power_of_two(p->slices))
        return ls_fail_field(LS_E_USAGE, "slices",
                             "%lld: sums are added in a balanced tree of 2, 4, 8, .. %d slices; 0 for none",
                             (long long)p->slices, LS_SLICES_MOST);
    for (int k = 0; k < 2; k++) {
        const char *axis = ls_mesh_axis(m, ROLES[k]);
        const int ranks = ls_mesh_group_size(m, axis);
        if (*axis && p->slices % ranks)
            return ls_fail_field(LS_E_USAGE, "slices",
                                 "%lld are not a multiple of the %d ranks of axis %s, which each compute "
                                 "as many of them",
                                 (long long)p->slices, ranks, axis);
    }
    const int context = axis_of(m, LS_ROLE_CONTEXT),
              data[] = { axis_of(m, LS_ROLE_REPLICATE), axis_of(m, LS_ROLE_SHARD) };
    for (int k = 0; k < 2 && context >= 0 && m->axes[context].size > 1; k++)
        if (data[k] > context && m->axes[data[k]].size > 1)
            return ls_fail_field(LS_E_USAGE, "slices",
                                 "%lld, of a micro-batch, are added before micro-batches: write axis %s "
                                 "after %s in the mesh",
                                 (long long)p->slices, m->axes[context].name, m->axes[data[k]].name);
    if (p->synchronize == LS_SYNCHRONIZE_ONCE)
        return ls_fail_field(LS_E_USAGE, "synchronize",
                             "once adds micro-batches before ranks, and slices of tokens on several ranks "
                             "are added first: say auto or each, or leave out slices");
    return LS_OK;
}

/* Messages of a pipeline go through memory that both ranks map. */
static ls_status check_pipeline(const ls_parallel *p)
{
    const int at = axis_of(&p->mesh, LS_ROLE_PIPELINE);
    int n, used, sum = 0;
    const char *rest = p->stages;
    for (; sscanf(rest, "%d%n", &n, &used) == 1 && n > 0; rest += used)
        sum += n;
    if (strcmp(p->stages, "auto") && (!sum || rest[strspn(rest, " ")]))
        return ls_fail_field(LS_E_USAGE, "stages",
                             "'%s' is neither auto nor how many modules each stage has, as 3 5", p->stages);
    if (at < 0 && (sum || p->schedule != LS_SCHEDULE_1F1B))
        return ls_fail_field(LS_E_USAGE, sum ? "stages" : "schedule",
                             "has no effect: the mesh has no axis of role pipeline; write mesh: {%s: auto, "
                             "%s: 2}, or leave it out",
                             ls_mesh_name(LS_ROLE_REPLICATE), ls_mesh_name(LS_ROLE_PIPELINE));
    if (p->schedule == LS_SCHEDULE_INTERLEAVED && (p->chunks < 2 || p->chunks > 1024))
        return ls_fail_field(LS_E_USAGE, "chunks",
                             "%lld: with schedule interleaved a rank has 2 to 1024 stages; one stage a rank "
                             "is schedule 1f1b",
                             (long long)p->chunks);
    if (at < 0)
        return LS_OK;
    const char *axis = p->mesh.axes[at].name;
    if (p->mesh.axes[at].size < 2)
        return LS_OK;
    if (p->offload != LS_OFFLOAD_NONE)
        return ls_fail_field(LS_E_UNSUPPORTED, "offload",
                             "a pipeline (axis %s) keeps parameters in its ranks' own memory; say none",
                             axis);
    return LS_OK;
}

/* Whether each group of this axis lies on one host. */
static bool on_one_host(const ls_parallel *p, const char *axis)
{
    const int last = ls_mesh_group_size(&p->mesh, axis) - 1;
    for (int r = 0; r < ls_mesh_ranks(&p->mesh) && p->ranks_per_host; r++)
        if (ls_mesh_member(&p->mesh, r, axis, 0) / p->ranks_per_host !=
            ls_mesh_member(&p->mesh, r, axis, last) / p->ranks_per_host)
            return false;
    return true;
}

/* Rows go to experts through memory that all ranks of the axis map. Its ranks compute neighbouring
 * micro-batches, whose gradients must be added first: so the tree over all of them is that of one process. */
static ls_status check_experts(const ls_parallel *p)
{
    const ls_mesh *m = &p->mesh;
    const int at = axis_of(m, LS_ROLE_EXPERT);
    if (!(p->expert_room >= 0 && p->expert_room <= 1e6))
        return ls_fail_field(
            LS_E_USAGE, "expert_room",
            "%g is out of range: 0 (room for all rows that can come), or a multiple of an even "
            "share",
            p->expert_room);
    if (at < 0 && p->expert_room != 0)
        return ls_fail_field(LS_E_USAGE, "expert_room",
                             "has no effect: the mesh has no axis of role expert; write mesh: {%s: auto, "
                             "%s: 2}, or leave it out",
                             ls_mesh_name(LS_ROLE_REPLICATE), ls_mesh_name(LS_ROLE_EXPERT));
    if (!deals_experts(p))
        return LS_OK;
    const char *axis = m->axes[at].name;
    if (p->slices)
        return ls_fail_field(
            LS_E_UNSUPPORTED, "slices",
            "%lld beside axis %s, whose ranks' rows go to experts: not built; leave out one of them",
            (long long)p->slices, axis);
    for (int i = at + 1; i < m->n; i++)
        if (i == axis_of(m, LS_ROLE_REPLICATE) || i == axis_of(m, LS_ROLE_SHARD))
            return ls_fail_field(
                LS_E_USAGE, "mesh",
                "axis %s deals samples outside of axis %s, so sums of gradients would depend "
                "on it: write %s behind %s",
                axis, m->axes[i].name, axis, m->axes[i].name);
    if (p->synchronize == LS_SYNCHRONIZE_ONCE)
        return ls_fail_field(LS_E_USAGE, "synchronize",
                             "once gives a rank a block of micro-batches, and the experts of axis %s add the "
                             "gradients of neighbours, which are computed side by side; say auto or each",
                             axis);
    if (!on_one_host(p, axis))
        return ls_fail_field(
            LS_E_UNSUPPORTED, "mesh",
            "the ranks of axis %s lie on several hosts, and tokens go to their experts through "
            "memory that one host's ranks map: write %s last in the mesh, with at most %d "
            "ranks",
            axis, axis, p->ranks_per_host);
    return LS_OK;
}

static ls_status check_reshard(const ls_parallel *p)
{
    int64_t n = p->reshard_after_forward;
    int size = ls_mesh_group_size(&p->mesh, ls_parallel_shard_axes(p));
    if (n < -1)
        return ls_fail_field(LS_E_USAGE, "reshard_after_forward",
                             "%lld is neither true (-1), false (0) nor a number of slices", (long long)n);
    if (n > 1 && p->data != LS_DATA_FSDP && p->data != LS_DATA_HYBRID)
        return ls_fail_field(LS_E_USAGE, "reshard_after_forward",
                             "%lld slices, but data: %s shards nothing; "
                             "say fsdp or hybrid",
                             (long long)n, p->data == LS_DATA_DDP ? "ddp" : "none");
    if (n <= 1 || size == 1 ||
        /* one rank owns every slice, as on one worker: the recipe's other settings do not matter */
        size % n == 0)
        return LS_OK;
    ls_str counts = { 0 };
    for (int i = 2; i <= size; i++)
        if (size % i == 0)
            ls_str_printf(&counts, ", %d", i);
    ls_status s = ls_fail_field(LS_E_USAGE, "reshard_after_forward",
                                "%lld does not divide the %d ranks that shard "
                                "(%s); true, false%s would do",
                                (long long)n, size, ls_parallel_shard_axes(p), ls_str_text(&counts));
    ls_str_release(&counts);
    return s;
}

static ls_status check_sync(const ls_parallel *p)
{
    if (p->sync_batch_norm && p->synchronize == LS_SYNCHRONIZE_ONCE)
        return ls_fail_field(LS_E_USAGE, "synchronize",
                             "once gives a rank a block of micro-batches, and "
                             "sync_batch_norm normalises neighbours together, "
                             "which must then be computed side by side; say auto or each");
    return LS_OK;
}

static ls_status check_memory(const ls_parallel *p)
{
    bool shards = p->data == LS_DATA_FSDP || p->data == LS_DATA_HYBRID;
    if (p->offload == LS_OFFLOAD_CPU && !shards)
        return ls_fail_field(LS_E_UNSUPPORTED, "offload",
                             "cpu keeps the shards of fsdp and hybrid in host memory, and data: %s does not "
                             "shard: write data: fsdp or hybrid",
                             p->data == LS_DATA_DDP ? "ddp" : "none");
    if (p->gather == LS_GATHER_MAP && p->offload == LS_OFFLOAD_CPU)
        return ls_fail_field(LS_E_USAGE, "gather",
                             "map keeps all gathered FSDP modules in memory, and offload: cpu is there to "
                             "avoid that; write gather: copy or auto");
    if (p->gather == LS_GATHER_MAP && !gathers_on_one_host(p))
        return ls_fail_field(LS_E_UNSUPPORTED, "gather",
                             "map needs the ranks that gather together on one host (%d a host "
                             "here); say copy or auto, "
                             "or hybrid with shard inside a host",
                             p->ranks_per_host);
    if (p->device_memory < 0)
        return ls_fail_field(LS_E_USAGE, "device_memory",
                             "%lld bytes are out of range: give 0 for no limit, or more",
                             (long long)p->device_memory);
    return LS_OK;
}

ls_status ls_parallel_check(const ls_parallel *p)
{
    LS_ARG(p);
    LS_ARG_ENUM(ls_data_parallel, p->data, LS_DATA_NONE);
    LS_ARG_ENUM(ls_pipeline_schedule, p->schedule, LS_SCHEDULE_INTERLEAVED);
    LS_ARG(p->stages);
    LS_ARG_ENUM(ls_gather_choice, p->gather, LS_GATHER_COPY);
    LS_ARG_ENUM(ls_offload_choice, p->offload, LS_OFFLOAD_CPU);
    LS_ARG_ENUM(ls_synchronize_choice, p->synchronize, LS_SYNCHRONIZE_ONCE);
    LS_ARG_DTYPE(p->reduce);
    LS_TRY(check_mesh(p));
    LS_TRY(check_strategy(p));
    LS_TRY(ls_parallel_check_units(p->units));
    LS_TRY(check_tensor(p));
    LS_TRY(check_slices(p));
    LS_TRY(check_pipeline(p));
    LS_TRY(check_experts(p));
    LS_TRY(check_reshard(p));
    LS_TRY(check_memory(p));
    LS_TRY(check_sync(p));
    if (!ls_dtype_is_float(p->reduce))
        return ls_fail_field(LS_E_USAGE, "reduce", "%s cannot sum over ranks: use f32, bf16, f16 or f64",
                             ls_dtype_name(p->reduce));
    if (p->prefetch_forward < 0 || p->prefetch_backward < LS_BACKWARD_POST || p->prefetch_memory < 0)
        return ls_fail(LS_E_USAGE,
                       "prefetch_forward %lld, prefetch_backward %lld and prefetch_memory %lld must be 0 or "
                       "more (prefetch_backward: or LS_BACKWARD_POST)",
                       (long long)p->prefetch_forward, (long long)p->prefetch_backward,
                       (long long)p->prefetch_memory);
    if (p->bucket_bytes < 1)
        return ls_fail_field(LS_E_USAGE, "bucket_bytes", "%lld bytes are too few: 1 byte or more is needed",
                             (long long)p->bucket_bytes);
    if (p->ranks_per_host < 0)
        return ls_fail(
            LS_E_USAGE,
            "%d ranks per host are not possible: give 0 if all ranks are on one host, or their number",
            p->ranks_per_host);
    return LS_OK;
}

ls_status ls_parallel_apart(ls_parallel *p, const char *device)
{
    if (p->gather == LS_GATHER_MAP)
        return ls_fail_field(LS_E_UNSUPPORTED, "gather",
                             "map needs memory that all ranks of a host map, and each process has the memory "
                             "of device %s for itself; say copy or auto",
                             device);
    p->gather = LS_GATHER_COPY;
    return LS_OK;
}

/* ---- which micro-batches a rank computes */

ls_status ls_parallel_share(ls_share *out, const ls_parallel *p, int64_t micro_batches)
{
    LS_ARG(out);
    LS_ARG(p);
    int64_t ranks = ls_mesh_data_ranks(&p->mesh), rank = ls_mesh_data_rank(&p->mesh, p->rank);
    if (micro_batches >= 1 && micro_batches % ranks == 0) {
        int64_t count = micro_batches / ranks;
        *out = ls_parallel_synchronizes_each(p) ? (ls_share){ rank, ranks, count }
                                                : (ls_share){ rank * count, 1, count };
        return LS_OK;
    }
    ls_str counts = { 0 };
    int64_t listed = 0;
    for (int64_t i = 1; i <= micro_batches && listed < 12; i++)
        if (micro_batches % i == 0)
            ls_str_printf(&counts, "%s%lld", listed++ ? ", " : "", (long long)i);
    ls_status s = ls_fail(
        LS_E_USAGE,
        "%lld data ranks do not divide the %lld micro-batches of a step; data ranks that would do: %s",
        (long long)ranks, (long long)micro_batches, ls_str_text(&counts));
    ls_str_release(&counts);
    return s;
}

ls_parallel ls_parallel_over(const ls_group *g)
{
    ls_parallel p = ls_parallel_default();
    if (g) {
        p.mesh.axes[0].size = ls_group_size(g);
        p.rank = ls_group_rank(g);
        p.ranks_per_host = ls_group_size(g) / ls_group_hosts(g);
    }
    return p;
}

ls_parallel ls_parallel_default(void) { return (ls_parallel){ LS_PARALLEL_DEFAULTS }; }

/* cost.c - FLOPs, bytes and seconds of each step. Bytes are the least that must be moved: each operand once,
 * except what is in place already. Seconds follow from the machine's calibration (calibration.h). */
#include "internal.h"
#include "lockstep/mesh.h"
#include "ops/rules.h"

static bool same_place(const ls_plan *p, const ls_node *pack, int j)
{
    const ls_pack_attrs *a = pack->attrs;
    const ls_location *out = &p->locations[pack->out[0].id], *part = &p->locations[pack->in[j].id];
    const size_t size = ls_dtype_size(ls_type_of(p->graph, pack->out[0])->dtype);
    return part->alloc == out->alloc &&
           part->offset == out->offset + (size_t)(a->starts.v[j] * out->strides[a->dim]) * size;
}

static ls_cost cost_of(const ls_plan *p, const ls_node *n, ls_type *types)
{
    const ls_graph *g = p->graph;
    ls_cost c = { 0 };
    for (int j = 0; j < n->n_in; j++) {
        types[j] = *ls_type_of(g, n->in[j]);
        c.bytes += ls_present(n->in[j]) ? (double)ls_type_bytes(&types[j]) : 0;
    }
    ls_infer i = { .op = n->op, .n_in = n->n_in, .in = types, .attrs = n->attrs, .n_out = n->n_out };
    for (int k = 0; k < n->n_out; k++) {
        i.out[k] = *ls_type_of(g, n->out[k]);
        c.bytes += (double)ls_type_bytes(&i.out[k]);
    }
    if (n->op == &ls_op_pack) {
        for (int j = 0; j < n->n_in; j++)
            if (same_place(p, n, j))
                c.bytes -= 2.0 * (double)ls_type_bytes(&types[j]);
        return c;
    }
    return n->op->cost ? n->op->cost(&i) : c;
}

static bool is_message(const ls_plan_collective *c) { return c->kind == LS_SEND || c->kind == LS_RECEIVE; }

/* Bytes that one rank of a machine reads and writes. An all_reduce has two halves: each rank sums a part, and
 * then copies the others' parts. */
static double collective_traffic(const ls_plan_collective *c)
{
    const double count = (double)c->count, n = c->n, from = count * (double)ls_dtype_size(c->from),
                 to = count * (double)ls_dtype_size(c->to);
    if (is_message(c))
        return from + to;
    if (c->kind == LS_ALL_GATHER)
        return c->map ? (c->from == c->to ? 0 : from + to)
                      : n * (from + to); /* a mapping: this rank's slice is converted, or nothing is moved */
    return c->kind == LS_REDUCE_SCATTER ? n * from + to : from + to / n + 2 * to;
}

/* How the members of a collective's group are spread over hosts. */
typedef struct reach {
    int hosts, here; /* hosts, and members on this one */
    int ranks;       /* of this host, in all groups */
} reach;

static ls_status reach_of(reach *out, ls_arena *scratch, const ls_plan_collective *c, const ls_parallel *p)
{
    *out = (reach){ 1, c->n, c->n };
    if (!p)
        return LS_OK;
    const int ranks = (int)ls_mesh_ranks(&p->mesh);
    out->ranks = p->ranks_per_host > 0 && p->ranks_per_host < ranks ? p->ranks_per_host : ranks;
    int *members = LS_ARENA_ARRAY(scratch, int, ranks), position;
    LS_TRY(ls_arena_status(scratch));
    const int n = ls_mesh_group(&p->mesh, p->rank, c->group, members, &position), host = p->rank / out->ranks;
    if (is_message(c)) {
        *out = (reach){ 1 + (members[c->peer] / out->ranks != host), 1, out->ranks };
        return LS_OK;
    }
    out->here = 0;
    for (int i = 0; i < n; i++)
        out->here += members[i] / out->ranks == host;
    out->hosts = out->here ? (n + out->here - 1) / out->here : 1;
    return LS_OK;
}

/* Turns in which members wait for each other: an all_reduce sums, and then shares. */
static int turns_of(const ls_plan_collective *c)
{
    return c->kind == LS_ALL_REDUCE || c->kind == LS_ALL_REDUCE_MAX || c->kind == LS_ALL_REDUCE_WIDE ? 2 : 1;
}

/* Seconds that a host needs to receive a collective's bytes from other hosts. A rank receives the slices, or
 * the sums, of the members with its local index on other hosts (comm/remote_move.c); or one value. The ranks
 * of a host share its link. A sender does not wait. */
static double network_seconds(const ls_plan_collective *c, const reach *r, const ls_collective_speed *link)
{
    if (r->hosts < 2 || !(link->bandwidth > 0))
        return 0;
    const double others = r->hosts - 1, slices = r->here * (double)r->hosts,
                 slice = c->bytes / (slices > 1 ? slices - 1 : 1); /* for both turns of an all_reduce */
    return turns_of(c) * link->latency + r->ranks * others * slice / link->bandwidth;
}

/* The arithmetic and the copying of a collective count in its wait. Its network traffic begins at its start,
 * one collective after the other, and counts only as far as the program has nothing else to compute
 * meanwhile. */
typedef struct network {
    double *done; /* [collectives], or [transfers]: the time at which it has arrived */
    double free;  /* the time at which all earlier ones have arrived */
} network;

typedef struct costing {
    const ls_calibration *calibration; /* of the program's device; NULL: no seconds */
    const ls_collective_speed *wires;
    const ls_parallel *parallel; /* NULL: one rank */
    ls_arena *scratch;
    network *network, *copies;
} costing;

static ls_status collective_cost(ls_plan *p, ls_step *s, const costing *k)
{
    ls_plan_collective *x = &p->collectives[s->collective];
    const bool wait = s->part == LS_PART_WAIT;
    s->cost = (ls_cost){ .bytes = wait ? collective_traffic(x) : 0 };
    const ls_calibration *c = k->calibration;
    if (!c)
        return LS_OK;
    reach r;
    LS_TRY(reach_of(&r, k->scratch, x, k->parallel));
    const ls_collective_speed *host = &k->wires[LS_SPEED_HOST], *between = &k->wires[LS_SPEED_NETWORK];
    const double latency = wait && host->latency > 0 && !(x->map && x->from == x->to && x->settled)
                               ? turns_of(x) * host->latency
                               : 0;
    s->seconds = s->cost.bytes / (host->bandwidth > 0 ? host->bandwidth : c->bytes_memory) + latency +
                 c->op_overhead;
    if (r.hosts > 1 && !wait) {
        const double start = p->seconds > k->network->free ? p->seconds : k->network->free;
        k->network->free = k->network->done[s->collective] = start + network_seconds(x, &r, between);
    } else if (r.hosts > 1 && k->network->done[s->collective] > p->seconds) {
        s->seconds += k->network->done[s->collective] - p->seconds;
    }
    x->seconds += s->seconds;
    return LS_OK;
}

/* Seconds of a kernel that runs on all ranks of a host at once. They share memory and, on a machine whose
 * cores share units or power, arithmetic. */
static double crowded(const costing *k, double seconds, double bytes)
{
    const double outside = 16 << 20; /* more than a core's own caches hold */
    const ls_calibration *c = k->calibration;
    const ls_parallel *p = k->parallel;
    if (!p || !(c->all_flops > 0) || !(c->all_memory > 0))
        return seconds;
    const int all = (int)ls_mesh_ranks(&p->mesh), room = c->threads < c->cores ? c->cores / c->threads : 1;
    const int here = p->ranks_per_host > 0 && p->ranks_per_host < all ? p->ranks_per_host : all,
              ranks = here < room ? here : room; /* a host with more ranks has more cores */
    const double units = seconds * ranks * c->flops / c->all_flops,
                 memory = bytes > outside ? ranks * bytes / c->all_memory : 0;
    const double least = ranks > 1 ? (units > memory ? units : memory) : 0;
    return least > seconds ? least : seconds;
}

/* Transfers are copied one after the other. A transfer costs the time that the program waits for it. */
static void transfer_cost(ls_plan *p, ls_step *s, const costing *k)
{
    ls_plan_transfer *t = &p->transfers[s->transfer];
    const ls_calibration *c = k->calibration;
    network *copies = k->copies;
    s->cost = (ls_cost){ .bytes = s->part == LS_PART_START ? (double)t->bytes : 0 };
    if (!c)
        return;
    s->seconds = c->op_overhead;
    if (s->part == LS_PART_START)
        copies->free = copies->done[s->transfer] = (p->seconds > copies->free ? p->seconds : copies->free) +
                                                   (double)t->bytes /
                                                       (t->to_host ? c->to_host : c->to_device);
    else if (copies->done[s->transfer] > p->seconds)
        s->seconds += copies->done[s->transfer] - p->seconds;
    t->seconds += s->seconds;
}

static void kernel_cost(ls_plan *p, ls_step *s, ls_type *types, const costing *k)
{
    const ls_node *n = p->graph->nodes[s->node];
    s->cost = cost_of(p, n, types);
    p->n_kernels++;
    if (!k->calibration)
        return;
    uint64_t call, kind;
    ls_call_digest(p->graph, n, s->cost.flops, &call, &kind);
    p->n_measured += ls_calibration_has(k->calibration, call);
    s->seconds = ls_calibration_seconds(k->calibration, call, kind, ls_call_type(p->graph, n), s->cost);
    s->seconds = crowded(k, s->seconds, s->cost.bytes);
}

ls_status ls_plan_estimate(ls_plan *p, const ls_calibration *c, const ls_parallel *parallel)
{
    int most = 1;
    for (int i = 0; i < p->n_steps; i++)
        most = p->graph->nodes[p->steps[i].node]->n_in > most ? p->graph->nodes[p->steps[i].node]->n_in
                                                              : most;
    ls_arena scratch;
    ls_arena_init(&scratch);
    ls_type *types = LS_ARENA_ARRAY(&scratch, ls_type, most);
    network net = { .done = LS_ARENA_ARRAY(&scratch, double, p->n_collectives + 1) };
    network copies = { .done = LS_ARENA_ARRAY(&scratch, double, p->n_transfers + 1) };
    p->flops = p->bytes = p->seconds = 0;
    p->n_kernels = p->n_measured = 0;
    for (int i = 0; i < p->n_collectives; i++)
        p->collectives[i].seconds = 0;
    for (int i = 0; i < p->n_transfers; i++)
        p->transfers[i].seconds = 0;
    const costing k = { .calibration = ls_calibration_for(c, &p->device),
                        .wires = c ? c->wires : NULL,
                        .parallel = parallel,
                        .scratch = &scratch,
                        .network = &net,
                        .copies = &copies };
    ls_status status = ls_arena_status(&scratch);
    for (int i = 0; i < p->n_steps && status == LS_OK; i++) {
        ls_step *s = &p->steps[i];
        if (s->part == LS_PART_RUN)
            kernel_cost(p, s, types, &k);
        else if (s->transfer >= 0)
            transfer_cost(p, s, &k);
        else
            status = collective_cost(p, s, &k);
        p->flops += s->cost.flops;
        p->bytes += s->cost.bytes;
        p->seconds += s->seconds;
    }
    ls_arena_release(&scratch);
    return status;
}

/* cost.c - FLOPs, bytes and seconds of each step. Bytes are the least that must be moved: each operand once,
 * except what is in place already. Seconds follow from the machine's calibration (calibration.h). */
#include "internal.h"
#include "linked.h"
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

/* Bytes that one rank of a machine reads and writes. An all_reduce has two halves: each rank sums a part, and
 * then copies the others' parts. */
static double collective_traffic(const ls_plan_collective *c)
{
    const double count = (double)c->count, n = c->n, from = count * (double)ls_dtype_size(c->from),
                 to = count * (double)ls_dtype_size(c->to);
    if (ls_is_message(c))
        return from + to;
    if (c->kind == LS_ALL_TO_ALL) /* each row is read and written once, if they are spread evenly */
        return 2 * c->bytes * n / (n > 1 ? n - 1 : 1);
    if (c->kind == LS_ALL_GATHER)
        return c->map ? (c->from == c->to ? 0 : from + to)
                      : n * (from + to); /* a mapping: this rank's slice is converted, or nothing is moved */
    return c->kind == LS_REDUCE_SCATTER ? n * from + to : from + to / n + 2 * to;
}

typedef struct costing {
    const ls_calibration *calibration; /* of the program's device; NULL: no seconds */
    const ls_calibration *whole;       /* with what is known of links and the network */
    const ls_parallel *parallel;       /* NULL: one rank */
    ls_arena *scratch;
    struct flights *network, *copies;
    bool links; /* collectives go from device to device, and the speed of these links is known */
} costing;

/* ---- the ranks and cores of a host */

/* Ranks that run on a host. */
static int ranks_of_host(const ls_parallel *p)
{
    const int all = p ? (int)ls_mesh_ranks(&p->mesh) : 1;
    return p && p->ranks_per_host > 0 && p->ranks_per_host < all ? p->ranks_per_host : all;
}

/* How many times longer the ranks of a host compute than if each thread had a core. `more`: threads of a rank
 * that run beside its own. Ranks with a GPU each share none of it. */
static double share_of_cores(const costing *k, double more)
{
    const ls_calibration *c = k->calibration;
    const int cores = c->host_cores > 0 ? c->host_cores : c->cores;
    if (c->to_device > 0 || cores < 1)
        return 1;
    const double threads = ranks_of_host(k->parallel) * (c->threads + more);
    return threads > cores ? threads / cores : 1;
}

/* Seconds of a kernel that runs on all ranks of a host at once. They share memory and, on a machine whose
 * cores share units or power, arithmetic; where there are more threads than cores, they share cores. */
static double crowded(const costing *k, double seconds, double bytes)
{
    const double outside = 16 << 20; /* more than a core's own caches hold */
    const ls_calibration *c = k->calibration;
    if (!k->parallel || !(c->all_flops > 0) || !(c->all_memory > 0))
        return seconds;
    const int room = c->threads < c->cores ? c->cores / c->threads : 1, here = ranks_of_host(k->parallel),
              ranks = here < room ? here : room;
    const double units = seconds * ranks * c->flops / c->all_flops,
                 memory = bytes > outside ? ranks * bytes / c->all_memory : 0;
    const double least = ranks > 1 ? (units > memory ? units : memory) : 0;
    return (least > seconds ? least : seconds) * share_of_cores(k, 0);
}

/* ---- what is under way while a program computes */

/* Messages, or copies, one after the other: a rank has one thread for all of its collectives, and a device
 * one queue. */
typedef struct flights {
    double *done; /* [collectives], or [transfers]: the time at which it has arrived */
    double free;  /* the time at which all earlier ones have arrived */
} flights;

static void flights_begin(flights *f, int i, double now, double seconds)
{
    f->free = f->done[i] = (now > f->free ? now : f->free) + seconds;
}

/* Seconds from now until number i has arrived. */
static double flights_left(const flights *f, int i, double now)
{
    return f->done[i] > now ? f->done[i] - now : 0;
}

/* Seconds of work that begins now. As long as messages are under way the communication threads of a host take
 * their part of its cores. */
static double beside_messages(const costing *k, double now, double seconds)
{
    const double busy = k->whole->wires[LS_SPEED_NETWORK].busy, under_way = k->network->free - now,
                 slower = busy > 0 ? share_of_cores(k, busy) / share_of_cores(k, 0) : 1;
    if (!(under_way > 0) || seconds * slower <= under_way)
        return under_way > 0 ? seconds * slower : seconds;
    return under_way + seconds - under_way / slower;
}

/* ---- collectives */

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
    out->ranks = ranks_of_host(p);
    int *members = LS_ARENA_ARRAY(scratch, int, ranks), position;
    LS_TRY(ls_arena_status(scratch));
    const int n = ls_mesh_group(&p->mesh, p->rank, c->group, members, &position), host = p->rank / out->ranks;
    if (ls_is_message(c)) {
        *out = (reach){ members[c->peer] / out->ranks == host ? 1 : 2, 1, out->ranks };
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

/* Bytes that a rank receives from other hosts: the slices, or the sums, of the members with its local index
 * there (comm/remote_move.c), in both turns of an all_reduce; of an all_to_all the rows of all members there.
 */
static double bytes_from_hosts(const ls_plan_collective *c, const reach *r)
{
    if (c->kind == LS_ALL_TO_ALL)
        return r->hosts > 1 ? c->bytes * (c->n - r->here) / (c->n - 1) : 0;
    const double slices = r->here * (double)r->hosts;
    return (r->hosts - 1) * c->bytes / (slices > 1 ? slices - 1 : 1);
}

/* Seconds in which the hosts' connections, and the switches above them, pass what the ranks of a host
 * receive. All hosts exchange the same with each other. */
static double connection_seconds(double bytes, const reach *r, const ls_calibration *c)
{
    const double bandwidth = c->wires[LS_SPEED_NETWORK].bandwidth;
    double longest = r->ranks * bytes / bandwidth;
    for (int i = 0; i < c->n_switches; i++) {
        const ls_switch_level *l = &c->switches[i];
        if (r->hosts <= l->hosts)
            break;
        const double leaves = (double)(r->hosts - l->hosts) / (r->hosts - 1),
                     seconds = r->ranks * bytes * leaves * l->oversubscription / bandwidth;
        longest = seconds > longest ? seconds : longest;
    }
    return longest;
}

/* Seconds that a collective's bytes from other hosts are under way. A rank waits for messages before it sends
 * others; ranks of a host fill each other's gaps, up to what its connection
 * passes. */
static double network_seconds(const ls_plan_collective *c, const reach *r, const ls_calibration *all)
{
    const ls_collective_speed *link = &all->wires[LS_SPEED_NETWORK];
    if (r->hosts < 2 || !(link->bandwidth > 0))
        return 0;
    const double bytes = bytes_from_hosts(c, r), turns = turns_of(c),
                 waits = ls_is_message(c) ? 1 : (double)c->outgoing.waits,
                 alone = link->alone > 0 && link->alone < link->bandwidth ? link->alone : link->bandwidth,
                 rank = waits * link->latency + (double)c->outgoing.messages * link->message + bytes / alone,
                 host = turns * link->latency + connection_seconds(bytes, r, all);
    return rank > host ? rank : host;
}

/* Seconds of a collective over links between devices: rings in a host and, beside them, between hosts. */
static double link_seconds(const ls_plan_collective *c, const reach *r, const ls_calibration *all)
{
    const ls_collective_speed *link = &all->wires[LS_SPEED_HOST], *wire = &all->wires[LS_SPEED_NETWORK];
    const double hops = ls_is_message(c) ? 0 : r->here - 1,
                 bytes = r->here > 1 || r->hosts == 1 ? c->bytes : 0,
                 inside = link->bandwidth > 0 ? bytes / link->bandwidth + turns_of(c) * hops * link->latency
                                              : 0;
    if (r->hosts < 2 || !(wire->bandwidth > 0))
        return inside;
    const double between = connection_seconds(bytes_from_hosts(c, r), r, all) +
                           turns_of(c) * (r->hosts - 1) * wire->latency;
    return inside > between ? inside : between;
}

/* The arithmetic and the copying of a collective count in its wait. What comes over the network, or over
 * links between devices, is under way from its start on, and counts only as far as the program has nothing
 * else to compute meanwhile. */
static ls_status collective_cost(ls_plan *p, ls_step *s, const costing *k)
{
    ls_plan_collective *x = &p->collectives[s->collective];
    const bool wait = s->part == LS_PART_WAIT;
    s->cost = (ls_cost){ .bytes = wait && !k->links ? collective_traffic(x) : 0 };
    reach r;
    LS_TRY(reach_of(&r, k->scratch, x, k->parallel));
    x->outgoing = (ls_message_count){ 0 };
    if (!p->device.linked && !(x->map && x->from == x->to))
        x->outgoing = ls_collective_messages(x->kind, r.hosts, r.here, x->back ? x->row * x->room : x->count,
                                             x->from, x->via, x->to);
    const ls_calibration *c = k->calibration;
    if (!c)
        return LS_OK;
    const ls_collective_speed *host = &k->whole->wires[LS_SPEED_HOST];
    const double latency = wait && !k->links && host->latency > 0 &&
                                   !(x->map && x->from == x->to && x->settled)
                               ? turns_of(x) * host->latency
                               : 0;
    const double copies = s->cost.bytes / (host->bandwidth > 0 ? host->bandwidth : c->bytes_memory);
    s->seconds = copies * share_of_cores(k, 0) + latency + c->op_overhead;
    if (wait)
        x->own = s->seconds;
    if (!wait) {
        x->flight = k->links ? link_seconds(x, &r, k->whole) : network_seconds(x, &r, k->whole);
        flights_begin(k->network, s->collective, p->seconds, x->flight);
    } else if (x->flight > 0) {
        s->seconds += flights_left(k->network, s->collective, p->seconds);
    }
    x->seconds += s->seconds;
    return LS_OK;
}

/* A transfer costs the time that the program waits for it. */
static void transfer_cost(ls_plan *p, ls_step *s, const costing *k)
{
    ls_plan_transfer *t = &p->transfers[s->transfer];
    const ls_calibration *c = k->calibration;
    s->cost = (ls_cost){ .bytes = s->part == LS_PART_START ? (double)t->bytes : 0 };
    if (!c)
        return;
    s->seconds = c->op_overhead;
    if (s->part == LS_PART_START)
        flights_begin(k->copies, s->transfer, p->seconds,
                      (double)t->bytes / (t->to_host ? c->to_host : c->to_device));
    else
        s->seconds += flights_left(k->copies, s->transfer, p->seconds);
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
    s->seconds = beside_messages(k, p->seconds, crowded(k, s->seconds, s->cost.bytes));
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
    flights net = { .done = LS_ARENA_ARRAY(&scratch, double, p->n_collectives + 1) };
    flights copies = { .done = LS_ARENA_ARRAY(&scratch, double, p->n_transfers + 1) };
    p->flops = p->bytes = p->seconds = 0;
    p->n_kernels = p->n_measured = 0;
    for (int i = 0; i < p->n_collectives; i++)
        p->collectives[i].seconds = 0;
    for (int i = 0; i < p->n_transfers; i++)
        p->transfers[i].seconds = 0;
    const costing k = { .calibration = ls_calibration_for(c, &p->device),
                        .whole = c,
                        .parallel = parallel,
                        .scratch = &scratch,
                        .network = &net,
                        .copies = &copies,
                        .links = c && p->device.linked && c->host_cores > 0 };
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

/* mesh.c - named axes over ranks: row-major arithmetic, and the groups that names stand for. */
#include "lockstep/mesh.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/check.h"
#include "base/str.h"
#include "base/sys.h"
#include "mesh_own.h"
#include "comm/axes.h"

#define ROW(name, role) { name, role },
static const struct {
    const char *name;
    ls_axis_role role;
} BY_NAME[] = { LS_MESH_NAMES(ROW) };
enum { NAMES = sizeof BY_NAME / sizeof *BY_NAME };
enum { MAX_RANKS = 1000000 }; /* three factors of a million fit into 64 bits */

/* Returns one copy of a text that is never freed. Layouts are copied, and contain the names of their groups.
 * NULL: out of memory; this cannot happen for a mesh that ls_mesh_resolve made, which keeps all its names.
 * May be called by any thread. */
static const char *kept(const char *text)
{
    static struct entry {
        struct entry *next;
        char text[];
    } * all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    struct entry *e = all;
    while (e && strcmp(e->text, text))
        e = e->next;
    if (!e) {
        e = ls_sys_malloc(sizeof *e + strlen(text) + 1);
        if (e) {
            strcpy(e->text, text);
            e->next = all;
            all = e;
        }
    }
    pthread_mutex_unlock(&lock);
    return e ? e->text : NULL;
}

static const char *name_of(const char *text)
{
    const char *name = kept(text);
    return name ? name : "*"; /* which is not a name */
}

static ls_axis_role role_of(const ls_mesh *m, int i)
{
    if (m->roles[i] != LS_ROLE_OF_NAME)
        return m->roles[i];
    for (int k = 0; k < NAMES; k++)
        if (!strcmp(m->axes[i].name, BY_NAME[k].name))
            return BY_NAME[k].role;
    return LS_ROLE_OF_NAME;
}

const char *ls_mesh_axis(const ls_mesh *m, ls_axis_role role)
{
    LS_ARG_OR(m, NULL);
    for (int i = 0; i < m->n; i++)
        if (role_of(m, i) == role)
            return name_of(m->axes[i].name);
    return "";
}

static int mesh_find(const ls_mesh *m, const char *name, size_t length)
{
    for (int i = 0; i < m->n; i++)
        if (!strncmp(m->axes[i].name, name, length) && !m->axes[i].name[length])
            return i;
    return -1;
}

const char *ls_mesh_name(ls_axis_role role)
{
    int k = 0;
    while (BY_NAME[k].role != role)
        k++;
    return BY_NAME[k].name;
}

static ls_status no_role(const char *axis)
{
    ls_str names = { 0 };
    for (int k = 0; k < NAMES; k++)
        ls_str_printf(&names, "%s%s", k == 0 ? "" : k < NAMES - 1 ? ", " : " and ", BY_NAME[k].name);
    const ls_status s = ls_fail(LS_E_USAGE,
                                "mesh: there is no axis '%s': only %s have a role of their own; give it one: "
                                "%s: {size: 2, role: replicate, shard, tensor, context, pipeline or expert}",
                                axis, ls_str_text(&names), axis);
    ls_str_release(&names);
    return s;
}

static ls_status check_axis(const ls_mesh *m, int i)
{
    const char *name = m->axes[i].name;
    if (!*name || strpbrk(name, "*/"))
        return ls_fail(LS_E_USAGE, "mesh: '%s' is not a name for an axis", name);
    if (role_of(m, i) == LS_ROLE_OF_NAME)
        return no_role(name);
    if (mesh_find(m, name, strlen(name)) != i)
        return ls_fail(LS_E_USAGE, "mesh: axis %s is there twice", name);
    for (int k = 0; k < i; k++)
        if (role_of(m, k) == role_of(m, i))
            return ls_fail(LS_E_USAGE,
                           "mesh: axes %s and %s have the same role; one axis with the product of their "
                           "ranks does what both would",
                           m->axes[k].name, name);
    if (m->axes[i].size < 0 || m->axes[i].size > MAX_RANKS)
        return ls_fail(LS_E_USAGE, "mesh: axis %s has %lld ranks; 1 to %d, or auto", name,
                       (long long)m->axes[i].size, MAX_RANKS);
    return LS_OK;
}

/* The message shows the sizes and the number of ranks, so that the user can check them: "dp 2 x shard 3 = 6,
 * but there are 4 ranks". */
static ls_status mesh_refuse(const ls_mesh *m, int64_t product, bool automatic, int64_t ranks)
{
    ls_str text = { 0 };
    for (int i = 0; i < m->n; i++) {
        ls_str_printf(&text, "%s%s ", i ? " x " : "", m->axes[i].name);
        if (m->axes[i].size)
            ls_str_printf(&text, "%lld", (long long)m->axes[i].size);
        else
            ls_str_add(&text, "auto");
    }
    if (m->n > 1)
        ls_str_printf(&text, automatic ? " = %lld x auto" : " = %lld", (long long)product);
    ls_status s = ls_fail(
        LS_E_USAGE, "mesh %s, but there %s %lld rank%s; %s %lld (workers), or change the mesh",
        ls_str_text(&text), ranks == 1 ? "is" : "are", (long long)ranks, ranks == 1 ? "" : "s",
        automatic ? "start a multiple of" : "start", (long long)product);
    ls_str_release(&text);
    return s;
}

/* The roles whose axes together name a group. */
#define CONTEXT LS_ROLE_BIT(LS_ROLE_CONTEXT)
#define EXPERT LS_ROLE_BIT(LS_ROLE_EXPERT)
#define SHARD LS_ROLE_BIT(LS_ROLE_SHARD)
static const unsigned SETS[] = { LS_ROLES_DATA,
                                 LS_ROLES_DATA | CONTEXT,
                                 (LS_ROLES_DATA & ~EXPERT) | CONTEXT,
                                 SHARD | CONTEXT,
                                 SHARD | EXPERT | CONTEXT,
                                 LS_ROLES_PARTS,
                                 LS_ROLES_PARTS | EXPERT,
                                 ~LS_ROLES_DATA };

/* Keeps all names of groups that the mesh can have. */
static ls_status keep_names(const ls_mesh *m)
{
    bool all = true;
    for (size_t k = 0; k < sizeof SETS / sizeof *SETS; k++)
        all = strcmp(ls_mesh_axes_of(m, SETS[k]), "*") && all;
    for (int i = 0; i < m->n; i++)
        all = kept(m->axes[i].name) && all;
    return all ? LS_OK : ls_fail(LS_E_MEMORY, "mesh: out of memory");
}

ls_status ls_mesh_resolve(ls_mesh *out, const ls_mesh *specification, int64_t ranks)
{
    LS_ARG(out);
    LS_ARG(specification);
    ls_mesh m = *specification;
    int automatic = -1;
    int64_t product = 1;
    if (ranks < 1 || ranks > MAX_RANKS)
        return ls_fail(LS_E_USAGE, "mesh: %lld ranks are out of range: 1 to %d are possible",
                       (long long)ranks, MAX_RANKS);
    if (m.n < 1 || m.n > LS_MESH_AXES)
        return ls_fail(LS_E_USAGE, "a mesh has 1 to %d axes, not %d", LS_MESH_AXES, m.n);
    for (int i = 0; i < m.n; i++) {
        LS_TRY(check_axis(&m, i));
        if (m.axes[i].size == 0 && automatic >= 0)
            return ls_fail(LS_E_USAGE,
                           "mesh: %s and %s are both auto; only one axis can take what the others leave",
                           m.axes[automatic].name, m.axes[i].name);
        if (m.axes[i].size == 0)
            automatic = i;
        else
            product *= m.axes[i].size;
    }
    if (automatic >= 0 ? ranks % product != 0 : ranks != product)
        return mesh_refuse(&m, product, automatic >= 0, ranks);
    if (automatic >= 0)
        m.axes[automatic].size = ranks / product;
    LS_TRY(keep_names(&m));
    *out = m;
    return LS_OK;
}

int64_t ls_mesh_ranks(const ls_mesh *m)
{
    LS_ARG_OR(m, 0);
    int64_t n = 1;
    for (int i = 0; i < m->n; i++)
        if (__builtin_mul_overflow(n, m->axes[i].size, &n))
            return INT64_MAX; /* refused wherever ranks are counted */
    return n;
}

/* ---- groups */

typedef struct selection {
    bool in[LS_MESH_AXES];
    int size, block; /* ranks along the axes of the name; of those, neighbours that make one group */
} selection;

/* Reads a name of a group: "dp", "dp*shard", "dp/2", "". False: it has no such form, names an axis twice, or
 * its blocks do not divide the axis. */
static bool select_axes(selection *s, const ls_mesh *m, const char *name)
{
    *s = (selection){ .size = 1 };
    for (const char *p = name; *name;) {
        size_t length = strcspn(p, "*/");
        int axis = mesh_find(m, p, length);
        if (!length || (axis >= 0 && s->in[axis]))
            return false;
        if (axis >= 0) {
            s->in[axis] = true;
            s->size *= (int)m->axes[axis].size;
        }
        p += length;
        if (*p == '/') {
            char *end;
            long n = strtol(p + 1, &end, 10);
            s->block = (int)n;
            return p[1] >= '1' && p[1] <= '9' && !*end && n <= s->size && s->size % n == 0;
        }
        if (!*p++)
            break;
    }
    s->block = s->size;
    return true;
}

/* The number of a rank among the selected axes, and among the others. */
typedef struct coordinate {
    int inside, outside;
} coordinate;

static coordinate coordinate_of(const ls_mesh *m, const selection *s, int rank)
{
    coordinate p = { 0, 0 };
    int below = (int)ls_mesh_ranks(m);
    for (int i = 0; i < m->n; i++) {
        int size = (int)m->axes[i].size;
        below /= size;
        int *number = s->in[i] ? &p.inside : &p.outside;
        *number = *number * size + rank / below % size;
    }
    return p;
}

static int rank_at(const ls_mesh *m, const selection *s, coordinate p)
{
    int rank = 0, stride = 1;
    for (int i = m->n - 1; i >= 0; i--) {
        int size = (int)m->axes[i].size;
        int *number = s->in[i] ? &p.inside : &p.outside;
        rank += *number % size * stride;
        *number /= size;
        stride *= size;
    }
    return rank;
}

int ls_mesh_group(const ls_mesh *m, int rank, const char *name, int *members, int *position)
{
    LS_ARG_OR(m, -1);
    LS_ARG_OR(name, -1);
    LS_ARG_OR(members, -1);
    LS_ARG_OR(position, -1);
    selection s;
    if (!select_axes(&s, m, name))
        return -1;
    coordinate p = coordinate_of(m, &s, rank);
    int first = p.inside / s.block * s.block;
    for (int i = 0; i < s.block; i++)
        members[i] = rank_at(m, &s, (coordinate){ first + i, p.outside });
    *position = p.inside - first;
    return s.block;
}

int ls_mesh_member(const ls_mesh *m, int rank, const char *name, int position)
{
    selection s;
    if (!select_axes(&s, m, name))
        return -1;
    coordinate p = coordinate_of(m, &s, rank);
    return rank_at(m, &s, (coordinate){ p.inside / s.block * s.block + position, p.outside });
}

int ls_mesh_position(const ls_mesh *m, int rank, const char *name)
{
    LS_ARG_OR(m, -1);
    LS_ARG_OR(name, -1);
    selection s;
    return select_axes(&s, m, name) ? coordinate_of(m, &s, rank).inside % s.block : -1;
}

int ls_mesh_group_size(const ls_mesh *m, const char *name)
{
    LS_ARG_OR(m, -1);
    LS_ARG_OR(name, -1);
    selection s;
    return select_axes(&s, m, name) ? s.block : -1;
}

int ls_mesh_group_index(const ls_mesh *m, int rank, const char *name)
{
    LS_ARG_OR(m, -1);
    LS_ARG_OR(name, -1);
    selection s;
    if (!select_axes(&s, m, name))
        return -1;
    coordinate p = coordinate_of(m, &s, rank);
    return p.outside * (s.size / s.block) + p.inside / s.block;
}

/* ---- data ranks */

int ls_mesh_data_ranks(const ls_mesh *m)
{
    LS_ARG_OR(m, 0);
    return ls_mesh_group_size(m, ls_mesh_data_axes(m));
}

int ls_mesh_data_rank(const ls_mesh *m, int rank)
{
    LS_ARG_OR(m, 0);
    return ls_mesh_position(m, rank, ls_mesh_data_axes(m));
}

const char *ls_mesh_axes_of(const ls_mesh *m, unsigned roles)
{
    char all[LS_MESH_AXES * sizeof m->axes[0].name] = "";
    int n = 0;
    for (int i = 0; i < m->n; i++)
        if (roles >> role_of(m, i) & 1)
            n += snprintf(all + n, sizeof all - (size_t)n, "%s%s", n ? "*" : "", m->axes[i].name);
    return name_of(all);
}

const char *ls_mesh_data_axes(const ls_mesh *m)
{
    LS_ARG_OR(m, NULL);
    return ls_mesh_axes_of(m, LS_ROLES_DATA);
}

const char *ls_mesh_model_axes(const ls_mesh *m) { return ls_mesh_axes_of(m, ~LS_ROLES_DATA); }

bool ls_mesh_has_results(const ls_mesh *m, int rank)
{
    for (int i = 0; i < m->n; i++) {
        const ls_axis_role role = role_of(m, i);
        const int64_t from = role == LS_ROLE_PIPELINE ? m->axes[i].size - 1 : 0;
        if (!(LS_ROLES_DATA >> role & 1) && ls_mesh_position(m, rank, m->axes[i].name) != from)
            return false;
    }
    return true;
}

bool ls_mesh_group_has(const char *group, const char *axis)
{
    const size_t n = strlen(axis);
    for (const char *p = group; *p; p += strcspn(p, "*"), p += *p == '*')
        if (strcspn(p, "*/") == n && !strncmp(p, axis, n))
            return true;
    return false;
}

const char *ls_mesh_text(char text[128], const ls_mesh *m)
{
    LS_ARG_OR(text, NULL);
    LS_ARG_OR(m, NULL);
    int n = 0;
    *text = 0;
    for (int i = 0; i < m->n && n < 128; i++)
        n += snprintf(text + n, (size_t)(128 - n), "%s%s=%lld", i ? " x " : "", m->axes[i].name,
                      (long long)m->axes[i].size);
    return text;
}

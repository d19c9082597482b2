/* topology.c - describes the machine through hwloc, which is loaded at run time. */
#include "topology.h"
#ifdef LS_HAVE_HWLOC
#include <dlfcn.h>
#include <hwloc.h>
#include <stdio.h>

/* A function of the loaded library, with the type that hwloc's header declares. */
#define FROM(library, name) __extension__(typeof(&name)) dlsym(library, #name)

static int count(void *library, hwloc_topology_t t, hwloc_obj_type_t type)
{
    typeof(&hwloc_get_type_depth) depth_of = FROM(library, hwloc_get_type_depth);
    typeof(&hwloc_get_nbobjs_by_depth) objects = FROM(library, hwloc_get_nbobjs_by_depth);
    int depth = depth_of && objects ? depth_of(t, type) : HWLOC_TYPE_DEPTH_UNKNOWN;
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN ? 0 : (int)objects(t, depth);
}

static bool topology_describe(char text[160], void *library, hwloc_topology_t t)
{
    static const struct {
        hwloc_obj_type_t type;
        const char *one, *many;
    } KINDS[] = { { HWLOC_OBJ_PACKAGE, "package", "packages" },
                  { HWLOC_OBJ_CORE, "core", "cores" },
                  { HWLOC_OBJ_PU, "hardware thread", "hardware threads" },
                  { HWLOC_OBJ_NUMANODE, "memory node", "memory nodes" } };
    int used = 0;
    for (int i = 0; i < 4; i++) {
        int n = count(library, t, KINDS[i].type);
        used += snprintf(text + used, (size_t)(160 - used), "%s%d %s", i ? ", " : "", n,
                         n == 1 ? KINDS[i].one : KINDS[i].many);
    }
    return count(library, t, HWLOC_OBJ_PU) > 0;
}

bool ls_topology_text(char text[160])
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL); /* never closed */
    if (!library)
        return false;
    typeof(&hwloc_topology_init) init = FROM(library, hwloc_topology_init);
    typeof(&hwloc_topology_load) load = FROM(library, hwloc_topology_load);
    typeof(&hwloc_topology_destroy) destroy = FROM(library, hwloc_topology_destroy);
    hwloc_topology_t t;
    if (!init || !load || !destroy || init(&t))
        return false;
    bool known = load(t) == 0 && topology_describe(text, library, t);
    destroy(t);
    return known;
}
#else
bool ls_topology_text(char text[160])
{
    text[0] = 0;
    return false;
}
#endif

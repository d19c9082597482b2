/* adapter_export.c - the names that PEFT has for the tensors of an adapter. */
#include "ckpt/adapter.h"
#include "ckpt/select.h"

typedef struct adapter_naming {
    ls_arena arena;
} adapter_naming;

static const char *behind_prefix(void *context, const char *name)
{
    return ls_arena_printf(&((adapter_naming *)context)->arena, LS_ADAPTER_PREFIX "%s", name);
}

ls_status ls_adapter_name_for_peft(ls_weights *w)
{
    adapter_naming n = { 0 };
    ls_arena_init(&n.arena);
    const ls_status s = ls_arena_outcome(&n.arena, ls_weights_select(w, behind_prefix, &n));
    ls_arena_release(&n.arena);
    return s;
}

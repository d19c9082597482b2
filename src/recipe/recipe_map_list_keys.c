/* recipe_map_list_keys.c - the keys of the maps in optimizer.groups and model.rename. */
#include <stddef.h>

#include "recipe_fields.h"

#define OF(type, member) .offset = offsetof(type, member)
static const ls_optimizer_group GROUP = { LS_OPTIMIZER_GROUP_DEFAULTS };
static const ls_key GROUP_MEMBERS[] = {
    { "match", LS_KEY_WORDS, OF(ls_optimizer_group, match), NULL },
    { "lr_factor", LS_KEY_REAL, OF(ls_optimizer_group, lr_factor), "1", 0, 1e6 },
    { "weight_decay", LS_KEY_REAL, OF(ls_optimizer_group, weight_decay), "", 0, 1e6 },
    { "adamw", LS_KEY_BOOL, OF(ls_optimizer_group, adamw), "false" },
    { .key = NULL },
};
const ls_maps LS_GROUP_MAPS = { sizeof GROUP, &GROUP, GROUP_MEMBERS,
                                "[{match: \"class:LayerNorm pattern:*bias\", weight_decay: 0}]" };

static const ls_rename RENAME = { "", "" };
static const ls_key RENAME_MEMBERS[] = {
    { "from", LS_KEY_TEXT, OF(ls_rename, from), NULL },
    { "to", LS_KEY_TEXT, OF(ls_rename, to), NULL },
    { .key = NULL },
};
const ls_maps LS_RENAME_MAPS = { sizeof RENAME, &RENAME, RENAME_MEMBERS,
                                 "[{from: \"classifier.*\", to: \"heads.head.*\"}]" };

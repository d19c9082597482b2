/* recipe_types.c - which keys belong to which model, data set, optimizer and schedule. The row of each of
 * them lists its keys by their last names. */
#include <string.h>
#include "base/check.h"
#include "data_row.h"
#include "model_row.h"
#include "optim_row.h"
#include "recipe_fields.h"

/* The i-th word of model.type, data.type, optimizer.type or schedule.type, and the keys of its row; NULL past
 * the end. */
static const char *row_at(const char *type, int i, const char **keys)
{
    const ls_choice_row *rows = !strcmp(type, "optimizer.type") ? LS_OPTIMIZERS : LS_SCHEDULES;
    if (!strcmp(type, "model.type")) {
        const ls_model_row *m = LS_MODELS[i];
        *keys = m ? m->keys : NULL;
        return m ? m->name : NULL;
    }
    if (!strcmp(type, "data.type")) {
        *keys = LS_DATA[i].keys;
        return LS_DATA[i].name;
    }
    LS_CHECK(rows == LS_OPTIMIZERS || !strcmp(type, "schedule.type"), "%s decides no keys", type);
    *keys = rows[i].keys;
    return rows[i].name;
}

static const char *last_name(const ls_key *k)
{
    const char *dot = strrchr(k->key, '.');
    return dot ? dot + 1 : k->key;
}

bool ls_key_is_of(const ls_key *k, const char *word)
{
    const char *name, *keys;
    for (int i = 0; (name = row_at(k->type, i, &keys)); i++)
        if (!strcmp(name, word))
            return ls_words_have(keys, last_name(k));
    return false;
}

void ls_key_types(ls_str *out, const ls_key *k)
{
    const char *name, *keys;
    for (int i = 0; (name = row_at(k->type, i, &keys)); i++)
        if (ls_words_have(keys, last_name(k)))
            ls_str_printf(out, " %s", name);
}

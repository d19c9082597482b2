/* recipe_types.c - which keys a recipe has, and which of them have an effect. The row of a model, data set,
 * optimizer or schedule lists its keys by their last names. */
#include <stdio.h>
#include <string.h>
#include "base/check.h"
#include "data_row.h"
#include "model_row.h"
#include "optim_row.h"
#include "recipe_fields.h"

/* The name and the keys of row i in the table of model.type, data.type, optimizer.type or schedule.type; NULL
 * after the last row. */
static const char *row_of_type(const char *type, int i, const char **keys)
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
    for (int i = 0; (name = row_of_type(k->type, i, &keys)); i++)
        if (!strcmp(name, word))
            return ls_words_have(keys, last_name(k));
    return false;
}

void ls_key_types(ls_str *out, const ls_key *k)
{
    const char *name, *keys;
    for (int i = 0; (name = row_of_type(k->type, i, &keys)); i++)
        if (ls_words_have(keys, last_name(k)))
            ls_str_printf(out, " %s", name);
}

bool ls_key_condition(const char *condition, const ls_recipe *r)
{
    char decider[64];
    const size_t n = strcspn(condition, " ");
    snprintf(decider, sizeof decider, "%.*s", (int)n, condition);
    const char *wanted = condition + n + 1;
    const bool other = *wanted == '!';
    const ls_key *k = ls_key_named(decider);
    if (*wanted == '@')
        return ls_key_applies(ls_key_named(wanted + 1), r);
    char room[256];
    ls_str is = LS_STR_IN(room);
    LS_CHECK(k, "%s: no such key", condition);
    ls_key_print(k, r, &is);
    const bool holds = ls_words_have(wanted + other, ls_str_text(&is)) != other;
    ls_str_release(&is);
    return holds;
}

bool ls_key_applies(const ls_key *k, const ls_recipe *r)
{
    if (!k->type)
        return true;
    char room[256];
    ls_str is = LS_STR_IN(room);
    ls_key_print(ls_key_named(k->type), r, &is);
    const bool applies = ls_key_is_of(k, ls_str_text(&is));
    ls_str_release(&is);
    return applies;
}

/* recipe_words.c - the words of a key: its own, or the names of the rows of a table. */
#include <string.h>

#include "base/check.h"
#include "data_row.h"
#include "model_row.h"
#include "optim_row.h"
#include "recipe_fields.h"

const char *ls_key_row(const char *type, int i, const char **keys)
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

const char *ls_key_word(const ls_key *k, int i)
{
    const char *keys;
    return k->words ? k->words[i] : ls_key_row(k->key, i, &keys);
}

bool ls_key_accepts(const ls_key *k, const char *word) { return !k->now || ls_words_have(k->now, word); }

void ls_key_words(ls_str *out, const ls_key *k)
{
    const char *word, *between = "";
    for (int i = 0; (word = ls_key_word(k, i)); i++)
        if (ls_key_accepts(k, word)) {
            ls_str_printf(out, "%s%s", between, word);
            between = ", ";
        }
}

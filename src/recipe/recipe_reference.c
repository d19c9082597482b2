/* recipe_reference.c - the table of keys for people: docs/recipe.md and `lockstep recipe --help`. */
#include <stdio.h>
#include <string.h>
#include "model_row.h"
#include "module_keys.h"
#include "recipe_fields.h"
#include "recipe_use.h"

static void type_text(const ls_key *k, ls_str *out)
{
    static const char *const NAMES[] = {
        [LS_KEY_TEXT] = "text",
        [LS_KEY_PATHS] = "text, or a list of them",
        [LS_KEY_WORDS] = "words, or a list of them",
        [LS_KEY_INT] = "whole number",
        [LS_KEY_REAL] = "number",
        [LS_KEY_BOOL] = "true or false",
        [LS_KEY_DTYPE] = "f32, bf16, f16, f64",
        [LS_KEY_BYTES] = "size, as 512MiB",
        [LS_KEY_INTS] = "list of whole numbers",
        [LS_KEY_PAIR] = "two numbers, as [0.9, 0.999]",
        [LS_KEY_REALS] = "number, or a list with one for each channel",
        [LS_KEY_RANGE] = "whole number or {min: A, max: B}",
        [LS_KEY_MESH] = "map of axes, as {dp: auto}",
        [LS_KEY_RESHARD] = "true, false or a number",
        [LS_KEY_PORTS] = "map of names to shapes, as {x: [8], t: []}",
        [LS_KEY_FILES] = "map of fields to files, as {x: x.npy}",
        [LS_KEY_LOSSES] = "a loss, as {type: mse, of: y}, or a list of them",
        [LS_KEY_TREE] = "map of any keys",
        [LS_KEY_MAPS] = "list of maps",
    };
    if (k->kind != LS_KEY_CHOICE && k->kind != LS_KEY_WORD) {
        ls_str_add(out, NAMES[k->kind]);
        return;
    }
    ls_key_words(out, k);
}

static void range_text(const ls_key *k, ls_str *out)
{
    char low[32], high[32];
    if (k->kind != LS_KEY_INT && k->kind != LS_KEY_REAL && k->kind != LS_KEY_REALS && k->kind != LS_KEY_PAIR)
        return;
    ls_str_printf(out, ", %s %s", k->above ? "above" : "from", ls_format_f64(low, k->min));
    if (k->max <= 1e5) /* larger limits only guard the arithmetic */
        ls_str_printf(out, " %s %s", k->below ? "to below" : "to", ls_format_f64(high, k->max));
}

/* " (type: vit mlp)" */
static void types_text(const ls_key *k, ls_str *out)
{
    if (k->type) {
        ls_str_add(out, " (type:");
        ls_key_types(out, k);
        ls_str_add(out, ")");
    }
}

void ls_key_need_text(ls_str *out, const char *need)
{
    const int n = (int)strcspn(need, " ");
    ls_str types = { 0 };
    if (need[n + 1] == '@')
        ls_key_types(&types, ls_key_named(need + n + 2));
    const char *values = types.len ? types.data + 1 : need + n + 1;
    const bool other = *values == '!', empty = !strcmp(values, "\"\"");
    ls_str_printf(out, "%.*s%s ", n, need, other || empty ? "" : ":");
    if (other || empty)
        ls_str_printf(out, "%s", empty ? "empty" : "other than ");
    for (const char *v = values + other; !empty && *v; v++) /* "json or line" */
        ls_str_add_n(out, *v == ' ' ? " or " : v, *v == ' ' ? 4 : 1);
    ls_str_release(&types);
}

static void needs_text(const ls_key *k, ls_str *out)
{
    for (const char *const *need = k->needs; need && *need; need++) {
        ls_str_add(out, need == k->needs ? "; needs " : " and ");
        ls_key_need_text(out, *need);
    }
}

static void meaning_text(const ls_key *k, ls_str *out)
{
    ls_str_add(out, k->help);
    needs_text(k, out);
    types_text(k, out);
}

static void cell(ls_str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            ls_str_add(out, "\\");
        ls_str_add_n(out, text, 1);
    }
}

/* Keys without a dot (workers, device, ...) make the section "top level". */
static bool in_section(const ls_key *k, const char *section)
{
    const char *dot = strchr(k->key, '.');
    size_t n = strlen(section);
    return dot ? (size_t)(dot - k->key) >= n && !strncmp(k->key, section, n) && k->key[n] == '.'
               : !strcmp(section, "top level");
}

static const char INTRO[] =
    "# Recipe reference\n\n"
    "Made from the table in `src/recipe/recipe_fields.c` by `lockstep recipe --reference`; a test\n"
    "compares.\n\n"
    "A recipe is YAML. It names what differs from the defaults. `lockstep recipe FILE` prints every\n"
    "key with its value and where that comes from.\n\n"
    "- `${NAME}` and `${NAME:-default}` stand for environment variables (inside `{...}` put them in\n"
    "  quotes). `$${` is a plain `${`. No file of a run has a text that a variable gave, which may be\n"
    "  a secret, but `${NAME}`; a number, a known word and a path at which something is stay.\n"
    "- `include: other.yaml` (or a list, or the name of a bundled recipe) reads another recipe first.\n"
    "  Keys of the including recipe win.\n"
    "- `--set section.key=value` wins over files. The value is YAML:\n"
    "  `--set optimizer='{type: sgd, lr: 0.1}'`.\n"
    "- Sizes accept `512MiB`, numbers `1e-3`.\n"
    "- An unknown key, a key given twice and a key of another model, optimizer or schedule are\n"
    "  errors. So is a value that another key leaves without effect (`needs`), unless it is the\n"
    "  default.\n"
    "- A run may be started again with another value of the keys marked *. Another value of any other\n"
    "  key makes it another run. Files of data and of a tokenizer may have other names, in another\n"
    "  folder: the run compares their samples.\n";

#define COLUMNS "| key | value | default | meaning |\n|---|---|---|---|\n"

/* A key as a row of a table; `map`: "model.config.", in front of its name. */
static void table_row(ls_str *out, const ls_key *k, const char *map)
{
    ls_str type = { 0 }, meaning = { 0 };
    type_text(k, &type);
    range_text(k, &type);
    meaning_text(k, &meaning);
    ls_str_printf(out, "| `%s%s`%s | ", map, k->key, k->may_change ? " *" : "");
    cell(out, ls_str_text(&type));
    ls_str_printf(out, " | %s%s%s | ", k->fallback ? "`" : "",
                  k->fallback ? (*k->fallback ? k->fallback : "\"\"") : "required", k->fallback ? "`" : "");
    cell(out, ls_str_text(&meaning));
    ls_str_add(out, " |\n");
    ls_str_inherit(out, &type);
    ls_str_inherit(out, &meaning);
    ls_str_release(&type);
    ls_str_release(&meaning);
}

static void help_row(ls_str *out, const ls_key *k)
{
    ls_str meaning = { 0 };
    meaning_text(k, &meaning);
    ls_str_printf(out, "  %-32s %-14s %s\n", k->key,
                  !k->fallback   ? "(required)"
                  : *k->fallback ? k->fallback
                                 : "\"\"",
                  ls_str_text(&meaning));
    ls_str_inherit(out, &meaning);
    ls_str_release(&meaning);
}

char *ls_recipe_reference(bool markdown)
{
    ls_str out = { 0 };
    if (markdown)
        ls_str_add(&out, INTRO);
    for (int s = 0; s < LS_SECTION_COUNT; s++) {
        const char *section = LS_SECTIONS[s].name;
        if (markdown)
            ls_str_printf(&out, "\n## %s\n\n%s\n\n" COLUMNS, section, LS_SECTIONS[s].help);
        for (int i = 0; i < ls_key_count(); i++) {
            const ls_key *k = ls_key_at(i);
            if (in_section(k, section) && markdown)
                table_row(&out, k, "");
            else if (in_section(k, section))
                help_row(&out, k);
        }
    }
    return ls_str_take(&out);
}

char *ls_recipe_reference_of(const ls_model_row *m)
{
    ls_str out = { 0 };
    ls_str_printf(&out, "# %s\n\n" COLUMNS, m->name);
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        if (k->type && !strcmp(k->type, "model.type") && ls_key_is_of(k, m->name))
            table_row(&out, k, "");
    }
    return ls_str_take(&out);
}

char *ls_module_reference(const ls_module_map *model, const ls_module_map *data)
{
    const ls_module_map *const maps[] = { model, data };
    ls_str out = { 0 };
    char map[32];
    ls_str_printf(&out, "# %s\n\n%s", model->module, model->n || data->n ? COLUMNS : "It has no keys.\n");
    for (int i = 0; i < 2; i++) {
        snprintf(map, sizeof map, "%s.", maps[i]->key);
        for (int k = 0; k < maps[i]->n; k++)
            table_row(&out, &maps[i]->rows[k], map);
    }
    return ls_str_take(&out);
}

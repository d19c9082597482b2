/* recipe_named_values.c - values that are maps of names of one's own: shapes of inputs and outputs, files of
 * fields, losses. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "recipe_fields.h"

#define MEMBER(type, r, k) ((type *)((char *)(r) + (k)->offset))
#define CONST_MEMBER(type, r, k) ((const type *)((const char *)(r) + (k)->offset))

bool ls_key_is_named(const ls_key *k)
{
    return k->kind == LS_KEY_PORTS || k->kind == LS_KEY_FILES || k->kind == LS_KEY_LOSSES;
}

static ls_status wants(const char *where, const char *what, const ls_yaml *got)
{
    return ls_fail(LS_E_USAGE, "%s: %s is needed here, not '%s'", where, what,
                   got->kind == LS_YAML_LIST  ? "[...]"
                   : got->kind == LS_YAML_MAP ? "{...}"
                                              : got->text);
}

static ls_status check_name(const char *name, const char *where)
{
    const char *p = name;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    return p > name && !*p && strlen(name) < 64
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: '%s' is not a name of a field: letters, digits and _, at most 63",
                         where, name);
}

/* ---- {x: [8], t: []} */

static ls_status read_shape(const ls_yaml *v, const char *where, ls_type *out)
{
    if (v->kind != LS_YAML_LIST)
        return wants(where, "a shape such as [8], or [] for one number,", v);
    *out = (ls_type){ .dtype = LS_F32 };
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const ls_yaml *size = ls_yaml_real(c);
        double x;
        if (size->kind != LS_YAML_SCALAR || !ls_key_parse_real(size->text, &x) || x < 1 || x > 1e9 ||
            x != (double)(int64_t)x)
            return wants(where, "a size from 1 to 1e9", size);
        if (out->ndim == LS_MAX_DIMS - 1)
            return ls_fail(LS_E_USAGE, "%s: more than %d dimensions", where, LS_MAX_DIMS - 1);
        out->dims[out->ndim++] = (int64_t)x;
    }
    double elements = 1;
    for (int d = 0; d < out->ndim; d++)
        elements *= (double)out->dims[d];
    return elements <= 1e9 ? LS_OK : ls_fail(LS_E_USAGE, "%s: more than 1e9 elements in a sample", where);
}

static ls_status read_ports(const ls_yaml *v, const char *where, ls_port_list *out)
{
    *out = (ls_port_list){ 0 };
    for (const ls_yaml *c = v->child; c; c = c->next) {
        if (out->n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d names", where, LS_RECIPE_LIST);
        ls_port *p = &out->at[out->n++];
        LS_TRY(check_name(c->key, where));
        p->name = c->key;
        LS_TRY(read_shape(ls_yaml_real(c), where, &p->type));
    }
    return LS_OK;
}

/* ---- {x: train_x.npy} */

static ls_status read_files(const ls_yaml *v, ls_arena *a, const char *where, ls_file_list *out)
{
    *out = (ls_file_list){ 0 };
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const ls_yaml *file = ls_yaml_real(c);
        if (out->n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d fields", where, LS_RECIPE_LIST);
        LS_TRY(check_name(c->key, where));
        if (file->kind != LS_YAML_SCALAR || !*file->text)
            return wants(where, "a file for each field", file);
        out->at[out->n].field = c->key;
        out->at[out->n++].file = ls_arena_strdup(a, file->text);
    }
    return ls_arena_status(a);
}

/* ---- {type: mse, of: y} */

static const char *const KINDS[] = { [LS_LOSS_MSE] = "mse",
                                     [LS_LOSS_MAE] = "mae",
                                     [LS_LOSS_HUBER] = "huber",
                                     [LS_LOSS_BCE] = "bce",
                                     [LS_LOSS_CROSS_ENTROPY] = "cross_entropy",
                                     [LS_LOSS_IN_BATCH] = "in_batch_negatives" };
enum { TYPE, OF, TARGET, WEIGHT, MASK, FACTOR, DELTA, CLASS_WEIGHTS };
static const char *const ENTRIES[] = {
    [TYPE] = "type", [OF] = "of",         [TARGET] = "target", [WEIGHT] = "weight",
    [MASK] = "mask", [FACTOR] = "factor", [DELTA] = "delta",   [CLASS_WEIGHTS] = "class_weights"
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS, N_ENTRIES = sizeof ENTRIES / sizeof *ENTRIES };

static ls_status unknown(const char *where, const char *word, const char *const *words, int n)
{
    const char *near = ls_nearest_name(word, words, n);
    ls_str all = { 0 };
    for (int i = 0; i < n; i++)
        ls_str_printf(&all, "%s%s", i ? ", " : "", words[i]);
    const ls_status s = ls_fail(LS_E_USAGE, "%s: there is no '%s'%s%s%s (one of: %s)", where, word,
                                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                                ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

static int index_of(const char *word, const char *const *words, int n)
{
    int i = 0;
    while (i < n && strcmp(words[i], word))
        i++;
    return i;
}

static ls_status read_entry(const ls_yaml *v, int entry, const char *where, ls_task_loss *l)
{
    double x = 0;
    if (entry == WEIGHT &&
        (v->kind == LS_YAML_LIST || (v->kind == LS_YAML_SCALAR && !strcmp(v->text, "balanced"))))
        return ls_fail(LS_E_USAGE,
                       "%s: weight names a field with a number for each sample; did you mean class_weights, "
                       "which is balanced or a number for each class?",
                       where);
    if (v->kind != LS_YAML_SCALAR)
        return wants(where, "a word or a number", v);
    if (entry == FACTOR || entry == DELTA) {
        if (!ls_key_parse_real(v->text, &x) || !(x > 0) || x > 1e30)
            return wants(where, "a number above 0", v);
        *(entry == FACTOR ? &l->factor : &l->delta) = x;
        return LS_OK;
    }
    if (entry == TYPE) {
        const int k = index_of(v->text, KINDS, N_KINDS);
        if (k == N_KINDS)
            return unknown(where, v->text, KINDS, N_KINDS);
        l->kind = (ls_loss_kind)k;
        return LS_OK;
    }
    LS_TRY(check_name(v->text, where));
    *(entry == OF       ? &l->of
      : entry == TARGET ? &l->target
      : entry == WEIGHT ? &l->weight
                        : &l->mask) = v->text;
    return LS_OK;
}

/* [1, 2.5] as "1 2.5"; NULL for `none`. */
static ls_status read_class_weights(const ls_yaml *v, ls_arena *a, const char *where, const char **out)
{
    static const char WHAT[] = "none, balanced, or a list with a number from 0 on for each class";
    const bool word = v->kind == LS_YAML_SCALAR && (!strcmp(v->text, "none") || !strcmp(v->text, "balanced"));
    ls_str numbers = { 0 };
    ls_status s = LS_OK;
    double x, sum = 0;
    char text[32];
    where = ls_arena_printf(a, "%s: class_weights", where);
    LS_TRY(ls_arena_status(a));
    *out = word && *v->text == 'b' ? v->text : NULL;
    if (word)
        return LS_OK;
    if (v->kind != LS_YAML_LIST)
        return wants(where, WHAT, v);
    for (const ls_yaml *c = v->child; c && s == LS_OK; c = c->next) {
        const ls_yaml *number = ls_yaml_real(c);
        if (number->kind != LS_YAML_SCALAR || !ls_key_parse_real(number->text, &x) || !(x >= 0) || x > 1e30)
            s = wants(where, WHAT, number);
        else
            ls_str_printf(&numbers, "%s%s", numbers.len ? " " : "", ls_format_f64(text, x));
        sum += s == LS_OK ? x : 0;
    }
    if (s == LS_OK && !(sum > 0))
        s = ls_fail(LS_E_USAGE, "%s: no number is above 0, so nothing would be learnt", where);
    *out = s == LS_OK ? ls_arena_strdup(a, ls_str_text(&numbers)) : NULL;
    s = s == LS_OK ? ls_str_status(&numbers) : s;
    ls_str_release(&numbers);
    return s == LS_OK ? ls_arena_status(a) : s;
}

/* A loss may be `of` no output: a classifier of pictures has one alone. With weights of classes it is
 * cross-entropy. */
static ls_status read_loss(const ls_yaml *v, ls_arena *a, const char *where, ls_task_loss *out,
                           const char **class_weights)
{
    bool seen[N_ENTRIES] = { 0 };
    *out = (ls_task_loss){ .kind = LS_LOSS_CROSS_ENTROPY, .of = "", .factor = 1, .delta = 1 };
    if (v->kind != LS_YAML_MAP)
        return wants(where, "a loss such as {type: mse, of: y}", v);
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const int entry = index_of(c->key, ENTRIES, N_ENTRIES);
        if (entry == N_ENTRIES)
            return unknown(where, c->key, ENTRIES, N_ENTRIES);
        LS_TRY(entry == CLASS_WEIGHTS ? read_class_weights(ls_yaml_real(c), a, where, class_weights)
                                      : read_entry(ls_yaml_real(c), entry, where, out));
        seen[entry] = true;
    }
    if (!seen[TYPE] && !seen[CLASS_WEIGHTS])
        return ls_fail(LS_E_USAGE, "%s: " LS_LOSS_NEEDS, where);
    if (*class_weights && out->kind != LS_LOSS_CROSS_ENTROPY)
        return ls_fail(LS_E_USAGE, "%s: class_weights are of cross_entropy; %s has none", where,
                       KINDS[out->kind]);
    if (seen[DELTA] && out->kind != LS_LOSS_HUBER)
        return ls_fail(LS_E_USAGE, "%s: delta is huber's; %s has none", where, KINDS[out->kind]);
    return LS_OK;
}

static ls_status read_losses(const ls_yaml *v, ls_arena *a, const char *where, ls_loss_list *out)
{
    *out = (ls_loss_list){ 0 };
    if (v->kind != LS_YAML_LIST) {
        out->n = v->kind != LS_YAML_MAP || v->child;
        return out->n ? read_loss(v, a, where, &out->at[0], &out->class_weights[0]) : LS_OK;
    }
    for (const ls_yaml *c = v->child; c; c = c->next) {
        if (out->n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d losses", where, LS_RECIPE_LIST);
        LS_TRY(read_loss(ls_yaml_real(c), a, where, &out->at[out->n], &out->class_weights[out->n]));
        out->n++;
    }
    return LS_OK;
}

ls_status ls_named_read(const ls_key *k, ls_recipe *r, const ls_yaml *v, ls_arena *a, const char *where)
{
    if (k->kind == LS_KEY_LOSSES)
        return read_losses(v, a, where, MEMBER(ls_loss_list, r, k));
    if (v->kind != LS_YAML_MAP)
        return wants(where, k->kind == LS_KEY_PORTS ? "a map such as {x: [8]}" : "a map such as {x: x.npy}",
                     v);
    return k->kind == LS_KEY_PORTS ? read_ports(v, where, MEMBER(ls_port_list, r, k))
                                   : read_files(v, a, where, MEMBER(ls_file_list, r, k));
}

/* ---- back to YAML or JSON */

static void print_name(ls_str *out, const char *name, bool json, bool first)
{
    ls_str_printf(out, json ? "%s\"%s\": " : "%s%s: ", first ? "" : ", ", name);
}

static void print_text(ls_str *out, const char *text, bool json)
{
    if (!json) {
        ls_yaml_print_text(out, text);
        return;
    }
    ls_json j = { 0 };
    ls_json_text(&j, NULL, text);
    ls_str_append(out, &j.out);
    ls_str_release(&j.out);
}

/* "balanced", or "1 2.5" as [1, 2.5] */
static void print_class_weights(ls_str *out, const char *words, bool json)
{
    char number[32];
    print_name(out, ENTRIES[CLASS_WEIGHTS], json, false);
    if (!strcmp(words, "balanced")) {
        print_text(out, words, json);
        return;
    }
    ls_str_add(out, "[");
    for (const char *at = words; at; at = strchr(at, ' '), at += at != NULL) {
        double x = 0;
        char one[64];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, " "), at);
        ls_key_parse_real(one, &x);
        ls_str_printf(out, "%s%s", at == words ? "" : ", ", ls_format_f64(number, x));
    }
    ls_str_add(out, "]");
}

static void print_loss(ls_str *out, const ls_task_loss *l, const char *class_weights, bool json)
{
    const char *const texts[] = { KINDS[l->kind], l->of, l->target, l->weight, l->mask };
    const double numbers[] = { l->factor, l->delta };
    char number[32];
    ls_str_add(out, "{");
    for (int i = 0; i < 5; i++)
        if (texts[i] && *texts[i]) {
            print_name(out, ENTRIES[i], json, i == 0);
            print_text(out, texts[i], json);
        }
    for (int i = 0; i < 2; i++)
        if (i == 0 ? l->factor != 1 : l->kind == LS_LOSS_HUBER) {
            print_name(out, ENTRIES[FACTOR + i], json, false);
            ls_str_add(out, ls_format_f64(number, numbers[i]));
        }
    if (class_weights)
        print_class_weights(out, class_weights, json);
    ls_str_add(out, "}");
}

static void print_losses(ls_str *out, const ls_loss_list *l, bool json)
{
    const bool list = l->n > 1;
    ls_str_add(out, list ? "[" : l->n ? "" : "{}");
    for (int i = 0; i < l->n; i++) {
        ls_str_add(out, i ? ", " : "");
        print_loss(out, &l->at[i], l->class_weights[i], json);
    }
    ls_str_add(out, list ? "]" : "");
}

static void print_ports(ls_str *out, const ls_port_list *l, bool json)
{
    ls_str_add(out, "{");
    for (int i = 0; i < l->n; i++) {
        print_name(out, l->at[i].name, json, i == 0);
        ls_str_add(out, "[");
        for (int d = 0; d < l->at[i].type.ndim; d++)
            ls_str_printf(out, "%s%lld", d ? ", " : "", (long long)l->at[i].type.dims[d]);
        ls_str_add(out, "]");
    }
    ls_str_add(out, "}");
}

static void print_files(ls_str *out, const ls_file_list *l, bool json)
{
    ls_str_add(out, "{");
    for (int i = 0; i < l->n; i++) {
        print_name(out, l->at[i].field, json, i == 0);
        print_text(out, l->at[i].file, json);
    }
    ls_str_add(out, "}");
}

void ls_named_print(const ls_key *k, const ls_recipe *r, bool json, ls_str *out)
{
    if (k->kind == LS_KEY_PORTS)
        print_ports(out, CONST_MEMBER(ls_port_list, r, k), json);
    else if (k->kind == LS_KEY_FILES)
        print_files(out, CONST_MEMBER(ls_file_list, r, k), json);
    else
        print_losses(out, CONST_MEMBER(ls_loss_list, r, k), json);
}

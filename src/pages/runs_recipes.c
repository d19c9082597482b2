/* runs_recipes.c - see runs_recipes.h. recipe.yaml of a run is what ls_recipe_yaml printed: a key in each
 * line, sections by indentation. It is read as text, so that runs of other versions can be compared. */
#include "runs_recipes.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "page.h"

/* A key, with its value in each run; NULL: the run's recipe has no such key. */
typedef struct setting {
    const char *key, **values;
} setting;

typedef struct settings {
    ls_arena arena;
    int runs, n, cap;
    setting *at;
    bool *has; /* [runs]: it has a recipe */
} settings;

/* The setting of that key; recipes have their keys in nearly the same order, so it looks behind `last` first.
 * NULL: no memory. */
static setting *setting_of(settings *s, const char *key, int *last)
{
    for (int i = 0; i < s->n; i++) {
        const int k = (*last + 1 + i) % s->n;
        if (!strcmp(s->at[k].key, key)) {
            *last = k;
            return &s->at[k];
        }
    }
    if (s->n == s->cap) {
        setting *more = LS_ARENA_ARRAY(&s->arena, setting, 2 * s->cap + 128);
        if (!more)
            return NULL;
        if (s->n)
            memcpy(more, s->at, sizeof *more * (size_t)s->n);
        s->at = more;
        s->cap = 2 * s->cap + 128;
    }
    setting *new = &s->at[s->n];
    *new = (setting){ ls_arena_strdup(&s->arena, key), LS_ARENA_ARRAY(&s->arena, const char *, s->runs) };
    if (!new->values)
        return NULL;
    *last = s->n++;
    return new;
}

/* A key is made of names of different lines, so it is no longer than the text. */
static void read_recipe(settings *s, int run, char *text)
{
    const size_t room = strlen(text) + 1;
    char *key = ls_arena_alloc(&s->arena, room);
    int last = -1;
    if (!key)
        return;
    *key = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        const size_t indent = strspn(line, " ");
        size_t length = 0; /* of the sections that the line is in: one for two spaces */
        for (size_t depth = 0; depth < indent / 2 && key[length]; depth++)
            length += strcspn(key + length, ".") + 1;
        char *colon = strchr(line, ':');
        if (!colon || line[indent] == '-' || line[indent] == '#')
            continue;
        *colon = 0;
        snprintf(key + length, room - length, "%s%s", line + indent, colon[1] ? "" : ".");
        if (!colon[1])
            continue;
        setting *of = setting_of(s, key, &last);
        if (of)
            of->values[run] = ls_arena_strdup(&s->arena, colon + 1 + strspn(colon + 1, " "));
        key[length] = 0; /* the next line may belong to the same section */
    }
}

static ls_status read_all(settings *s, const ls_run_list *l)
{
    s->runs = l->n;
    s->has = LS_ARENA_ARRAY(&s->arena, bool, l->n);
    LS_TRY(ls_arena_status(&s->arena));
    for (int r = 0; r < l->n; r++) {
        char *path = ls_path_join(l->at[r].dir, LS_RUN_RECIPE), *text = NULL;
        size_t size;
        const ls_status one = ls_file_exists(path) ? ls_file_read(&text, &size, path) : LS_OK;
        free(path);
        s->has[r] = text != NULL;
        if (text)
            read_recipe(s, r, text);
        free(text);
        LS_TRY(one);
    }
    return ls_arena_status(&s->arena);
}

static bool is_same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool differs(const settings *s, const setting *of)
{
    int first = -1;
    for (int r = 0; r < s->runs; r++) {
        if (!s->has[r])
            continue;
        if (first >= 0 && !is_same(of->values[r], of->values[first]))
            return strcmp(of->key, "run.name") != 0;
        first = first < 0 ? r : first;
    }
    return false;
}

static void add_table(ls_str *out, const settings *s, const ls_run_list *l)
{
    ls_str_add(out, "<div class=\"scroll\"><table id=\"recipes\"><thead><tr><th>key</th>");
    for (int r = 0; r < s->runs; r++)
        if (s->has[r]) {
            ls_str_printf(out, "<th data-run=\"%d\">", r);
            ls_html_add(out, l->at[r].name);
            ls_str_add(out, "</th>");
        }
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int k = 0; k < s->n; k++) {
        if (!differs(s, &s->at[k]))
            continue;
        ls_str_add(out, "<tr><td>");
        ls_html_add(out, s->at[k].key);
        ls_str_add(out, "</td>");
        for (int r = 0; r < s->runs; r++)
            if (s->has[r]) {
                ls_str_printf(out, "<td data-run=\"%d\">", r);
                ls_html_add(out, s->at[k].values[r] ? s->at[k].values[r] : "–");
                ls_str_add(out, "</td>");
            }
        ls_str_add(out, "</tr>\n");
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

ls_status ls_runs_recipes(ls_str *out, const ls_run_list *l)
{
    settings s = { .n = 0 };
    ls_arena_init(&s.arena);
    const ls_status status = read_all(&s, l);
    if (status == LS_OK)
        add_table(out, &s, l);
    ls_arena_release(&s.arena);
    return status;
}

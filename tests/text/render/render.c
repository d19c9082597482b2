/* render.c - renders conversations for tools/parity_templates.py: `template_render TEMPLATE`, on stdin lines
 * of JSON
 * {"messages", "tools", "variables", "add_generation_prompt", "eos", "specials"}. For each a line of JSON:
 * "text" and "targets" ([begin, end, message]; in bytes), or "error". The first line is {"refused": "..."} if
 * the template is. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "text/template.h"

static void print(json_t *row)
{
    char *line = json_dumps(row, JSON_COMPACT);
    puts(line ? line : "{}");
    free(line);
    json_decref(row);
}

static json_t *ranges(const ls_rendered *r, const ls_template *t, const json_t *row)
{
    const char *specials[200];
    size_t n = 0;
    for (; n < json_array_size(json_object_get(row, "specials")) && n < 200; n++)
        specials[n] = json_string_value(json_array_get(json_object_get(row, "specials"), n));
    ls_str header = { 0 };
    int32_t *target = malloc((r->text.len + 1) * sizeof *target);
    json_t *all = json_array();
    if (target && ls_template_header(t, json_object_get(row, "variables"), &header) == LS_OK &&
        ls_rendered_targets(r, t, json_object_get(row, "messages"), ls_str_text(&header),
                            json_string_value(json_object_get(row, "eos")), specials, n, target) == LS_OK)
        for (size_t i = 0, end; i < r->text.len; i = end) {
            for (end = i + 1; end < r->text.len && target[end] == target[i];)
                end++;
            if (target[i] >= 0)
                json_array_append_new(all, json_pack("[i, i, i]", (int)i, (int)end, target[i]));
        }
    free(target);
    ls_str_release(&header);
    return all;
}

static void render(const ls_template *t, const json_t *row)
{
    ls_rendered r;
    const ls_conversation c = { .messages = json_object_get(row, "messages"),
                                .tools = json_object_get(row, "tools"),
                                .variables = json_object_get(row, "variables"),
                                .add_generation_prompt = json_is_true(
                                    json_object_get(row, "add_generation_prompt")),
                                .clock = 1700000000 };
    if (ls_template_render(t, &c, &r) != LS_OK) {
        print(json_pack("{s:s}", "error", ls_error_message()));
        return;
    }
    print(json_pack("{s:s%, s:o}", "text", ls_str_text(&r.text), r.text.len, "targets", ranges(&r, t, row)));
    ls_rendered_release(&r);
}

int main(int argc, char **argv)
{
    char *text = NULL, *line = NULL;
    size_t n = 0, cap = 0;
    ls_template *t;
    if (argc != 2 || ls_file_read(&text, &n, argv[1]) != LS_OK) {
        fprintf(stderr, "usage: template_render TEMPLATE < conversations\n%s\n", ls_error_message());
        return 2;
    }
    if (ls_template_open(&t, text, n, argv[1]) != LS_OK) {
        print(json_pack("{s:s}", "refused", ls_error_message()));
        free(text);
        return 0;
    }
    while (getline(&line, &cap, stdin) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        render(t, row);
        json_decref(row);
    }
    free(line);
    free(text);
    ls_template_close(&t);
    return 0;
}

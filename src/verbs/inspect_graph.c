/* inspect_graph.c - see inspect_graph.h. */
#include "inspect_graph.h"

#include <ctype.h>
#include <string.h>

#include "graph/op.h"
#include "ops/rules.h"
#include "pages/page.h"

/* Neighbours in the order of the forward pass that belong to one block of the model. A block may occur twice:
 * something else runs between. */
typedef struct part {
    const char *name; /* "encoder.layers.encoder_layer_3"; of inputs: their name */
    int name_length;  /* of its first bytes */
    int first, end;   /* nodes */
    int operations;
    int64_t parameters, buffers;
    bool input;
} part;

typedef struct forward {
    const ls_graph *g;
    ls_arena arena;
    int n;
    part *parts;
    int *part_of; /* [nodes] */
    bool *leaves; /* [values]: another part reads it, or it is an output */
} forward;

static bool is_stored(const ls_node *n) { return n->op == &ls_op_param || n->op == &ls_op_buffer; }

static bool is_operation(const ls_node *n) { return n->op != &ls_op_input && !is_stored(n); }

/* Length of a module's path up to the first component that ends in a digit: all of encoder_layer_3 is one
 * block. */
static int block_length(const char *path)
{
    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, ".");
        p += n;
        if (n && isdigit((unsigned char)p[-1]))
            return (int)(p - path);
        p += *p == '.';
    }
    return (int)strlen(path);
}

static bool belongs(const part *p, const ls_node *n)
{
    const char *path = n->scope->path;
    return !p->input && n->op != &ls_op_input && block_length(path) == p->name_length &&
           !strncmp(path, p->name, (size_t)p->name_length);
}

static void find_parts(forward *f)
{
    const ls_graph *g = f->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (!f->n || !belongs(&f->parts[f->n - 1], n)) {
            const bool input = n->op == &ls_op_input;
            const char *name = input ? ((const ls_source_attrs *)n->attrs)->name : n->scope->path;
            f->parts[f->n++] = (part){ .name = name,
                                       .name_length = input ? (int)strlen(name) : block_length(name),
                                       .first = i,
                                       .input = input };
        }
        part *p = &f->parts[f->n - 1];
        p->end = i + 1;
        p->operations += is_operation(n);
        p->parameters += n->op == &ls_op_param ? ls_type_count(ls_type_of(g, n->out[0])) : 0;
        p->buffers += n->op == &ls_op_buffer ? ls_type_count(ls_type_of(g, n->out[0])) : 0;
        f->part_of[i] = f->n - 1;
    }
}

static void find_results(forward *f)
{
    const ls_graph *g = f->g;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            const ls_value v = g->nodes[i]->in[k];
            if (ls_present(v) && f->part_of[ls_val_of(g, v)->node] != f->part_of[i])
                f->leaves[v.id] = true;
        }
    for (int i = 0; i < g->n_outputs; i++)
        f->leaves[g->outputs[i].value.id] = true;
}

/* The types of what leaves a part, with the names of outputs: "logits f32 [1, 10]". */
static void results_text(ls_str *out, const forward *f, const part *p)
{
    const ls_graph *g = f->g;
    char type[128];
    const char *between = "";
    for (int i = p->first; i < p->end; i++)
        for (int k = 0; k < g->nodes[i]->n_out && !is_stored(g->nodes[i]); k++) {
            const ls_value v = g->nodes[i]->out[k];
            if (!f->leaves[v.id])
                continue;
            ls_str_add(out, between);
            for (int o = 0; o < g->n_outputs; o++)
                if (g->outputs[o].value.id == v.id)
                    ls_str_printf(out, "%s ", g->outputs[o].name);
            ls_str_add(out, ls_type_text(type, ls_type_of(g, v)));
            between = ", ";
        }
}

static void name_text(ls_str *out, const part *p)
{
    ls_str_add(out, p->input ? "input " : "");
    ls_str_add_n(out, p->name, (size_t)p->name_length);
    ls_str_add(out, !p->input && !p->name_length ? "(top level)" : "");
}

/* ---- the data */

static void operations_json(ls_json *j, const forward *f, const part *p)
{
    char type[128];
    ls_json_array(j, "operations"); /* [op, module below the block, type of its first result] */
    for (int i = p->first; i < p->end; i++) {
        const ls_node *n = f->g->nodes[i];
        if (!is_operation(n))
            continue;
        const char *below = n->scope->path + (p->input ? 0 : p->name_length);
        ls_json_array(j, NULL);
        ls_json_text(j, NULL, n->op->name);
        ls_json_text(j, NULL, below + (*below == '.'));
        ls_json_text(j, NULL, n->n_out ? ls_type_text(type, ls_type_of(f->g, n->out[0])) : "");
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
}

static void sources_json(ls_json *j, forward *f, int number)
{
    const part *p = &f->parts[number];
    bool *seen = LS_ARENA_ARRAY(&f->arena, bool, f->n);
    ls_json_array(j, "from"); /* numbers of other parts */
    for (int i = p->first; seen && i < p->end; i++)
        for (int k = 0; k < f->g->nodes[i]->n_in; k++) {
            const ls_value v = f->g->nodes[i]->in[k];
            const int from = ls_present(v) ? f->part_of[ls_val_of(f->g, v)->node] : number;
            if (from != number && !seen[from])
                ls_json_int(j, NULL, from);
            seen[from] = true;
        }
    ls_json_close_array(j);
}

static void part_json(ls_json *j, forward *f, int number)
{
    const part *p = &f->parts[number];
    ls_str text = { 0 };
    ls_json_object(j, NULL);
    name_text(&text, p);
    ls_json_text(j, "name", ls_str_text(&text));
    ls_json_int(j, "parameters", p->parameters);
    ls_str_clear(&text);
    results_text(&text, f, p);
    ls_json_text(j, "result", ls_str_text(&text));
    operations_json(j, f, p);
    sources_json(j, f, number);
    ls_json_close_object(j);
    ls_str_inherit(&j->out, &text);
    ls_str_release(&text);
}

/* ---- the words */

static void row(ls_str *out, const forward *f, const part *p)
{
    char count[32];
    ls_str text = { 0 };
    name_text(&text, p);
    ls_str_add(out, "<tr><th scope=\"row\">");
    ls_html_add(out, ls_str_text(&text));
    ls_str_printf(out, "</th><td>%d</td>", p->operations);
    ls_str_printf(out, "<td>%s</td><td>", p->parameters ? ls_html_count(count, p->parameters) : "");
    ls_str_printf(out, "%s</td><td>", p->buffers ? ls_html_count(count, p->buffers) : "");
    ls_str_clear(&text);
    results_text(&text, f, p);
    ls_html_add(out, ls_str_text(&text));
    ls_str_add(out, "</td></tr>\n");
    ls_str_inherit(out, &text);
    ls_str_release(&text);
}

static void figure(ls_str *out, const forward *f)
{
    ls_str_add(out, "<h2>Forward pass</h2>\n<p class=\"note\">The blocks of the model in the order in which "
                    "they run. Shapes are those of one sample, on one rank.</p>\n"
                    "<figure class=\"chart\" aria-label=\"the forward pass\" id=\"graph\">\n<noscript><p "
                    "class=\"note\">The drawing needs scripts. Its numbers are in the table.</p></noscript>\n"
                    "<div class=\"scroll\"><table class=\"numbers\">"
                    "<caption>the forward pass</caption>\n<thead><tr><th>block</th><th>operations</th>"
                    "<th>parameters</th><th>in buffers</th><th>result</th></tr></thead><tbody>\n");
    for (int k = 0; k < f->n; k++)
        row(out, f, &f->parts[k]);
    ls_str_add(out, "</tbody></table></div>\n</figure>\n");
}

ls_status ls_inspect_graph(ls_json *j, ls_str *out, const ls_graph *g)
{
    forward f = { .g = g };
    ls_arena_init(&f.arena);
    f.parts = LS_ARENA_ARRAY(&f.arena, part, g->n_nodes + 1);
    f.part_of = LS_ARENA_ARRAY(&f.arena, int, g->n_nodes + 1);
    f.leaves = LS_ARENA_ARRAY(&f.arena, bool, g->n_vals + 1);
    ls_status s = ls_arena_status(&f.arena);
    if (s == LS_OK) {
        find_parts(&f);
        find_results(&f);
        ls_json_array(j, "graph");
        for (int k = 0; k < f.n; k++)
            part_json(j, &f, k);
        ls_json_close_array(j);
        figure(out, &f);
        s = ls_arena_status(&f.arena);
    }
    ls_arena_release(&f.arena);
    return s;
}

/* inspect_recipe.c - builds the recipe's model and lays its parameters out, without compiling a step. */
#include "base/shown.h"
#include "inspect_recipe.h"

#include "base/json.h"
#include "base/str.h"
#include "graph/graph.h"
#include "inspect_page.h"
#include "module_tree.h"
#include "ops/rules.h"
#include "setup/compiled_recipe.h"
#include "step/state.h"

typedef struct model {
    ls_recipe *recipe;
    ls_setup setup;
    ls_graph *graph, *built; /* built: before it was laid out over ranks */
    ls_units units;
} model;

/* For one sample, as in an evaluation: one is too few for batch norm in training. */
static ls_status build_model(ls_graph **g, const model *m)
{
    LS_TRY(ls_graph_create(g, m->recipe->run.name));
    ls_graph_evaluate(*g);
    return ls_recipe_build(*g, m->recipe, 1);
}

static ls_status build(model *m, const ls_recipe_arg *arg)
{
    LS_TRY(ls_recipe_load(&m->recipe, arg->name, arg->n_sets, arg->sets));
    LS_TRY(ls_setup_make(&m->setup, m->recipe, (int)m->recipe->workers.max, 0, 0));
    LS_TRY(build_model(&m->built, m)); /* twice: passes replace a graph */
    LS_TRY(build_model(&m->graph, m));
    m->graph->n_outputs = 0; /* nothing runs: an output that an axis splits is none of our business */
    LS_TRY(ls_pass_propagate(&m->graph, &m->setup.trainer.parallel));
    const ls_precision precision = ls_trainer_precision(&m->setup.trainer);
    const char *words[LS_GROUPS_MOST];
    ls_trained trained;
    LS_TRY(ls_trainer_trained(&trained, words, &m->setup.trainer));
    return ls_units_lay_out(&m->units, m->graph, &m->setup.trainer.parallel, &trained, &precision);
}

/* "unit encoder.ln  rank 1: 0-640, rank 2: 640-1024": elements of the flattened tensor. */
static void note_text(ls_str *out, const model *m, int slot)
{
    const ls_mesh *mesh = &m->setup.trainer.parallel.mesh;
    const char *between = " ";
    ls_str_add(out, m->units.units[m->units.slots[slot].unit].state);
    for (int r = 0; r < ls_mesh_ranks(mesh); r++) {
        const ls_local_shard h = ls_slot_local_shard(&m->units, mesh, slot, r);
        if (!h.count)
            continue;
        ls_str_printf(out, "%s rank %d: ", between, r);
        if (!ls_box_is_whole(&h.box))
            ls_str_printf(out, "of block %lld ", (long long)ls_box_number(&h.box, &(int64_t){ 0 }));
        if (ls_local_shard_all(&h))
            ls_str_add(out, "all");
        else
            ls_str_printf(out, "%lld-%lld", (long long)h.first, (long long)(h.first + h.count));
        between = ",";
    }
}

static ls_status add_text(ls_str *out, const model *m)
{
    const ls_units *u = &m->units;
    ls_arena scratch;
    ls_arena_init(&scratch);
    ls_tree_item *items = LS_ARENA_ARRAY(&scratch, ls_tree_item, u->n_slots);
    for (int i = 0; items && i < u->n_slots; i++) {
        ls_str note = { 0 };
        items[i] = (ls_tree_item){ .name = u->slots[i].name, .type = u->slots[i].whole };
        if (!ls_slot_everywhere(u, i))
            note_text(&note, m, i);
        if (note.len)
            items[i].note = ls_arena_strdup(&scratch, note.data);
        ls_str_release(&note);
    }
    char title[128];
    snprintf(title, sizeof title, "%s (%s)", m->recipe->run.name, m->recipe->model.type);
    const ls_status s = ls_arena_status(&scratch);
    if (s == LS_OK)
        ls_module_tree_text(out, title, u->n_slots, items);
    ls_arena_release(&scratch);
    return s;
}

static ls_status print_text(const model *m, const ls_ui *ui)
{
    ls_str text = { 0 };
    const ls_status s = add_text(&text, m);
    if (s == LS_OK)
        return ls_print_result(ui->out, &text);
    ls_str_release(&text);
    return s;
}

static ls_status print_json(const model *m, const ls_ui *ui)
{
    const ls_units *u = &m->units;
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "path", m->recipe->run.name);
    ls_json_array(&j, "tensors");
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *slot = &u->slots[i];
        ls_json_object(&j, NULL);
        ls_json_text(&j, "name", slot->name);
        ls_json_text(&j, "dtype", ls_dtype_name(slot->type.dtype));
        ls_json_array(&j, "shape");
        for (int d = 0; d < slot->whole.ndim; d++)
            ls_json_int(&j, NULL, slot->whole.dims[d]);
        ls_json_close_array(&j);
        ls_json_text(&j, "stored_in", u->units[slot->unit].state);
        ls_json_int(&j, "offset", slot->offset);
        ls_stored_parts_json(&j, "parts", u, &m->setup.trainer.parallel, i);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_int(&j, "elements", u->parameters);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}

static void layout_about(ls_str *out, const model *m)
{
    const ls_parallel *p = &m->setup.trainer.parallel;
    char mesh[128];
    ls_str_printf(out, "%s", m->recipe->model.type);
    if (ls_mesh_ranks(&p->mesh) > 1)
        ls_str_printf(out, " · %lld ranks: %s, %d units", (long long)ls_mesh_ranks(&p->mesh),
                      ls_mesh_text(mesh, &p->mesh), m->units.n);
}

static void page_parameters(ls_inspect_page *p, const model *m, int ranks)
{
    const ls_units *u = &m->units;
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *slot = &u->slots[i];
        ls_type whole = slot->whole;
        whole.dtype = slot->type.dtype;
        ls_inspect_page_tensor(p, slot->name, ls_dtype_name(whole.dtype), &whole, ls_type_bytes(&whole),
                               u->units[slot->unit].state, false);
        for (int r = 0; r < ranks; r++) {
            const ls_local_shard h = ls_slot_local_shard(u, &m->setup.trainer.parallel.mesh, i, r);
            ls_str text = { 0 };
            ls_local_shard_text(&text, &h);
            if (h.count)
                ls_inspect_page_held(p, r, h.count, ls_str_text(&text));
            ls_str_inherit(&p->rows, &text);
            ls_str_release(&text);
        }
        ls_inspect_page_tensor_end(p);
    }
}

static void page_buffers(ls_inspect_page *p, const model *m, int ranks)
{
    for (int i = 0; i < m->built->n_nodes; i++) {
        const ls_node *n = m->built->nodes[i];
        if (n->op != &ls_op_buffer)
            continue;
        const ls_source_attrs *of = n->attrs;
        ls_inspect_page_tensor(p, of->name, ls_dtype_name(of->type.dtype), &of->type,
                               ls_type_bytes(&of->type), "a buffer", true);
        for (int r = 0; r < ranks; r++)
            ls_inspect_page_held(p, r, ls_type_count(&of->type), "all of it");
        ls_inspect_page_tensor_end(p);
    }
}

static ls_status write_page(const model *m, const char *path)
{
    const int ranks = (int)ls_mesh_ranks(&m->setup.trainer.parallel.mesh);
    ls_inspect_page p;
    ls_str about = { 0 }, printed = { 0 };
    layout_about(&about, m);
    ls_inspect_page_begin(&p, m->recipe->run.name, ls_str_text(&about), "rank", ranks);
    const char **names = LS_ARENA_ARRAY(&p.arena, const char *, ranks);
    for (int r = 0; names && r < ranks; r++)
        names[r] = ls_arena_printf(&p.arena, "rank %d", r);
    page_parameters(&p, m, ranks);
    page_buffers(&p, m, ranks);
    ls_status s = add_text(&printed, m);
    ls_str_inherit(&printed, &about);
    if (s == LS_OK)
        s = ls_arena_status(&p.arena);
    if (s == LS_OK)
        s = ls_inspect_page_write(&p, path, ranks, names, &printed, m->built);
    ls_inspect_page_release(&p);
    ls_str_release(&about);
    ls_str_release(&printed);
    return s;
}

ls_status ls_inspect_recipe(const ls_inspect_opts *o, const ls_ui *ui)
{
    model m = { 0 };
    ls_status s = build(&m, &o->model);
    if (s == LS_OK)
        s = o->html ? write_page(&m, o->html) : (o->json ? print_json : print_text)(&m, ui);
    ls_units_release(&m.units);
    ls_graph_destroy(&m.graph);
    ls_graph_destroy(&m.built);
    ls_recipe_destroy(&m.recipe);
    return s;
}

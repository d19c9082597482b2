/* inspect_recipe.c - builds the recipe's model and lays its parameters out, without compiling a step. */
#include "base/shown.h"
#include "inspect_recipe.h"

#include "base/json.h"
#include "base/str.h"
#include "graph/graph.h"
#include "inspect_page.h"
#include "module_tree.h"
#include "setup/compiled_recipe.h"
#include "step/state.h"

typedef struct model {
    ls_recipe *recipe;
    ls_setup setup;
    ls_graph *graph;
    ls_units units;
} model;

static ls_status build(model *m, const ls_recipe_arg *arg)
{
    LS_TRY(ls_recipe_load(&m->recipe, arg->name, arg->n_sets, arg->sets));
    LS_TRY(ls_setup_make(&m->setup, m->recipe, (int)m->recipe->workers.max, 0, 0));
    LS_TRY(ls_graph_create(&m->graph, m->recipe->run.name));
    ls_graph_evaluate(m->graph); /* one sample is too few for batch norm in training */
    LS_TRY(ls_recipe_build(m->graph, m->recipe, 1));
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

static ls_status print_text(const model *m, const ls_ui *ui)
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
        ls_module_tree_print(ui->out, title, u->n_slots, items);
    ls_arena_release(&scratch);
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

static ls_status write_page(const model *m, const char *path)
{
    const ls_units *u = &m->units;
    const ls_mesh *mesh = &m->setup.trainer.parallel.mesh;
    const int ranks = (int)ls_mesh_ranks(mesh);
    ls_json j = { 0 };
    ls_str text = { 0 };
    ls_arena a;
    ls_arena_init(&a);
    const char **names = LS_ARENA_ARRAY(&a, const char *, ranks);
    layout_about(&text, m);
    ls_inspect_page_begin(&j, m->recipe->run.name, ls_str_text(&text), "rank");
    for (int r = 0; names && r < ranks; r++)
        names[r] = ls_arena_printf(&a, "rank %d", r);
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *slot = &u->slots[i];
        ls_type whole = slot->whole;
        whole.dtype = slot->type.dtype;
        ls_inspect_page_tensor(&j, slot->name, ls_dtype_name(whole.dtype), &whole, ls_type_bytes(&whole),
                               u->units[slot->unit].state);
        for (int r = 0; r < ranks; r++) {
            const ls_local_shard h = ls_slot_local_shard(u, mesh, i, r);
            ls_str_clear(&text);
            ls_local_shard_text(&text, &h);
            if (h.count)
                ls_inspect_page_held(&j, r, h.count, ls_str_text(&text));
        }
        ls_inspect_page_tensor_end(&j);
    }
    ls_str_inherit(&j.out, &text);
    ls_status s = ls_arena_status(&a);
    if (s == LS_OK)
        s = ls_inspect_page_write(path, m->recipe->run.name, &j, ranks, names);
    ls_str_release(&j.out);
    ls_str_release(&text);
    ls_arena_release(&a);
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
    ls_recipe_destroy(&m.recipe);
    return s;
}

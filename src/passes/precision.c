/* precision.c - policies of modules: reads them, finds the modules that they belong to, and adds the
 * casts. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "ops/rules.h"
#include "passes.h"

/* ---- words: "class:LayerNorm=f32 pattern:heads.head=f32,output=bf16" */

#define FORM                                                                                           \
    "a word is class:NAME=TYPE or pattern:GLOB=TYPE, TYPE being f32, bf16 or f16, and may go on with " \
    ",output=TYPE ,reduce=TYPE ,cast_forward_inputs=false, as in class:LayerNorm=f32,output=bf16"

static bool read_type(ls_dtype *out, const char *text)
{
    return ls_dtype_parse(text, out) && ls_dtype_is_float(*out) && *out != LS_F64;
}

static bool read_member(ls_policy *p, const char *text)
{
    const char *value = strchr(text, '=');
    const int n = value ? (int)(value++ - text) : 0;
    if (n == 6 && !strncmp(text, "output", 6))
        return p->has_output = read_type(&p->output, value);
    if (n == 6 && !strncmp(text, "reduce", 6))
        return read_type(&p->reduce, value);
    if (n != 19 || strncmp(text, "cast_forward_inputs", 19))
        return false;
    p->cast_forward_inputs = !strcmp(value, "true");
    return p->cast_forward_inputs || !strcmp(value, "false");
}

/* Changes `word`: `which` of the policy points into it. */
static bool read_word(ls_policy *p, char *word, const ls_precision *model)
{
    char *type = strchr(word, '='), *end;
    const char *rest = !strncmp(word, "class:", 6) ? word + 6 : !strncmp(word, "pattern:", 8) ? word + 8 : "";
    if (!type || type <= rest || !*rest)
        return false;
    *type++ = 0;
    *p = (ls_policy){ .reduce = model->reduce,
                      .cast_forward_inputs = model->cast_forward_inputs,
                      .which = word };
    for (char *member = type; member; member = end) {
        if ((end = strchr(member, ',')))
            *end++ = 0;
        if (member == type ? !read_type(&p->param, member) : !read_member(p, member))
            return false;
    }
    return true;
}

static bool has_effect(const ls_policy *p, const ls_precision *model)
{
    return p->param != model->param || p->reduce != model->reduce ||
           (p->has_output && p->output != p->param) || p->cast_forward_inputs != model->cast_forward_inputs;
}

/* The policies of all words, after that of the model. */
static ls_status read_words(ls_policies *out, ls_arena *a, const ls_precision *p)
{
    const char *text = p->modules ? p->modules : "";
    char word[512];
    out->all = LS_ARENA_ARRAY(a, ls_policy, strlen(text) / 2 + 2);
    LS_TRY(ls_arena_status(a));
    out->n = 1;
    out->all[0] = (ls_policy){ .param = p->param,
                               .reduce = p->reduce,
                               .output = p->output,
                               .cast_forward_inputs = p->cast_forward_inputs,
                               .which = "" };
    for (int used; sscanf(text, "%511s%n", word, &used) == 1; text += used) {
        ls_policy *read = &out->all[out->n++];
        if (p->param == LS_F64)
            return ls_fail_field(LS_E_USAGE, "modules",
                                 "%s has no effect with param f64, which computes everything in f64", word);
        char *kept = ls_arena_strdup(a, word);
        LS_TRY(ls_arena_status(a));
        if (!read_word(read, kept, p))
            return ls_fail_field(LS_E_USAGE, "modules", "'%s': " FORM, word);
        if (!has_effect(read, p))
            return ls_fail_field(LS_E_USAGE, "modules", "%s changes nothing: the whole model computes in %s",
                                 word, ls_dtype_name(p->param));
    }
    return LS_OK;
}

ls_status ls_precision_check(const ls_precision *p)
{
    ls_arena a;
    ls_policies policies = { 0 };
    ls_arena_init(&a);
    const ls_status s = read_words(&policies, &a, p);
    ls_arena_release(&a);
    return s;
}

bool ls_precision_has_f16(const ls_precision *p)
{
    ls_arena a;
    ls_policies policies = { 0 };
    ls_arena_init(&a);
    read_words(&policies, &a, p);
    bool has = false;
    for (int i = 0; i < policies.n; i++)
        has |= policies.all[i].param == LS_F16;
    ls_arena_release(&a);
    return has;
}

/* ---- whose they are */

/* If several words match a module, the first one counts. */
static void find_policy(ls_policies *p, bool *found, const ls_scope *s)
{
    for (int k = 1; k < p->n; k++) {
        const bool match = ls_words_name(p->all[k].which, s);
        found[k] |= match;
        if (match && !p->of_scope[s->id])
            p->of_scope[s->id] = k;
    }
}

ls_status ls_policies_make(ls_policies *out, ls_arena *a, const ls_graph *g, const ls_precision *p)
{
    *out = (ls_policies){ 0 };
    LS_TRY(read_words(out, a, p));
    out->of_scope = LS_ARENA_ARRAY(a, int, g->n_scopes + 1);
    bool *found = LS_ARENA_ARRAY(a, bool, out->n), *seen = LS_ARENA_ARRAY(a, bool, g->n_scopes + 1);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < g->n_nodes && out->n > 1; i++)
        for (const ls_scope *s = g->nodes[i]->scope; s && !seen[s->id]; s = s->parent) {
            seen[s->id] = true;
            find_policy(out, found, s);
        }
    for (int k = 1; k < out->n; k++)
        if (!found[k])
            return ls_fail_field(LS_E_USAGE, "modules",
                                 "%s: the model has no module that matches (lockstep inspect RECIPE shows "
                                 "its modules; classes of layers are those of PyTorch)",
                                 out->all[k].which);
    return LS_OK;
}

/* The innermost module with a policy; NULL: there is none, and the model's policy counts. */
static const ls_scope *module_of(const ls_policies *p, const ls_scope *s)
{
    while (s && !p->of_scope[s->id])
        s = s->parent;
    return s;
}

const ls_policy *ls_policy_of(const ls_policies *p, const ls_scope *scope)
{
    const ls_scope *module = module_of(p, scope);
    return &p->all[module ? p->of_scope[module->id] : 0];
}

/* ---- casts */

/* A cast that was made: a value of the new graph in place of one of the old. */
typedef struct ls_cast_made {
    ls_value from[LS_DTYPE_COUNT], to[LS_DTYPE_COUNT];
} ls_cast_made;

ls_casts ls_casts_begin(ls_rewrite *r, const ls_policies *p)
{
    const ls_casts c = { .policies = p,
                         .made = LS_ARENA_ARRAY(&r->to->arena, ls_cast_made, r->from->n_vals) };
    ls_graph_room(r->to); /* without memory nothing is rewritten */
    return c;
}

static bool is_float(const ls_rewrite *r, ls_value v)
{
    return ls_present(v) && ls_dtype_is_float(ls_value_type(r->to, v).dtype);
}

/* Casts v, which stands for the value `old` of the old graph, unless this was done before. */
static ls_value cast_once(ls_casts *c, ls_rewrite *r, ls_value old, ls_value v, ls_dtype to)
{
    ls_cast_made *m = &c->made[old.id];
    if (m->from[to].id != v.id || !ls_present(m->to[to])) {
        m->from[to] = v;
        m->to[to] = ls_cast(r->to, v, to);
    }
    return m->to[to];
}

static bool is_within(const ls_scope *s, const ls_scope *module)
{
    while (s && s != module)
        s = s->parent;
    return s != NULL;
}

/* The casts of a value that enters `module` from scope `from`: those of the modules around it that it enters
 * first, then that of `module`. */
static ls_value precision_enter(ls_casts *c, ls_rewrite *r, ls_value old, ls_value v, const ls_scope *module,
                                const ls_scope *from)
{
    const ls_policies *p = c->policies;
    if (!module || is_within(from, module))
        return v;
    v = precision_enter(c, r, old, v, module_of(p, module->parent), from);
    const ls_policy *policy = &p->all[p->of_scope[module->id]];
    return policy->cast_forward_inputs ? cast_once(c, r, old, v, policy->param) : v;
}

/* Casts an operand that another module made: where it leaves that module, and where it enters this one.
 * Parameters and states are not inputs of modules. */
static ls_value cross(ls_casts *c, ls_rewrite *r, const ls_node *n, ls_value old, ls_value v)
{
    const ls_policies *p = c->policies;
    const ls_node *made = ls_node_of(r->from, old);
    if (p->n == 1 || !is_float(r, v) || ((made->op->flags & LS_OP_SOURCE) && made->op != &ls_op_input))
        return v;
    for (const ls_scope *m = module_of(p, made->scope); m && !is_within(n->scope, m);
         m = module_of(p, m->parent)) {
        const ls_policy *left = &p->all[p->of_scope[m->id]];
        if (left->has_output)
            v = cast_once(c, r, old, v, left->output);
    }
    return precision_enter(c, r, old, v, module_of(p, n->scope), made->scope);
}

static bool reads_logits(const ls_node *n)
{
    return n->op == &ls_op_cross_entropy || n->op == &ls_op_cross_entropy_part || n->op == &ls_op_argmax ||
           n->op == &ls_op_argmax_part;
}

/* Operands differ in type, and the module casts no inputs: constants have no type of their own. */
static bool may_agree(const ls_rewrite *r, const ls_node *n, int n_in, const ls_value *in, ls_dtype type)
{
    bool fine = true;
    for (int k = 0; k < n_in; k++)
        fine &= !is_float(r, in[k]) || ls_value_type(r->to, in[k]).dtype == type ||
                ls_node_of(r->from, n->in[k])->op == &ls_op_fill;
    return fine;
}

/* FSDP's MixedPrecisionPolicy(output_dtype=...): the model's logits get this type for all their readers:
 * loss, predictions, probabilities. These compute in f32 from logits of any type, so 16-bit logits need no
 * wider copy. */
ls_value ls_pass_output(ls_graph *g, ls_value logits, ls_dtype output)
{
    const ls_dtype is = ls_value_type(g, logits).dtype;
    return ls_dtype_is_float(is) && is != LS_F64 && ls_dtype_size(is) >= ls_dtype_size(output)
               ? ls_cast(g, logits, output)
               : logits;
}

void ls_casts_operands(ls_casts *c, ls_rewrite *r, const ls_node *n, ls_value *in)
{
    const ls_policy *policy = ls_policy_of(c->policies, n->scope);
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(in[k]))
            in[k] = cross(c, r, n, n->in[k], in[k]);
    if (reads_logits(n)) {
        in[0] = ls_pass_output(r->to, in[0], c->policies->all[0].output);
        return;
    }
    /* an op of a wide scope is never rounded to 16 bits; only its parameters have the module's type */
    for (int k = 0; n->scope->wide && k < n->n_in; k++)
        if (is_float(r, in[k]) && ls_dtype_size(ls_value_type(r->to, in[k]).dtype) < 4)
            in[k] = cast_once(c, r, n->in[k], in[k], LS_F32);
    if (n->scope->wide)
        return;
    /* scalars of the loss and running statistics are not cast */
    const int n_in = n->op == &ls_op_batch_norm_eval ? 3 : n->n_in;
    bool mixed = false;
    int first = -1;
    for (int k = 0; k < n_in; k++)
        if (is_float(r, in[k])) {
            first = first < 0 ? k : first;
            mixed |= ls_value_type(r->to, in[k]).dtype != ls_value_type(r->to, in[first]).dtype;
        }
    if (!mixed)
        return;
    if (!policy->cast_forward_inputs && !c->refused && !may_agree(r, n, n_in, in, policy->param))
        c->refused = n;
    for (int k = 0; k < n_in; k++)
        if (is_float(r, in[k]))
            in[k] = cast_once(c, r, n->in[k], in[k], policy->param);
}

ls_status ls_casts_status(const ls_casts *c)
{
    const ls_node *n = c->refused;
    return n ? ls_fail_field(LS_E_USAGE, "cast_forward_inputs",
                             "false, and %s%s%s%s gets operands of several float types; say true, or let the "
                             "model cast them",
                             n->op->name, n->scope->path[0] ? " of module " : "", n->scope->path,
                             n->scope->path[0] ? "" : " of the model")
             : LS_OK;
}

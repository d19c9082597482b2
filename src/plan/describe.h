/* describe.h - plans in words: what `lockstep plan` and `lockstep explain` print, as text for people and JSON for programs. */
#pragma once
#include "base/json.h"
#include "plan.h"

/* Memory of a session over these plans: names are shared, the arena is the largest one. Without guard pages. */
typedef struct ls_footprint {
    size_t state, io, arena, total;
    size_t by_category[LS_CAT_COUNT]; /* at the worst moment of any program; sums to total minus what packing loses and alignment */
    int peak_plan;                    /* the program with that moment */
} ls_footprint;
void ls_plans_footprint(ls_footprint *out, int n_plans, ls_plan *const *plans);

/* "linear_dx  encoder.layers.encoder_layer_3.mlp" */
void ls_step_label(ls_str *out, const ls_plan *p, int step);

/* A program in short: steps, FLOPs, bytes, time; memory by category at the peak; the peak's moment; the largest things alive there. */
void ls_plan_text(ls_str *out, ls_plan *p, int top);
void ls_plan_json(ls_json *j, const char *key, ls_plan *p, int top);

/* The schedule line by line: phase, scope, op, operands with types, where each output lies, what is in place, a view or a copy. */
void ls_explain_text(ls_str *out, const ls_plan *p);
void ls_explain_json(ls_json *j, const char *key, const ls_plan *p);

/* Where a parameter is stored: elements [offset, offset + count of type) of source `state` (a unit's flat buffer, or the parameter itself). */
typedef struct ls_stored_at { const char *name, *state; int64_t offset; ls_type type; } ls_stored_at;
/* Its life through the programs: storage, views and casts, every step that reads it, its gradient's birth, its update. */
void ls_explain_param_text(ls_str *out, const ls_stored_at *at, int n_plans, ls_plan *const *plans);
void ls_explain_param_json(ls_json *j, const char *key, const ls_stored_at *at, int n_plans, ls_plan *const *plans);

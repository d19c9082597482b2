/* recipe_sections.c - the sections of a recipe, in the order of docs/recipe.md. */
#include "recipe_fields.h"

const ls_section LS_SECTIONS[] = {
    { "run", "the run and its folder" },
    { "top level", "where it runs" },
    { "model", "the network; keys depend on `type`" },
    { "data", "the samples" },
    { "train", "the loop" },
    { "optimizer", "how a gradient changes a parameter; keys depend on `type`" },
    { "schedule", "the learning rate over the steps; keys depend on `type`" },
    { "parallel", "how the step is laid over ranks, and what is recomputed" },
    { "precision", "element types; parameters and moments are always kept in f32 too" },
    { "eval", "evaluation on the held-out split" },
    { "checkpoint", "what is kept on disk" },
    { "failure", "when something breaks" },
    { "log", "what is printed" },
};
const int LS_SECTION_COUNT = (int)(sizeof LS_SECTIONS / sizeof LS_SECTIONS[0]);

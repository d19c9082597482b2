/* verb_unknown.c - what was probably meant by a verb that there is not. */
#include <string.h>

#include "base/str.h"
#include "cli.h"

/* Words of other programs for our verbs. */
static const char *foreign_verb(const char *name)
{
    static const char *const WORDS[][2] = {
        { "evaluate", "eval" },     { "test", "eval" },        { "validate", "eval" },
        { "metrics", "eval" },      { "fit", "train" },        { "run", "train" },
        { "start", "train" },       { "resume", "train" },     { "infer", "predict" },
        { "inference", "predict" }, { "generate", "predict" }, { "sample", "predict" },
        { "tune", "sweep" },        { "search", "sweep" },     { "init", "new" },
        { "create", "new" },        { "report", "runs" },      { "list", "runs" },
        { "ls", "runs" },           { "history", "runs" },     { "compare", "runs" },
        { "save", "export" },       { "convert", "export" },   { "download", "get" },
        { "summary", "inspect" },   { "info", "inspect" },     { "show", "inspect" },
        { "config", "recipe" },     { "recipes", "recipe" },   { "monitor", "watch" },
        { "check", "doctor" },      { "env", "doctor" },       { "torchrun", "launch" },
        { "dataset", "data" },
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strcmp(WORDS[i][0], name))
            return WORDS[i][1];
    return NULL;
}

ls_status ls_verb_unknown(const char *name)
{
    const char *names[32];
    int n = 0;
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        names[n++] = v->name;
    const char *foreign = foreign_verb(name), *near = foreign ? foreign : ls_nearest_name(name, names, n);
    if (near)
        return ls_fail(LS_E_USAGE, "there is no `lockstep %s`; did you mean `lockstep %s`?", name, near);
    return ls_fail(LS_E_USAGE, "there is no `lockstep %s` (lockstep --help lists the verbs)", name);
}

/* report.c - report.html: the list of its sections, its head, the recipe or configuration at its end. */
#include "report.h"
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "report_own.h"

static void warn(ls_str *out, const char *text)
{
    ls_str_add(out, "<p class=\"warn\">");
    ls_html_add(out, text);
    ls_str_add(out, "</p>\n");
}

/* What was trained on what; and on which machine, as far as that is known. */
static void description(ls_run_page *p)
{
    const ls_report *r = p->r;
    ls_str *out = &p->out;
    char count[32];
    ls_str_add(out, "<p class=\"sub\">");
    if (r->recipe) {
        ls_str_add(out, r->recipe->model.type);
        if (r->parameters)
            ls_str_printf(out, ", %s parameters", ls_html_count(count, r->parameters));
        ls_str_add(out, " · ");
        ls_html_add(out, r->data_note ? r->data_note : r->recipe->data.type);
        ls_str_add(out, "</p>\n<p class=\"sub\">");
        if (r->hardware && *r->hardware) {
            ls_html_add(out, r->hardware);
            ls_str_add(out, " · ");
        }
        if (r->isa)
            ls_str_printf(out, "%s · %d thread%s · ", r->isa, r->threads, r->threads == 1 ? "" : "s");
        ls_str_printf(out, "precision %s", ls_dtype_name(r->recipe->precision.param));
        if (*r->recipe->precision.modules) {
            ls_str_add(out, ", ");
            ls_html_add(out, r->recipe->precision.modules);
        }
    } else {
        ls_str_add(out, "your own program");
    }
    ls_str_add(out, " · lockstep " LS_VERSION "</p>\n");
    if (r->ranks) {
        ls_str_add(out, "<p class=\"sub\">");
        ls_html_add(out, r->ranks);
        ls_str_add(out, "; times and bytes of a step are those of rank 0</p>\n");
    }
}

static void head(ls_run_page *p)
{
    const char *state = ls_run_state_name(p->r->state), *name = strrchr(p->run->path, '/') + 1;
    ls_str *out = &p->out;
    ls_page_begin(out, name, false);
    ls_str_add(out, "<h1>");
    ls_html_add(out, name);
    ls_str_printf(out, "<span class=\"state %s\">%s</span></h1>\n", state, state);
    description(p);
    const bool builtin = p->r->builtin_data && p->r->recipe;
    if (builtin && !strcmp(p->r->recipe->data.type, "shapes"))
        ls_str_add(out, "<p class=\"warn\">The recipe trains on the <b>built-in drawn shapes</b>. These "
                        "numbers say nothing about a real data set.</p>\n");
    else if (builtin)
        ls_str_add(out, "<p class=\"warn\">The data set was not found. These numbers come from the "
                        "<b>built-in drawn shapes</b> and say nothing about the data set.</p>\n");
    if (*p->info.error)
        warn(out, p->info.error);
    if (p->history.bad_lines)
        ls_str_printf(out, "<p class=\"warn\">metrics.jsonl has %d damaged line%s.</p>\n",
                      p->history.bad_lines, p->history.bad_lines == 1 ? "" : "s");
}

/* Pages beside this one, in the run directory. */
static void links(ls_run_page *p)
{
    static const char *const PAGES[][2] = { { "step.html", "the step over time, operation by operation" },
                                            { "log/rank-0.step.html",
                                              "the same with the times of the profile" },
                                            { "log/rank-0.memory.html", "memory over the profiled steps" } };
    const char *between = "<p class=\"sub\">See also ";
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        if (ls_file_in(p->run->path, PAGES[i][0])) {
            ls_str_printf(&p->out, "%s<a href=\"%s\">%s</a>", between, PAGES[i][0], PAGES[i][1]);
            between = ", ";
        }
    if (*between == ',')
        ls_str_add(&p->out, ".</p>\n");
}

static void recipe(ls_run_page *p)
{
    if (!p->r->recipe)
        return;
    char *yaml = ls_recipe_yaml(p->r->recipe, true);
    ls_str_add(&p->out, "<h2>Recipe</h2>\n<details><summary>every key, and who set it</summary><pre>");
    ls_html_add(&p->out, yaml);
    ls_str_add(&p->out, "</pre></details>\n");
    free(yaml);
}

/* The text that a program gave its run. */
static void config(ls_run_page *p)
{
    if (!p->config || !*p->config)
        return;
    ls_str_add(&p->out, "<h2>Configuration</h2>\n<details><summary>" LS_RUN_CONFIG "</summary><pre>");
    ls_html_add(&p->out, p->config);
    ls_str_add(&p->out, "</pre></details>\n");
}

static void (*const SECTIONS[])(ls_run_page *) = { head,
                                                   links,
                                                   ls_report_tiles,
                                                   ls_report_curves,
                                                   ls_report_epochs,
                                                   ls_report_classes,
                                                   ls_report_restarts,
                                                   ls_report_checkpoints,
                                                   ls_report_memory,
                                                   ls_report_plan,
                                                   ls_report_startup,
                                                   recipe,
                                                   config };

static ls_status read_config(char **out, const char *run_dir)
{
    char *path = ls_path_join(run_dir, LS_RUN_CONFIG);
    size_t size;
    const ls_status s = ls_file_in(run_dir, LS_RUN_CONFIG) ? ls_file_read(out, &size, path) : LS_OK;
    free(path);
    return s;
}

ls_status ls_report_write(const ls_rundir *d, const ls_report *r)
{
    ls_run_page p = { .run = d, .r = r };
    char *path = ls_path_join(d->path, "report.html");
    ls_status s;
    LS_TRY_TO(s, ls_run_info_read(&p.info, d->path), done);
    LS_TRY_TO(s, ls_history_read(&p.history, d->path), done);
    LS_TRY_TO(s, ls_curves_make(&p.curves, &p.history), done);
    LS_TRY_TO(s, ls_curve_smooth(&p.smooth, &p.curves, ls_curve_of(&p.curves, "loss")), done);
    LS_TRY_TO(s, ls_marks_make(&p.marks, &p.history, d->path), done);
    LS_TRY_TO(s, read_config(&p.config, d->path), done);
    LS_TRY_TO(s, ls_run_confusion_read(&p.confusions, &p.confusion_step, d->path), done);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++)
        SECTIONS[i](&p);
    ls_page_end(&p.out, "charts.js");
    LS_TRY_TO(s, ls_file_write_text(path, &p.out), done);
done:
    free(p.config);
    ls_confusions_release(&p.confusions);
    free(p.marks.at);
    ls_curves_release(&p.curves);
    ls_history_release(&p.history);
    ls_run_info_release(&p.info);
    ls_str_release(&p.out);
    free(path);
    return s;
}

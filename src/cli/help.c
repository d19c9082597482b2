/* help.c - prints the table of verbs.c: all verbs, one verb with its options, or lines for the completion
 * script. */
#include <stdlib.h>
#include <string.h>
#include "lockstep/recipe.h"
#include "cli.h"

enum { LEFT = 31, WIDTH = 100 }; /* columns: where an option's text begins, and where lines end */

/* `text` from column `at` on, in lines that end before WIDTH and begin at LEFT. */
static void print_text(FILE *out, const char *text, int at)
{
    if (at >= LEFT)
        fputc('\n', out), at = 0;
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (at > LEFT && at + 1 + n > WIDTH)
            fputc('\n', out), at = 0;
        at += fprintf(out, "%*s%.*s", at < LEFT ? LEFT - at : 1, "", n, text);
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}

static void print_options(FILE *out, const ls_option_row *rows)
{
    for (const ls_option_row *o = rows; o && o->name; o++) {
        char rooms[2][1024]; /* enough for every row, so that help needs no memory */
        ls_str left = LS_STR_IN(rooms[0]), help = LS_STR_IN(rooms[1]);
        if (o->letter)
            ls_str_printf(&left, "-%c, ", o->letter);
        else
            ls_str_add(&left, "    ");
        ls_option_usage(&left, o);
        ls_option_help(&help, rows, o);
        print_text(out, ls_str_text(&help), fprintf(out, "  %s", ls_str_text(&left)));
        ls_str_release(&left);
        ls_str_release(&help);
    }
}

void ls_help_print(FILE *out)
{
    fputs("lockstep - trains neural networks by compiling the training step\n\nusage: lockstep VERB "
          "[options]\n\n",
          out);
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        fprintf(out, "  %-8s %-26s %s\n", v->name, v->words, v->summary);
    fputs("\n  lockstep VERB --help       options and examples of a verb\n"
          "  lockstep --version\n\n"
          "Begin with:  lockstep train vit-fashion-mnist\n\n"
          "Exit status: 0 done; 1 failed; 2 wrong usage or recipe; 75 stopped on request with everything "
          "saved (unless checkpoint.every_epochs is -1).\n"
          "Environment: LOCKSTEP_DATA (folder of data sets), LOCKSTEP_CACHE, LOCKSTEP_DEVICE, "
          "LOCKSTEP_ISA, NO_COLOR.\n",
          out);
}

void ls_help_verb(FILE *out, const ls_verb *v)
{
    fprintf(out, "usage: lockstep %s %s%s[options]\n\n%s\n\nOptions:\n", v->name, v->words,
            *v->words ? " " : "", v->about);
    print_options(out, v->options);
    if (v->recipe)
        print_options(out, LS_RECIPE_OPTIONS);
    print_options(out, LS_COMMON_OPTIONS);
    fputs("\nExamples:\n", out);
    for (const char *p = v->examples; *p;) {
        int n = (int)strcspn(p, "\n");
        fprintf(out, "  %.*s\n", n, p);
        p += n + (p[n] == '\n');
    }
    if (!strcmp(v->name, "recipe")) {
        char *keys = ls_recipe_reference(false);
        fprintf(out, "\nKeys:\n%s", keys ? keys : ls_error_message());
        free(keys);
    } else if (v->recipe) {
        fputs("\n`lockstep recipe --help` lists the keys for --set.\n", out);
    }
}

/* What completion offers for the value: nothing, or files, folders; "maybe": the value may be left out. */
static const char *value_kind(const ls_option_row *o)
{
    return o->kind == LS_OPTION_FLAG      ? "flag"
           : o->value && *o->value == '[' ? "maybe"
           : o->kind == LS_OPTION_FILE    ? "file"
           : o->kind == LS_OPTION_FOLDER  ? "folder"
                                          : "text";
}

static void table_option(FILE *out, const char *verb, const ls_option_row *rows)
{
    for (const ls_option_row *o = rows; o && o->name; o++) {
        char rooms[3][1024];
        ls_str usage = LS_STR_IN(rooms[0]), help = LS_STR_IN(rooms[1]), words = LS_STR_IN(rooms[2]);
        ls_option_usage(&usage, o);
        ls_option_help(&help, rows, o);
        ls_option_words(&words, o, " ", " ");
        const char *value = ls_str_text(&usage) + strlen(o->name);
        fprintf(out, "option\t%s\t%s\t%.1s\t%s\t%s\t%s\t%s\t%s\n", verb, o->name, o->letter ? &o->letter : "",
                value + (*value == ' '), ls_str_text(&help), value_kind(o), ls_str_text(&words),
                o->repeat ? "repeat" : "");
        ls_str_release(&usage);
        ls_str_release(&help);
        ls_str_release(&words);
    }
}

void ls_help_table(FILE *out)
{
    for (const ls_verb *v = LS_VERBS; v->name; v++) {
        fprintf(out, "verb\t%s\t%s\t%s\n", v->name, v->words, v->summary);
        table_option(out, v->name, v->options);
        if (v->recipe)
            table_option(out, v->name, LS_RECIPE_OPTIONS);
        table_option(out, v->name, LS_COMMON_OPTIONS);
    }
    for (int i = 0; ls_recipe_bundled(i, NULL, NULL); i++)
        fprintf(out, "recipe\t%s\n", ls_recipe_bundled(i, NULL, NULL));
}

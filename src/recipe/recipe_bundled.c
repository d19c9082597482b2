/* recipe_bundled.c - the recipes that are a part of the library. cmake/embed.cmake writes every file of
 * recipes/ into recipes.inc. */
#include <stdio.h>
#include <string.h>
#include "recipe_read.h"

static const struct {
    const char *name, *text;
} BUNDLED[] = {
#include "recipes.inc"
};
#define COUNT ((int)(sizeof BUNDLED / sizeof BUNDLED[0]))

/* The first line of a bundled recipe is its description: "# text". The copy lasts until
 * the thread's next call. */
static const char *summary_of(int i)
{
    static _Thread_local char line[160];
    const char *text = BUNDLED[i].text;
    snprintf(line, sizeof line, "%.*s", *text == '#' ? (int)strcspn(text + 2, "\n") : 0, text + 2);
    return line;
}

const char *ls_recipe_bundled(int i, const char **summary, const char **text)
{
    if (i < 0 || i >= COUNT)
        return NULL;
    if (summary)
        *summary = summary_of(i);
    if (text)
        *text = BUNDLED[i].text;
    return BUNDLED[i].name;
}

const char *ls_recipe_bundled_text(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(BUNDLED[i].name, name))
            return BUNDLED[i].text;
    return NULL;
}

/* new_command.c - `lockstep new DIR`: a project with a model of one's own, from templates/new. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/shown.h"
#include "base/sys.h"
#include "commands.h"

static const struct {
    const char *name, *text;
} FILES[] = {
#include "templates.inc"
};

/* A folder that cannot be written whole is removed again. */
static ls_status write_files(const char *dir, size_t *written)
{
    for (; *written < sizeof FILES / sizeof *FILES; (*written)++) {
        char *path = ls_path_join(dir, FILES[*written].name);
        ls_status s = ls_sys_have(path);
        if (s == LS_OK)
            s = ls_file_write(path, FILES[*written].text, strlen(FILES[*written].text));
        free(path);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_new_command(const char *dir, const ls_ui *ui)
{
    size_t written = 0;
    if (ls_file_exists(dir) || ls_dir_exists(dir))
        return ls_fail(LS_E_USAGE, "%s: it exists already; choose another name", dir);
    LS_TRY(ls_make_dirs(dir));
    const ls_status s = write_files(dir, &written);
    while (s != LS_OK && written > 0) {
        char *path = ls_path_join(dir, FILES[--written].name);
        if (path)
            ls_sys_remove(path);
        free(path);
    }
    if (s != LS_OK)
        ls_sys_remove(dir);
    LS_TRY(s);
    ls_print_line(
        ui->out,
        "%s: model.c, Makefile, recipe.yaml, README.md; now: cd %s && make && lockstep train recipe.yaml",
        dir, dir);
    return LS_OK;
}

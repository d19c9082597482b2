/* shown.h - text from files and other people on its way to a terminal: a tensor's name, the error that a
 * result.json tells, a class of images. A control character in it could clear the screen or write over lines;
 * it is shown as \n, \t or \xNN instead. */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include "str.h"

/* Appends `text`; C0, DEL and C1 become visible. `lines`: line feeds and tabs stay. */
void ls_str_add_shown(ls_str *s, const char *text, bool lines);
/* One line: what `format` makes, all of it shown so, and its line feed. */
void ls_print_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

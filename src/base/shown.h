/* shown.h - text from files and other users for a terminal: tensor names, error messages in a result.json,
 * class names. A control character in such a text could clear the screen or overwrite lines, so it is shown
 * as \n, \t or \xNN. */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include "str.h"

/* Appends `text` with control characters (C0, DEL, C1) made visible. lines: line feeds and tabs are kept. */
void ls_str_add_shown(ls_str *s, const char *text, bool lines);
/* Appends a field of CSV (RFC 4180): in quotes where it must be, with control characters made visible. */
void ls_str_add_csv(ls_str *s, const char *text);
/* Prints what a command was asked for, with a line feed if it ends in none, and releases it. LS_E_MEMORY: the
 * text is not whole, and nothing is printed. */
ls_status ls_print_result(FILE *out, ls_str *s);
/* Prints one line: the formatted text with control characters made visible, and a line feed. */
void ls_print_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

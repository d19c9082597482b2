/* lexer.h - a template as tokens, with jinja2's rules for white space (trim_blocks, lstrip_blocks, -, +). */
#pragma once
#include "base/arena.h"

typedef enum ls_jtoken_kind {
    LS_JT_END,
    LS_JT_DATA,      /* text outside of tags */
    LS_JT_PRINT,     /* {{ */
    LS_JT_PRINT_END, /* }} */
    LS_JT_BLOCK,     /* {% */
    LS_JT_BLOCK_END, /* %} */
    LS_JT_NAME,
    LS_JT_STRING, /* without quotes and escapes */
    LS_JT_INT,
    LS_JT_FLOAT,
    LS_JT_OPERATOR,
} ls_jtoken_kind;

typedef struct ls_jtoken {
    ls_jtoken_kind kind;
    int line;
    char op[3];       /* LS_JT_OPERATOR: "+", "==" */
    const char *text; /* DATA, NAME (ends with NUL), STRING */
    size_t n;
    int64_t i;
    double f;
} ls_jtoken;

typedef struct ls_jtokens {
    ls_jtoken *tokens; /* the last one is LS_JT_END */
    int n, cap;
} ls_jtokens;

/* `arena` gets the tokens and their texts. LS_E_FORMAT, LS_E_UNSUPPORTED, LS_E_MEMORY. */
/* "NAME:LINE: ..." */
ls_status ls_jwrong(const char *name, int line, ls_status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ls_status ls_jlex(ls_jtokens *out, ls_arena *arena, const char *text, size_t n, const char *name);

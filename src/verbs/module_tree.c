/* module_tree.c - the module tree of `lockstep inspect`. */
#include "module_tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "graph/op.h"

/* A line with control characters made visible. */
static void add_line(ls_str *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_line(ls_str *out, const char *format, ...)
{
    ls_str line = { 0 };
    va_list args;
    va_start(args, format);
    ls_str_vprintf(&line, format, args);
    va_end(args);
    ls_str_add_shown(out, ls_str_text(&line), false);
    ls_str_add(out, "\n");
    ls_str_inherit(out, &line);
    ls_str_release(&line);
}

/* 1234567 -> "1,234,567" */
static const char *grouped(char b[32], int64_t x)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)x), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            b[k++] = ',';
        b[k++] = digits[i];
    }
    b[k] = 0;
    return b;
}

/* levels. The rest of a name with more dots stays in one piece: a hostile file may have a million */
enum { DEEPEST = 64 };

static size_t component(const char *name, size_t from, int depth)
{
    const char *dot = depth < DEEPEST ? strchr(name + from, '.') : NULL;
    return dot ? (size_t)(dot - name) - from : strlen(name) - from;
}

static void level(ls_str *out, int depth, int64_t n, const ls_tree_item *items, size_t from)
{
    char count[32], type[128];
    for (int64_t i = 0; i < n;) {
        const char *name = items[i].name;
        size_t len = component(name, from, depth);
        int64_t j = i, elements = 0;
        for (; j < n && component(items[j].name, from, depth) == len &&
               !strncmp(items[j].name + from, name + from, len);
             j++)
            elements += ls_type_count(&items[j].type);
        int width = 44 - 2 * depth > (int)len ? 44 - 2 * depth : (int)len;
        if (name[from + len] == 0) {
            ls_type_text(type, &items[i].type);
            const char *shape = strchr(type, '['),
                       *word = items[i].stored ? items[i].stored : ls_dtype_name(items[i].type.dtype);
            add_line(out, "%*s%-*.*s %12s  %s %s%s%s", 2 * depth, "", width, (int)len, name + from,
                     grouped(count, elements), word, shape ? shape : "", items[i].note ? "  " : "",
                     items[i].note ? items[i].note : "");
            i++;
            continue;
        }
        add_line(out, "%*s%-*.*s %12s", 2 * depth, "", width, (int)len, name + from,
                 grouped(count, elements));
        level(out, depth + 1, j - i, items + i, from + len + 1);
        i = j;
    }
}

void ls_module_tree_text(ls_str *out, const char *title, int64_t n, const ls_tree_item *items)
{
    char count[32], size[32];
    int64_t elements = 0;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        elements += ls_type_count(&items[i].type);
        bytes += items[i].stored ? items[i].bytes : ls_type_bytes(&items[i].type);
    }
    add_line(out, "%-44s %12s  elements in %lld tensors, %s", title, grouped(count, elements), (long long)n,
             ls_format_bytes(size, bytes));
    level(out, 1, n, items, 0);
}

static int by_name(const void *a, const void *b)
{
    const char *x = ((const ls_tree_item *)a)->name, *y = ((const ls_tree_item *)b)->name;
    for (; *x && *y; x++, y++) {
        if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
            char *xe, *ye;
            unsigned long long p = strtoull(x, &xe, 10), q = strtoull(y, &ye, 10);
            if (p != q)
                return p < q ? -1 : 1;
            x = xe - 1;
            y = ye - 1;
        } else if (*x != *y) {
            return *x < *y ? -1 : 1;
        }
    }
    return (*x > *y) - (*x < *y);
}

void ls_tree_sort(int64_t n, ls_tree_item *items) { qsort(items, (size_t)n, sizeof *items, by_name); }

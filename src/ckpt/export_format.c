/* export_format.c - see export_format.h. */
#include "ckpt/export_format.h"

#include <string.h>

#include "base/str.h"

ls_export_format ls_export_format_of(const char *to)
{
    static const struct {
        const char *end;
        ls_export_format format;
    } ENDS[] = { { ".safetensors", LS_EXPORT_SAFETENSORS },
                 { ".pt", LS_EXPORT_PT },
                 { ".gguf", LS_EXPORT_GGUF },
                 { ".dcp", LS_EXPORT_DCP },
                 { "/", LS_EXPORT_FOLDER } };
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        if (ls_ends_with(to, ENDS[i].end) && strcmp(to, ENDS[i].end) != 0)
            return ENDS[i].format;
    return LS_EXPORT_BY_NAME;
}

/* doctor_libraries.c - versions of the libraries that this process uses or would open. Asks the loaded
 * library, because its version may differ from that of the build. One that is missing is a part
 * (doctor_parts.c). */
#include <dlfcn.h>
#include "doctor.h"

typedef enum answer { TEXT, TEXT_OF_NULL, NUMBER_XXHASH } answer;
static const struct {
    const char *name, *file, *symbol;
    answer kind;
} LIBRARIES[] = {
    { "zlib", "libz.so.1", "zlibVersion", TEXT },
    { "libpng", "libpng16.so.16", "png_get_libpng_ver", TEXT_OF_NULL },
    { "libcurl", "libcurl.so.4", "curl_version", TEXT },
    { "libyaml", "libyaml-0.so.2", "yaml_get_version_string", TEXT },
    { "jansson", "libjansson.so.4", "jansson_version_str", TEXT },
    { "xxHash", "libxxhash.so.0", "XXH_versionNumber", NUMBER_XXHASH },
};

static void version_of(char out[160], void *symbol, answer kind)
{
    union {
        void *p;
        const char *(*text)(void);
        const char *(*text_of)(const void *);
        unsigned (*number)(void);
    } f = { symbol };
    switch (kind) {
    case TEXT: snprintf(out, 160, "%s", f.text()); break;
    case TEXT_OF_NULL: snprintf(out, 160, "%s", f.text_of(NULL)); break;
    case NUMBER_XXHASH: {
        unsigned n = f.number();
        snprintf(out, 160, "%u.%u.%u", n / 10000, n / 100 % 100, n % 100);
        break;
    }
    }
}

void ls_doctor_libraries(ls_doctor *d)
{
    ls_doctor_section(d, "Libraries");
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof LIBRARIES[0]; i++) {
        char version[160];
        /* a linked library answers without being opened again, also if its soname differs */
        void *symbol = dlsym(RTLD_DEFAULT, LIBRARIES[i].symbol),
             *handle = symbol ? NULL : dlopen(LIBRARIES[i].file, RTLD_LAZY | RTLD_LOCAL);
        if (!symbol && handle)
            symbol = dlsym(handle, LIBRARIES[i].symbol);
        if (symbol) {
            version_of(version, symbol, LIBRARIES[i].kind);
            ls_doctor_line(d, LIBRARIES[i].name, "%s", version);
        }
        /* the library stays open: it may have made threads or handlers, which a close would break */
    }
}

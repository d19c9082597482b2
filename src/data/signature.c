/* signature.c - see signature.h. Each kind is a row; the first row that fits counts. */
#include "data/signature.h"

#include <stdbool.h>
#include <string.h>

#define PICTURE "; convert it to JPEG or PNG"
#define TABLE(read) "; write it as CSV, for example in Python pandas." read ".to_csv('FILE.csv', index=False)"

typedef struct signature {
    size_t at; /* where `bytes` begin in the file */
    const char *bytes;
    size_t n;
    const char *what;
} signature;

#define AT(offset, text, what)               \
    {                                        \
        offset, text, sizeof(text) - 1, what \
    }

static const signature KINDS[] = {
    AT(0, "PAR1",
       "a Parquet file" TABLE(
           "read_parquet('FILE')") ", or duckdb -c \"COPY 'FILE' TO 'FILE.csv' (HEADER)\""),
    AT(0, "ARROW1", "an Arrow (Feather) file" TABLE("read_feather('FILE')")),
    AT(0, "FEA1", "a Feather file" TABLE("read_feather('FILE')")),
    AT(30, "[Content_Types].xml", "an Office file (.xlsx)" TABLE("read_excel('FILE')")),
    AT(30, "xl/", "an Office file (.xlsx)" TABLE("read_excel('FILE')")),
    AT(30, "docProps/", "an Office file (.xlsx)" TABLE("read_excel('FILE')")),
    AT(0, "PK\3\4", "a zip archive (an .npz file is one, too); unpack it"),
    AT(0, "\x1f\x8b", "a gzip file; unpack it with gunzip"),
    AT(0, "BZh", "a bzip2 file; unpack it with bunzip2"),
    AT(0,
       "\xfd"
       "7zXZ",
       "an xz file; unpack it with unxz"),
    AT(0, "(\xb5/\xfd", "a zstd file; unpack it with unzstd"),
    AT(0, "7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    AT(257, "ustar", "a tar archive; its name must end in .tar to be read as one"),
    AT(0, "\x93NUMPY", "an array of NumPy; its name must end in .npy"),
    AT(0, "\x89HDF\r\n\x1a\n", "an HDF5 file; its name must end in .h5, .hdf5 or .nc"),
    AT(0, "CDF\1", "a NetCDF file of version 3; convert it with nccopy -k nc4"),
    AT(0, "CDF\2", "a NetCDF file of version 3; convert it with nccopy -k nc4"),
    AT(0, "SQLite format 3", "a database of SQLite" TABLE("read_sql(QUERY, CONNECTION)")),
    AT(0, "%PDF-", "a PDF file"),
    AT(8, "WEBP", "a WebP image" PICTURE),
    AT(0, "GIF8", "a GIF image" PICTURE),
    AT(0, "II*\0", "a TIFF image" PICTURE),
    AT(0, "MM\0*", "a TIFF image" PICTURE),
    AT(0, "BM", "a BMP image" PICTURE),
    AT(4, "ftypavif", "an AVIF image" PICTURE),
    AT(4, "ftypavis", "an AVIF image" PICTURE),
    AT(4, "ftyphei", "a HEIC image" PICTURE),
    AT(4, "ftyphev", "a HEIC image" PICTURE),
    AT(4, "ftypmif1", "a HEIC or AVIF image" PICTURE),
    AT(4, "JXL \r\n", "a JPEG XL image" PICTURE),
    AT(0, "\xff\x0a", "a JPEG XL image" PICTURE),
    AT(4, "jP  \r\n", "a JPEG 2000 image" PICTURE),
    AT(0, "\xff\xd8\xff", "a JPEG image"),
    AT(0, "\x89PNG\r\n\x1a\n", "a PNG image"),
    AT(0, "\x80\2", "a pickle of Python; save its arrays with numpy.save"),
    AT(0, "\x80\3", "a pickle of Python; save its arrays with numpy.save"),
    AT(0, "\x80\4", "a pickle of Python; save its arrays with numpy.save"),
    AT(0, "\x80\5", "a pickle of Python; save its arrays with numpy.save"),
};

/* Two or three bytes say little where text begins: only what no text begins with counts there. */
static bool is_text(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n && i < 16; i++)
        if (p[i] < ' ' && (p[i] < '\t' || p[i] > '\r'))
            return false;
    return true;
}

const char *ls_signature(const void *bytes, size_t n)
{
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        const signature *s = &KINDS[k];
        if (n < s->at + s->n || memcmp((const char *)bytes + s->at, s->bytes, s->n) != 0)
            continue;
        if (s->n < 4 && s->at == 0 && is_text(bytes, n))
            continue;
        return s->what;
    }
    return NULL;
}

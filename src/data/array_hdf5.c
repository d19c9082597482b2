/* array_hdf5.c - reads HDF5 through libhdf5 (hdf5_library.h).
 *
 * Links to other files, external storage and virtual data sets are refused: with them a file could read any
 * other one, and a change of that one would not change the data set's hash. The library believes the sizes
 * that a file declares, so they are compared with each other before anything is read, and those in the data
 * set's header before the library opens it (hdf5_header.h). */
#include "data/array_hdf5.h"

#include "base/str.h"

#ifdef LS_HAVE_HDF5
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"
#include "data/array_room.h"
#include "data/hdf5_header.h"
#include "data/hdf5_library.h"

enum { WHOLE_CHUNKS = 64 << 20 }; /* bytes of inflated chunks that libhdf5 keeps of a data set */

struct ls_hdf5 {
    hid_t file, set, memory; /* memory: the type that elements are read as */
    ls_type type;
    ls_hdf5_attributes attributes;
    char *what;
};

static const char *const ATTRIBUTES[] = { "scale_factor", "add_offset", "missing_value", "_FillValue" };
enum { PACKED = 2, N_ATTRIBUTES = 4 }; /* the first two pack numbers; the last one counts most */

static ls_status no_set(hid_t file, const char *name, const char *what)
{
    enum { MOST = 64 };
    char texts[MOST][64];
    const char *names[MOST];
    int n = 0;
    while (n < MOST && ls_h5.H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)n, texts[n],
                                                sizeof texts[n], H5P_DEFAULT) > 0) {
        names[n] = texts[n];
        n++;
    }
    const char *near = n ? ls_nearest_name(name, names, n) : NULL;
    return ls_fail(LS_E_USAGE, "%s: it has no data set \"%s\"%s%s%s", what, name,
                   near ? "; is it \""
                   : n  ? "; its first member is \""
                        : "",
                   near ? near
                   : n  ? names[0]
                        : "",
                   n ? "\"" : "");
}

/* Which type of ours holds all values of theirs. */
static bool find_type(ls_dtype *out, hid_t *memory, hid_t type)
{
    const H5T_class_t kind = ls_h5.H5Tget_class(type);
    const size_t size = ls_h5.H5Tget_size(type);
    const bool is_signed = kind == H5T_INTEGER && ls_h5.H5Tget_sign(type) == H5T_SGN_2;
    if (kind == H5T_FLOAT && size <= 8) {
        *out = size <= 4 ? LS_F32 : LS_F64;
        *memory = size <= 4 ? *ls_h5.f32 : *ls_h5.f64;
        return true;
    }
    if (kind != H5T_INTEGER || size > 8 || (size == 8 && !is_signed))
        return false;
    const bool narrow = size < 4 || (size == 4 && is_signed);
    *out = size == 1 && !is_signed ? LS_U8 : narrow ? LS_I32 : LS_I64;
    *memory = *out == LS_U8 ? *ls_h5.u8 : *out == LS_I32 ? *ls_h5.i32 : *ls_h5.i64;
    return true;
}

/* Whether the elements are contiguous in the file, in the order of reading. */
static int64_t offset_of(const ls_hdf5 *h, hid_t made, hid_t type)
{
    const bool plain = ls_h5.H5Pget_layout(made) == H5D_CONTIGUOUS && ls_h5.H5Tequal(type, h->memory) > 0;
    const haddr_t at = plain ? ls_h5.H5Dget_offset(h->set) : HADDR_UNDEF;
    return at == HADDR_UNDEF || at > INT64_MAX ? -1 : (int64_t)at;
}

static ls_status check_inside(const ls_hdf5 *h, hid_t made)
{
    const bool is_virtual = ls_h5.H5Pget_layout(made) == H5D_VIRTUAL;
    if (!is_virtual && ls_h5.H5Pget_external_count(made) == 0)
        return LS_OK;
    return ls_fail(LS_E_UNSUPPORTED,
                   "%s: %s: only elements that are in the file itself are read; copy them into one file, for "
                   "example with h5repack",
                   h->what,
                   is_virtual ? "a virtual data set, whose elements are in other data sets"
                              : "its elements are in other files (external storage)");
}

static ls_status check_filters(const ls_hdf5 *h, hid_t made)
{
    const int n = ls_h5.H5Pget_nfilters(made);
    for (int i = 0; i < n; i++) {
        unsigned flags, setting;
        size_t none = 0;
        char name[64] = "";
        const H5Z_filter_t id = ls_h5.H5Pget_filter2(made, (unsigned)i, &flags, &none, NULL, sizeof name,
                                                     name, &setting);
        if (id < 0 || ls_h5.H5Zfilter_avail(id) <= 0)
            return ls_fail(LS_E_UNSUPPORTED,
                           "%s: its chunks need the filter %d%s%.60s, which this libhdf5 does not have: "
                           "write them with gzip (h5repack -f GZIP=4), or name the folder of the filter's "
                           "plugin in HDF5_PLUGIN_PATH",
                           h->what, (int)id, *name ? " " : "", name);
    }
    return n >= 0 ? LS_OK
                  : ls_fail(LS_E_FORMAT, "%s: its filters cannot be read: the file is damaged", h->what);
}

/* A chunk is in memory as a whole. Without filters each one that exists is in the file as a whole, too. */
static ls_status check_chunks(const ls_hdf5 *h, hid_t made, hid_t type, uint64_t stored)
{
    hsize_t dims[LS_MAX_DIMS];
    uint64_t bytes = ls_h5.H5Tget_size(type);
    bool fits = ls_h5.H5Pget_chunk(made, LS_MAX_DIMS, dims) == h->type.ndim;
    for (int d = 0; d < h->type.ndim && fits; d++)
        fits = dims[d] > 0 && !__builtin_mul_overflow(bytes, (uint64_t)dims[d], &bytes) && bytes < 1ull << 32;
    if (!fits || (ls_h5.H5Pget_nfilters(made) == 0 && stored % bytes))
        return ls_fail(LS_E_FORMAT,
                       "%s: its chunks do not have the size that they declare: the file is damaged", h->what);
    LS_TRY(check_filters(h, made));
    return ls_array_room((size_t)bytes, h->what);
}

/* Compares the bytes that the file stores with those of the shape and the type. */
static ls_status check_stored(const ls_hdf5 *h, hid_t made, hid_t type)
{
    const uint64_t stored = ls_h5.H5Dget_storage_size(h->set), elements = (uint64_t)ls_type_count(&h->type),
                   declared = elements * ls_h5.H5Tget_size(type); /* no larger than in memory: below 2^63 */
    if (!elements)
        return LS_OK; /* refused by who asks for samples */
    if (!stored)
        return ls_fail(LS_E_FORMAT, "%s: its shape has %llu elements, and none of them was ever written",
                       h->what, (unsigned long long)elements);
    if (ls_h5.H5Pget_layout(made) == H5D_CHUNKED)
        return check_chunks(h, made, type, stored);
    return stored == declared
               ? LS_OK
               : ls_fail(LS_E_FORMAT,
                         "%s: its shape takes %llu bytes, and the file stores %llu: the file is damaged",
                         h->what, (unsigned long long)declared, (unsigned long long)stored);
}

/* *has: the data set has the attribute ATTRIBUTES[i], with one number. libhdf5 decodes the attributes in a
 * header until it finds the name, and fails at one that is newer than itself, so it is asked only for what is
 * there. */
static ls_status number_of(bool *has, double *out, const ls_hdf5 *h, int i)
{
    const char *name = ATTRIBUTES[i];
    const htri_t there = h->attributes.there >> i & 1 ? 1
                         : h->attributes.elsewhere    ? ls_h5.H5Aexists(h->set, name)
                                                      : 0;
    const hid_t a = there > 0 ? ls_h5.H5Aopen(h->set, name, H5P_DEFAULT) : -1,
                space = a < 0 ? -1 : ls_h5.H5Aget_space(a);
    *has = space >= 0 && ls_h5.H5Sget_simple_extent_npoints(space) == 1 &&
           ls_h5.H5Aread(a, *ls_h5.f64, out) >= 0;
    if (space >= 0)
        ls_h5.H5Sclose(space);
    if (a >= 0)
        ls_h5.H5Aclose(a);
    return there == 0 || a >= 0 ? LS_OK : ls_hdf5_too_new(h->what, "read its attribute ", name);
}

static ls_status read_attributes(ls_hdf5_array *array, const ls_hdf5 *h)
{
    for (int i = 0; i < N_ATTRIBUTES; i++) {
        bool has;
        double value;
        LS_TRY(number_of(&has, &value, h, i));
        if (has && i < PACKED)
            return ls_fail(LS_E_UNSUPPORTED,
                           "%s: its numbers are packed (scale_factor, add_offset): unpack them first",
                           h->what);
        array->has_fill = array->has_fill || has;
        array->fill = has ? value : array->fill;
    }
    return LS_OK;
}

/* `made`: the properties with which the data set was created. */
static ls_status hdf5_describe(ls_hdf5 *h, ls_hdf5_array *array, hid_t made)
{
    LS_TRY(check_inside(h, made)); /* before H5Dget_space, which opens the sources of a virtual data set */
    const hid_t space = ls_h5.H5Dget_space(h->set), type = ls_h5.H5Dget_type(h->set);
    hsize_t dims[H5S_MAX_RANK];
    const int ndim = space < 0 ? -1 : ls_h5.H5Sget_simple_extent_ndims(space);
    ls_status s = LS_OK;
    if (ndim > LS_MAX_DIMS)
        s = ls_fail(LS_E_UNSUPPORTED, "%s: more than %d dimensions", h->what, LS_MAX_DIMS);
    else if (ndim < 0 || type < 0 || ls_h5.H5Sget_simple_extent_dims(space, dims, NULL) != ndim)
        s = ls_fail(LS_E_FORMAT, "%s: it is not a data set with a shape", h->what);
    else if (!find_type(&h->type.dtype, &h->memory, type))
        s = ls_fail(LS_E_UNSUPPORTED,
                    "%s: its elements are not plain numbers: floats of up to 64 bits and integers are read",
                    h->what);
    h->type.ndim = s == LS_OK ? ndim : 0;
    for (int d = 0; d < h->type.ndim; d++)
        h->type.dims[d] = dims[d] > INT64_MAX ? INT64_MAX : (int64_t)dims[d];
    if (s == LS_OK && ls_type_bytes(&h->type) >= INT64_MAX) /* ls_type_count is then no product of the dims */
        s = ls_fail(LS_E_FORMAT, "%s: its shape has more than 2^63 bytes: the file is damaged", h->what);
    *array = (ls_hdf5_array){ .type = h->type, .offset = -1 };
    if (s == LS_OK)
        s = read_attributes(array, h);
    if (s == LS_OK)
        s = check_stored(h, made, type);
    if (s == LS_OK)
        array->offset = offset_of(h, made, type);
    if (space >= 0)
        ls_h5.H5Sclose(space);
    if (type >= 0)
        ls_h5.H5Tclose(type);
    return s;
}

/* libhdf5 asks before it opens the file that an external link names. */
static herr_t refuse_link(const char *file, const char *group, const char *other, const char *object,
                          unsigned *flags, hid_t access, void *refused)
{
    (void)file, (void)group, (void)object, (void)flags, (void)access;
    snprintf(refused, NAME_MAX, "%s", other);
    return -1;
}

/* Before the data set is opened: what its header, at this address, declares. */
static ls_status check_header(ls_hdf5 *h, const char *path, uint64_t at)
{
    const hid_t made = ls_h5.H5Fget_create_plist(h->file);
    hsize_t before = 0;
    size_t offset_bytes = 0, length_bytes = 0;
    const bool known = made >= 0 && ls_h5.H5Pget_userblock(made, &before) >= 0 &&
                       ls_h5.H5Pget_sizes(made, &offset_bytes, &length_bytes) >= 0;
    if (made >= 0)
        ls_h5.H5Pclose(made);
    ls_mapping file;
    LS_TRY(ls_file_map(&file, path));
    h->attributes = (ls_hdf5_attributes){ .names = ATTRIBUTES, .n = N_ATTRIBUTES };
    const bool fits = known && before <= file.size && offset_bytes - 1 < 8 && length_bytes - 1 < 8;
    const ls_status s = fits ? ls_hdf5_check_header(&h->attributes,
                                                    &(ls_hdf5_bytes){ file.data + before, file.size - before,
                                                                      (int)offset_bytes, (int)length_bytes,
                                                                      h->what },
                                                    at)
                             : ls_fail(LS_E_FORMAT,
                                       "%s: its superblock declares sizes that no file has: it is damaged",
                                       h->what);
    ls_file_unmap(&file);
    return s;
}

static ls_status open_set(ls_hdf5 *h, const char *path, const char *name)
{
    LS_TRY(ls_file_check(path));
    h->file = ls_h5.H5Fopen(path, 0, H5P_DEFAULT); /* H5F_ACC_RDONLY, whose macro calls */
    if (h->file < 0)
        return ls_fail(LS_E_FORMAT,
                       "%s: libhdf5 does not open it: it is not an HDF5 file, or is being written", h->what);
    const hid_t access = ls_h5.H5Pcreate(*ls_h5.access);
    char other[NAME_MAX] = "", shown[128];
    /* slots of the cache: a prime, of 100 for each chunk of it */
    const bool ready = access >= 0 && ls_h5.H5Pset_chunk_cache(access, 12421, WHOLE_CHUNKS, 1) >= 0 &&
                       ls_h5.H5Pset_elink_cb(access, refuse_link, other) >= 0;
    ls_hdf5_object object;
    const bool found = ready &&
                       ls_h5.H5Oget_info_by_name2(h->file, name, &object, H5O_INFO_BASIC, access) >= 0,
               linked = ready && !found && !*other && ls_h5.H5Lexists(h->file, name, access) > 0;
    const ls_status s = found ? check_header(h, path, object.addr) : LS_OK;
    /* what is not found is not opened: after a failure libhdf5 may still have the parts that it read */
    h->set = found && s == LS_OK ? ls_h5.H5Dopen2(h->file, name, access) : -1;
    if (access >= 0)
        ls_h5.H5Pclose(access);
    if (!ready)
        return ls_fail(LS_E_MEMORY, "%s: libhdf5 has no memory", h->what);
    LS_TRY(s);
    if (linked)
        return ls_fail(LS_E_FORMAT,
                       "%s: libhdf5 cannot read what has this name: a link leads nowhere, or the file is "
                       "damaged",
                       h->what);
    if (*other)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: a link to the file %s: only data sets of the file itself are read; name that "
                       "file",
                       h->what, ls_shown_name(shown, other));
    if (!found)
        return no_set(h->file, name, h->what);
    if (object.type != H5O_TYPE_DATASET)
        return ls_fail(LS_E_USAGE, "%s: it is not a data set but a %s: name a data set", h->what,
                       object.type == H5O_TYPE_GROUP ? "group" : "type");
    return h->set < 0 ? ls_hdf5_too_new(h->what, "open it", "") : LS_OK;
}

static ls_status describe_set(ls_hdf5 *h, ls_hdf5_array *array)
{
    const hid_t made = ls_h5.H5Dget_create_plist(h->set);
    if (made < 0)
        return ls_fail(LS_E_FORMAT, "%s: its properties cannot be read: the file is damaged", h->what);
    const ls_status s = hdf5_describe(h, array, made);
    ls_h5.H5Pclose(made);
    return s;
}

ls_status ls_hdf5_open(ls_hdf5 **out, ls_hdf5_array *array, const char *path, const char *name,
                       const char *what)
{
    ls_hdf5 *h = *out = ls_sys_calloc(1, sizeof *h);
    LS_TRY(ls_sys_have(h));
    h->file = h->set = -1;
    h->what = ls_sys_strdup(what);
    pthread_mutex_lock(&ls_hdf5_lock);
    ls_status s = ls_sys_have(h->what);
    s = s == LS_OK ? ls_hdf5_load(what) : s;
    if (s == LS_OK) {
        const ls_hdf5_settings theirs = ls_hdf5_enter();
        s = open_set(h, path, name);
        s = s == LS_OK ? describe_set(h, array) : s;
        ls_hdf5_leave(theirs);
    }
    pthread_mutex_unlock(&ls_hdf5_lock);
    if (s != LS_OK)
        ls_hdf5_close(out);
    return s;
}

ls_status ls_hdf5_read(const ls_hdf5 *h, int64_t first, int64_t n, void *to)
{
    hsize_t start[LS_MAX_DIMS] = { (hsize_t)first }, count[LS_MAX_DIMS] = { (hsize_t)n };
    for (int d = 1; d < h->type.ndim; d++)
        count[d] = (hsize_t)h->type.dims[d];
    pthread_mutex_lock(&ls_hdf5_lock);
    const ls_hdf5_settings theirs = ls_hdf5_enter();
    const hid_t from = ls_h5.H5Dget_space(h->set), memory = ls_h5.H5Screate_simple(h->type.ndim, count, NULL);
    const bool read = from >= 0 && memory >= 0 &&
                      ls_h5.H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                      ls_h5.H5Dread(h->set, h->memory, memory, from, H5P_DEFAULT, to) >= 0;
    if (from >= 0)
        ls_h5.H5Sclose(from);
    if (memory >= 0)
        ls_h5.H5Sclose(memory);
    ls_hdf5_leave(theirs);
    pthread_mutex_unlock(&ls_hdf5_lock);
    return read ? LS_OK
                : ls_fail(LS_E_FORMAT,
                          "%s: libhdf5 cannot read rows %lld to %lld: the file is damaged, or needs a filter",
                          h->what, (long long)first, (long long)(first + n - 1));
}

void ls_hdf5_close(ls_hdf5 **hp)
{
    ls_hdf5 *h = *hp;
    *hp = NULL;
    if (!h)
        return;
    pthread_mutex_lock(&ls_hdf5_lock);
    if (h->set >= 0)
        ls_h5.H5Dclose(h->set);
    if (h->file >= 0)
        ls_h5.H5Fclose(h->file);
    pthread_mutex_unlock(&ls_hdf5_lock);
    free(h->what);
    free(h);
}

#else

ls_status ls_hdf5_open(ls_hdf5 **out, ls_hdf5_array *array, const char *path, const char *name,
                       const char *what)
{
    (void)array;
    (void)path;
    (void)name;
    *out = NULL;
    return ls_fail(
        LS_E_UNSUPPORTED,
        "%s: this build reads no HDF5: install libhdf5 with its headers (Debian: libhdf5-dev) and build "
        "again",
        what);
}

ls_status ls_hdf5_read(const ls_hdf5 *h, int64_t first, int64_t n, void *to)
{
    (void)h;
    (void)first;
    (void)n;
    (void)to;
    return ls_fail(LS_E_UNSUPPORTED, "this build reads no HDF5");
}

void ls_hdf5_close(ls_hdf5 **h) { *h = NULL; }

#endif

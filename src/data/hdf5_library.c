/* hdf5_library.c - see hdf5_library.h. */
#include "lockstep/types.h"

#ifdef LS_HAVE_HDF5
#include <dlfcn.h>
#include <stdlib.h>

#include "lockstep/status.h"
#include "data/hdf5_library.h"

ls_hdf5_library ls_h5;
pthread_mutex_t ls_hdf5_lock = PTHREAD_MUTEX_INITIALIZER;

/* A variable of the library. A program that is linked with the same library may have it in its own memory (a
 * copy relocation), and then the library uses that one. */
static const hid_t *variable(void *library, const char *name)
{
    const bool linked = dlsym(RTLD_DEFAULT, "H5open") == dlsym(library, "H5open");
    return dlsym(linked ? RTLD_DEFAULT : library, name);
}

/* False: a function is missing. */
static bool find_symbols(void *library)
{
    bool all = true;
#define FIND(name) all = (ls_h5.name = __extension__(typeof(&(name))) dlsym(library, #name)) && all;
    LS_HDF5_FUNCTIONS(FIND)
    if (!all || ls_h5.H5open() < 0 ||
        ls_h5.H5get_libversion(&ls_h5.version[0], &ls_h5.version[1], &ls_h5.version[2]) < 0)
        return false;
    ls_h5.f32 = variable(library, "H5T_NATIVE_FLOAT_g");
    ls_h5.f64 = variable(library, "H5T_NATIVE_DOUBLE_g");
    ls_h5.i32 = variable(library, "H5T_NATIVE_INT32_g");
    ls_h5.i64 = variable(library, "H5T_NATIVE_INT64_g");
    ls_h5.u8 = variable(library, "H5T_NATIVE_UINT8_g");
    ls_h5.access = variable(library, "H5P_CLS_DATASET_ACCESS_ID_g");
    return ls_h5.f32 && ls_h5.f64 && ls_h5.i32 && ls_h5.i64 && ls_h5.u8 && ls_h5.access;
}

ls_status ls_hdf5_load(const char *what)
{
    static const char *const NAMES[] = { LS_HDF5_LIBRARY, "libhdf5_serial.so.103", "libhdf5.so.103",
                                         "libhdf5.so" };
    void *library = NULL;
    if (ls_h5.ready)
        return LS_OK;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !library; i++)
        library = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL); /* never closed */
    if (library && !find_symbols(library))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: the libhdf5 of this machine lacks functions that reading needs: install version 1.10 "
            "or later",
            what);
    if (!library)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: reading HDF5 needs %s, which is not here: install libhdf5 (Debian: libhdf5-103-1)", what,
            LS_HDF5_LIBRARY);
    const char *plugins = getenv("HDF5_PLUGIN_PATH");
    ls_h5.plugins = plugins && *plugins;
    ls_h5.ready = true;
    return LS_OK;
}

ls_hdf5_settings ls_hdf5_enter(void)
{
    ls_hdf5_settings theirs = { 0 };
    ls_h5.H5Eget_auto2(H5E_DEFAULT, &theirs.print, &theirs.print_with);
    ls_h5.H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    ls_h5.H5PLget_loading_state(&theirs.plugins);
    if (!ls_h5.plugins)
        ls_h5.H5PLset_loading_state(0);
    return theirs;
}

void ls_hdf5_leave(ls_hdf5_settings theirs)
{
    ls_h5.H5PLset_loading_state(theirs.plugins);
    ls_h5.H5Eset_auto2(H5E_DEFAULT, theirs.print, theirs.print_with);
}

ls_status ls_hdf5_too_new(const char *what, const char *verb, const char *name)
{
    return ls_fail(LS_E_UNSUPPORTED,
                   "%s: libhdf5 %u.%u.%u cannot %s%s: it is written by a newer HDF5 than this library's, or "
                   "the file is damaged: read the file with a newer libhdf5, or write it for this one (h5py: "
                   "libver=(\"earliest\", \"v%u%02u\"))",
                   what, ls_h5.version[0], ls_h5.version[1], ls_h5.version[2], verb, name, ls_h5.version[0],
                   ls_h5.version[1]);
}

#endif

/* hdf5_library.h - libhdf5, which is loaded at run time. Empty in a build without its headers. */
#pragma once
#ifdef LS_HAVE_HDF5
#include <hdf5.h>
#include <pthread.h>
#include <stdbool.h>

#include "lockstep/types.h"

#if H5_VERSION_GE(1, 12, 0)
typedef H5O_info1_t ls_hdf5_object;
#else
typedef H5O_info_t ls_hdf5_object;
#endif

/* clang-format off */
/* The functions of the loaded library, with the types that its header declares. */
#define LS_HDF5_FUNCTIONS(F) \
    F(H5open) F(H5get_libversion) F(H5PLget_loading_state) F(H5PLset_loading_state) F(H5Eget_auto2) \
    F(H5Eset_auto2) F(H5Fopen) F(H5Fclose) F(H5Dopen2) F(H5Dclose) F(H5Dget_space) F(H5Dget_type) \
    F(H5Dget_create_plist) F(H5Dget_offset) F(H5Dread) F(H5Sget_simple_extent_ndims) \
    F(H5Sget_simple_extent_dims) F(H5Sget_simple_extent_npoints) F(H5Screate_simple) F(H5Sclose) \
    F(H5Sselect_hyperslab) F(H5Tget_class) F(H5Tget_size) F(H5Tget_sign) F(H5Tequal) F(H5Tclose) \
    F(H5Pget_layout) F(H5Pget_external_count) F(H5Pcreate) F(H5Pset_chunk_cache) F(H5Pclose) F(H5Lexists) \
    F(H5Lget_name_by_idx) F(H5Aexists) F(H5Aopen) F(H5Aread) F(H5Aget_space) F(H5Aclose) \
    F(H5Dget_storage_size) F(H5Pset_elink_cb) F(H5Pget_chunk) F(H5Pget_nfilters) F(H5Pget_filter2) \
    F(H5Zfilter_avail) F(H5Fget_create_plist) F(H5Pget_userblock) F(H5Pget_sizes) F(H5Oget_info_by_name2)
/* clang-format on */
typedef struct ls_hdf5_library {
#define LS_HDF5_MEMBER(name) typeof(&(name)) name;
    LS_HDF5_FUNCTIONS(LS_HDF5_MEMBER)
    const hid_t *f32, *f64, *i32, *i64, *u8, *access;
    unsigned version[3];
    bool ready;
    bool plugins; /* the user names a folder of filters */
} ls_hdf5_library;

extern ls_hdf5_library ls_h5; /* after ls_hdf5_load */

/* Builds of libhdf5 are usually not safe for threads, so it is held during every call. */
extern pthread_mutex_t ls_hdf5_lock;

/* What the library does for the whole process, whose program may use it, too. */
typedef struct ls_hdf5_settings {
    H5E_auto2_t print;
    void *print_with;
    unsigned plugins;
} ls_hdf5_settings;

/* LS_E_UNSUPPORTED: this machine has no libhdf5 that fits. `what` begins messages. */
ls_status ls_hdf5_load(const char *what);

/* Between the two the library prints no errors, and loads no code from a folder that nobody named. */
ls_hdf5_settings ls_hdf5_enter(void);
void ls_hdf5_leave(ls_hdf5_settings theirs);

/* LS_E_UNSUPPORTED: what is in the file, and the library cannot `verb` ("open it"; "read its attribute "
 * with a name). */
ls_status ls_hdf5_too_new(const char *what, const char *verb, const char *name);

#endif

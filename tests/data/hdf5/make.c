/* make.c FILE COLUMNS.. - reads a CSV table from standard input and writes it to FILE with libhdf5: each
 * column as a data set [rows], and x [rows, n], the named columns side by side. A FILE that ends in .nc has
 * what netCDF-4 adds: dimensions as HDF5 dimension scales, deflated chunks and fill values. */
#include <hdf5.h>
#include <hdf5_hl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096, COLUMNS = 16 };
static double table[COLUMNS][ROWS], side[ROWS * COLUMNS];
static char names[COLUMNS][32];
static int columns;
static hsize_t rows;

static void need(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "make: %s\n", what);
    exit(1);
}

static void read_table(void)
{
    static char line[4096];
    need(fgets(line, sizeof line, stdin) != NULL, "no header");
    for (char *word = strtok(line, ",\n"); word; word = strtok(NULL, ",\n"), columns++) {
        need(columns < COLUMNS, "too many columns");
        snprintf(names[columns], sizeof names[0], "%s", word);
    }
    for (; fgets(line, sizeof line, stdin); rows++) {
        char *at = line;
        need(rows < ROWS, "too many rows");
        for (int c = 0; c < columns; c++, at++)
            table[c][rows] = strtod(at, &at);
    }
}

/* A netCDF dimension: a data set that is a scale. Without a variable of its name it says so in its own. */
static hid_t dimension(hid_t file, const char *name, hsize_t n, int id)
{
    char label[80];
    hid_t space = H5Screate_simple(1, &n, NULL),
          set = H5Dcreate2(file, name, H5T_IEEE_F32BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    snprintf(label, sizeof label, "This is a netCDF dimension but not a netCDF variable.%10d", (int)n);
    need(set >= 0 && H5DSset_scale(set, label) >= 0, "a scale");
    hid_t one = H5Screate(H5S_SCALAR),
          dimid = H5Acreate2(set, "_Netcdf4Dimid", H5T_STD_I32LE, one, H5P_DEFAULT, H5P_DEFAULT);
    need(H5Awrite(dimid, H5T_NATIVE_INT, &id) >= 0, "an attribute");
    H5Aclose(dimid);
    H5Sclose(one);
    H5Sclose(space);
    return set;
}

static void write_set(hid_t file, const char *name, int n, const hsize_t *dims, const double *values,
                      const hid_t *scales)
{
    const double fill = 9.969209968386869e+36; /* NC_FILL_DOUBLE */
    hsize_t chunk[2] = { dims[0] < 50 ? dims[0] : 50, n > 1 ? dims[1] : 0 };
    hid_t space = H5Screate_simple(n, dims, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    if (scales)
        need(H5Pset_chunk(how, n, chunk) >= 0 && H5Pset_shuffle(how) >= 0 && H5Pset_deflate(how, 4) >= 0 &&
                 H5Pset_fill_value(how, H5T_NATIVE_DOUBLE, &fill) >= 0,
             "chunks");
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    need(set >= 0 && H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, name);
    for (int d = 0; scales && d < n; d++)
        need(H5DSattach_scale(set, scales[d], (unsigned)d) >= 0, "a dimension");
    if (scales) {
        hid_t one = H5Screate(H5S_SCALAR),
              a = H5Acreate2(set, "_FillValue", H5T_IEEE_F64LE, one, H5P_DEFAULT, H5P_DEFAULT);
        need(H5Awrite(a, H5T_NATIVE_DOUBLE, &fill) >= 0, "_FillValue");
        H5Aclose(a);
        H5Sclose(one);
    }
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
}

int main(int argc, char **argv)
{
    need(argc > 2, "make FILE COLUMNS..");
    read_table();
    const size_t length = strlen(argv[1]);
    const int netcdf = length > 3 && !strcmp(argv[1] + length - 3, ".nc"), wide = argc - 2;
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), scales[2] = { -1, -1 };
    need(file >= 0, argv[1]);
    if (netcdf) {
        scales[0] = dimension(file, "sample", rows, 0);
        scales[1] = dimension(file, "feature", (hsize_t)wide, 1);
    }
    for (int c = 0; c < columns; c++)
        write_set(file, names[c], 1, &rows, table[c], netcdf ? scales : NULL);
    for (int k = 0; k < wide; k++) {
        int c = 0;
        while (c < columns && strcmp(names[c], argv[2 + k]))
            c++;
        need(c < columns, argv[2 + k]);
        for (hsize_t i = 0; i < rows; i++)
            side[i * (hsize_t)wide + (hsize_t)k] = table[c][i];
    }
    write_set(file, "x", 2, (hsize_t[]){ rows, (hsize_t)wide }, side, netcdf ? scales : NULL);
    for (int d = 0; d < 2 && netcdf; d++)
        H5Dclose(scales[d]);
    need(H5Fclose(file) >= 0, "closing");
    return 0;
}

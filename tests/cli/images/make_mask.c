/* make_mask.c - writes a PNG for tests/cli/masks.sh: make_mask WIDTH HEIGHT [palette|colour] prints one with
 * the bytes of stdin as its values, gray unless the third argument says otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argc > 3 ? argv[3] : "";
    const int width = atoi(argv[1]), height = atoi(argv[2]), palette = !strcmp(kind, "palette"),
              type = palette                   ? PNG_COLOR_TYPE_PALETTE
                     : !strcmp(kind, "colour") ? PNG_COLOR_TYPE_RGB
                                               : PNG_COLOR_TYPE_GRAY;
    const size_t row = (size_t)width * (type == PNG_COLOR_TYPE_RGB ? 3 : 1);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color colours[256];
    png_init_io(png, stdout);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++) /* colours that say nothing of the number */
        colours[i] = (png_color){ (png_byte)(i * 37 + 200), (png_byte)(i * 91), (png_byte)(255 - i * 13) };
    if (palette)
        png_set_PLTE(png, info, colours, 256);
    png_write_info(png, info);
    unsigned char *line = calloc(1, row);
    for (int y = 0; y < height; y++) {
        if (fread(line, 1, row, stdin) != row)
            return 1;
        png_write_row(png, line);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(line);
    return fflush(stdout) ? 1 : 0;
}

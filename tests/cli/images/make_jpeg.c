/* make_jpeg.c - writes a JPEG for tests/cli/images.sh: make_jpeg WIDTH HEIGHT RED GREEN BLUE
 * [gray|progressive|cmyk] prints a picture of about this colour, which changes a little from pixel to pixel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    const char *kind = argc > 6 ? argv[6] : "";
    const int width = atoi(argv[1]), height = atoi(argv[2]), cmyk = !strcmp(kind, "cmyk"),
              gray = !strcmp(kind, "gray"),
              each = gray   ? 1
                     : cmyk ? 4
                            : 3;
    int colour[4] = { atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
                      255 }; /* K of 255: inverted, as Adobe has it */
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, stdout);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = each;
    jpeg.in_color_space = gray ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg.write_Adobe_marker = cmyk;
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (!strcmp(kind, "progressive"))
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    unsigned char *row = malloc((size_t)(width * each));
    for (int y = 0; y < height; y++) {
        for (int i = 0; i < width * each; i++) {
            const int v = colour[i % each] + (i / each * 7 + y * 3) % 23 - 11;
            row[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    return 0;
}

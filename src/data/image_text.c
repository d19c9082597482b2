/* image_text.c - an image as text for the terminal. */
#include "base/argument.h"
#include "base/str.h"
#include "lockstep/data.h"

/* The colour 0xRRGGBB of a pixel; black below the last row. */
static uint32_t pixel(const uint8_t *image, int channels, int height, int width, int y, int x)
{
    if (y >= height)
        return 0;
    size_t plane = channels == 3 ? (size_t)height * (size_t)width : 0;
    const uint8_t *p = image + (size_t)y * (size_t)width + (size_t)x;
    return (uint32_t)p[0] << 16 | (uint32_t)p[plane] << 8 | p[2 * plane];
}

static unsigned luma(uint32_t c) { return (299 * (c >> 16) + 587 * (c >> 8 & 255) + 114 * (c & 255)) / 1000; }

char *ls_image_text(const uint8_t *image, int channels, int height, int width, bool colour)
{
    LS_ARG_OR(image, NULL);
    static const char RAMP[] = " .:-=+*#%@";
    ls_str out = { 0 };
    for (int y = 0; y < height; y += 2) {
        for (int x = 0; x < width; x++) {
            uint32_t a = pixel(image, channels, height, width, y, x),
                     b = pixel(image, channels, height, width, y + 1, x);
            /* the upper half block: the text colour is the upper pixel, the background the lower one */
            if (colour)
                ls_str_printf(&out, "\033[38;2;%u;%u;%um\033[48;2;%u;%u;%um\xe2\x96\x80", a >> 16,
                              a >> 8 & 255, a & 255, b >> 16, b >> 8 & 255, b & 255);
            else
                ls_str_add_n(&out, &RAMP[(luma(a) + luma(b)) * 10 / 511], 1);
        }
        ls_str_add(&out, colour ? "\033[0m\n" : "\n");
    }
    return ls_str_take(&out);
}

/* data_page.c - a page that shows what the model will see: the fields, the classes, and the samples of an
 * epoch with what was drawn for each. */
#include "data_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/sys.h"
#include "data/image.h"
#include "pages/page.h"

static void card(ls_str *out, const char *value, const char *what)
{
    ls_str_add(out, "<div class=\"card\"><b>");
    ls_html_add(out, value);
    ls_str_add(out, "</b><span>");
    ls_html_add(out, what);
    ls_str_add(out, "</span></div>\n");
}

static void head(const ls_data_view *v, ls_str *out)
{
    const ls_dataset *set = v->set;
    char text[160];
    ls_page_begin(out, set->name, true);
    ls_str_add(out, "<h1>");
    ls_html_add(out, set->name);
    ls_str_printf(out, "</h1>\n<p class=\"sub\">%s split, epoch %lld of run ",
                  set->split == LS_SPLIT_TRAIN ? "training" : "evaluation", (long long)v->epoch);
    ls_html_add(out, v->recipe->run.name);
    ls_str_printf(out, ", seed %lld; ", (long long)v->recipe->run.seed);
    ls_html_add(out, set->source);
    ls_str_add(out, "</p>\n");
    if (set->builtin)
        ls_str_add(out, "<p class=\"warn\">This is the built-in set of drawn shapes.</p>\n");
    ls_str_add(out, "<div class=\"cards\">\n");
    card(out, ls_html_count(text, set->n), "samples in the split");
    if (v->images >= 0) {
        const int64_t *d = set->fields[v->images].type.dims;
        snprintf(text, sizeof text, "%lld × %lld × %lld", (long long)d[0], (long long)d[1], (long long)d[2]);
        card(out, text, "channels, height, width");
    }
    if (v->counts)
        card(out, ls_html_count(text, set->fields[v->labels].below), "classes");
    snprintf(text, sizeof text, "%lld × %lld", (long long)(v->order.global_batch / v->order.micro_batch),
             (long long)v->order.micro_batch);
    card(out, text, "micro-batches × samples a step");
    card(out, ls_html_count(text, ls_order_steps(&v->order)), "steps of the epoch");
    ls_str_add(out, "</div>\n");
}

/* A number x of the field is shown as (x / unit - mean) / std. */
static void stats_row(ls_str *out, const char *name, const char *type, const ls_view_stats *s, double unit,
                      double mean, double std)
{
    char room[4][32];
    ls_html_cells(out, 6,
                  (const char *const[]){ name, type,
                                         ls_html_number(room[0], "%.5g", (s->least / unit - mean) / std),
                                         ls_html_number(room[1], "%.5g", (s->most / unit - mean) / std),
                                         ls_html_number(room[2], "%.5g", (s->mean / unit - mean) / std),
                                         ls_html_number(room[3], "%.5g", s->deviation / unit / std) });
}

static void begin_table(ls_str *out, int n, const char *const *titles)
{
    ls_str_add(out, "<div class=\"scroll\"><table><thead><tr>");
    for (int i = 0; i < n; i++)
        ls_str_printf(out, "<th>%s</th>", titles[i]);
    ls_str_add(out, "</tr></thead><tbody>\n");
}

/* Pixels by channel: what the model computes with, what the loader gives it, what the data set has. */
static void pixels(const ls_data_view *v, ls_str *out)
{
    const int64_t *d = v->set->fields[v->images].type.dims;
    for (int64_t c = 0; c < d[0]; c++) {
        char name[96], type[96];
        double mean, std;
        ls_view_stats s = ls_data_view_stats(v, v->images, v->drawn[v->images], d[1] * d[2], d[0], c);
        ls_data_view_scale(v, c, &mean, &std);
        ls_snprintf(type, sizeof type, "(pixel / 255 − %.4g) / %.4g", mean, std);
        snprintf(name, sizeof name, "channel %lld, as the model computes with it", (long long)c);
        if (v->normalised)
            stats_row(out, name, type, &s, 255, mean, std);
        snprintf(name, sizeof name, "channel %lld, as the loader gives it", (long long)c);
        stats_row(out, name, "pixel / 255", &s, 255, 0, 1);
        if (!v->set->read_drawn || !v->order.augment)
            continue;
        s = ls_data_view_stats(v, v->images, v->plain[v->images], d[1] * d[2], d[0], c);
        snprintf(name, sizeof name, "channel %lld, unchanged", (long long)c);
        stats_row(out, name, "pixel / 255", &s, 255, 0, 1);
    }
}

static void fields(const ls_data_view *v, ls_str *out)
{
    ls_str_printf(out, "<h2>Fields</h2>\n<p class=\"note\">Of the %lld samples on this page.</p>\n",
                  (long long)v->n);
    begin_table(out, 6, (const char *const[]){ "field", "type", "min", "max", "mean", "deviation" });
    for (int k = 0; k < v->set->n_fields; k++) {
        const ls_field *f = &v->set->fields[k];
        char type[128];
        const ls_view_stats s = ls_data_view_stats(v, k, v->drawn[k], 1, 1, 0);
        stats_row(out, f->name, ls_type_text(type, &f->type), &s, 1, 0, 1);
    }
    if (v->images >= 0)
        pixels(v, out);
    ls_str_add(out, "</tbody></table></div>\n");
}

static void classes(const ls_data_view *v, ls_str *out)
{
    const ls_field *f = &v->set->fields[v->labels];
    int64_t most = 1;
    for (int64_t c = 0; c < f->below; c++)
        most = v->counts[c] > most ? v->counts[c] : most;
    ls_str_add(out, "<h2>Classes</h2>\n<p class=\"note\">Of the whole split.</p>\n");
    begin_table(out, 4, (const char *const[]){ "class", "samples", "share", "" });
    for (int64_t c = 0; c < f->below; c++) {
        char number[32], n[32];
        snprintf(number, sizeof number, "%lld", (long long)c);
        ls_str_add(out, "<tr><td>");
        ls_html_add(out, f->names ? f->names[c] : number);
        ls_str_printf(out,
                      "</td><td>%s</td><td>%.2f%%</td><td class=\"share\"><span class=\"bar\" "
                      "style=\"width:%.1f%%\"></span></td></tr>\n",
                      ls_html_count(n, v->counts[c]), 100 * (double)v->counts[c] / (double)v->set->n,
                      100 * (double)v->counts[c] / (double)most);
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

/* ---- samples */

/* Interleaved pixels, [height, width, channels], as a picture of the page. */
static ls_status add_picture(const ls_data_view *v, const uint8_t *pixels, int channels, int64_t k,
                             const char *what, ls_str *out)
{
    const int64_t *d = v->set->fields[v->images].type.dims;
    uint8_t *png = NULL;
    size_t size = 0;
    LS_TRY(ls_png_encode(&png, &size, channels, (int)d[1], (int)d[2], pixels));
    ls_str_printf(out, "<img alt=\"sample %lld, %s\" title=\"%s\" src=\"data:image/png;base64,",
                  (long long)v->samples[k].sample, what, what);
    ls_str_add_base64(out, png, size);
    ls_str_add(out, "\"/>");
    free(png);
    return LS_OK;
}

static ls_status image(const ls_data_view *v, const uint8_t *values, int64_t k, const char *what, ls_str *out)
{
    const int64_t *d = v->set->fields[v->images].type.dims, plane = d[1] * d[2], first = k * d[0] * plane;
    const int channels = d[0] == 3 ? 3 : 1; /* others: the first channel, as gray */
    uint8_t *interleaved = ls_sys_malloc((size_t)(plane * channels));
    LS_TRY(ls_sys_have(interleaved));
    for (int64_t i = 0; i < plane * channels; i++)
        interleaved[i] = (uint8_t)ls_data_view_at(v, v->images, values,
                                                  first + i % channels * plane + i / channels);
    const ls_status s = add_picture(v, interleaved, channels, k, what, out);
    free(interleaved);
    return s;
}

/* Pascal VOC's colours: the bits of the class, three by three, are the high bits of red, green and blue. */
static void colour_of(uint8_t out[3], int64_t class)
{
    memset(out, 0, 3);
    if (class == LS_IGNORE_LABEL)
        memcpy(out, (const uint8_t[3]){ 224, 224, 192 }, 3);
    else
        for (int bit = 0; bit < 8 * 3; bit++)
            out[bit % 3] |= (uint8_t)((class >> bit & 1) << (7 - bit / 3));
}

static ls_status mask(const ls_data_view *v, uint8_t *const *values, int64_t k, const char *what, ls_str *out)
{
    if (v->mask < 0)
        return LS_OK;
    const int64_t n = ls_type_count(&v->set->fields[v->mask].type);
    uint8_t *pixels = ls_sys_malloc(3 * (size_t)n);
    LS_TRY(ls_sys_have(pixels));
    for (int64_t i = 0; i < n; i++)
        colour_of(pixels + 3 * i, (int64_t)ls_data_view_at(v, v->mask, values[v->mask], k * n + i));
    const ls_status s = add_picture(v, pixels, 3, k, what, out);
    free(pixels);
    return s;
}

/* The numbers of an image that the model computes with: "-1 to 0.97, mean -0.62". */
static void range(const ls_data_view *v, int64_t k, ls_str *out)
{
    const int64_t *d = v->set->fields[v->images].type.dims, plane = d[1] * d[2], n = d[0] * plane;
    double least = INFINITY, most = -INFINITY, sum = 0, mean, std;
    char room[3][32];
    for (int64_t i = 0; i < n; i++) {
        ls_data_view_scale(v, i / plane, &mean, &std);
        const double x = v->drawn[v->images][k * n + i] / (v->normalised ? 255.0 : 1.0);
        least = fmin(least, (x - mean) / std);
        most = fmax(most, (x - mean) / std);
        sum += (x - mean) / std;
    }
    ls_str_printf(out, "<br/>%s to %s, mean %s", ls_html_number(room[0], "%.4g", least),
                  ls_html_number(room[1], "%.4g", most), ls_html_number(room[2], "%.4g", sum / (double)n));
}

static ls_status pictures(const ls_data_view *v, ls_str *out)
{
    const bool changed = v->set->read_drawn && v->order.augment;
    ls_status s = LS_OK;
    if (v->mask >= 0)
        ls_str_printf(out,
                      "<p class=\"note\">An image and its mask%s. Masks have the colours of Pascal VOC: "
                      "class 0 is black; cream-coloured pixels do not count.</p>\n",
                      changed ? " as the model gets them, then both as in the data set" : "");
    else if (changed)
        ls_str_add(out,
                   "<p class=\"note\">Left: as the model gets it. Right: the sample of the data set.</p>\n");
    ls_str_add(out, "<p class=\"note\">Under an image stand the numbers that the model computes with: the "
                    "least, the greatest and the mean.</p>\n<div class=\"samples\">\n");
    for (int64_t k = 0; k < v->n && s == LS_OK; k++) {
        ls_str text = { 0 };
        ls_str_add(out, "<figure>");
        s = image(v, v->drawn[v->images], k, "as the model gets it", out);
        if (s == LS_OK)
            s = mask(v, v->drawn, k, "mask", out);
        if (s == LS_OK && changed)
            s = image(v, v->plain[v->images], k, "unchanged", out);
        if (s == LS_OK && changed)
            s = mask(v, v->plain, k, "mask, unchanged", out);
        ls_str_add(out, "<figcaption><b>");
        ls_data_view_target(v, k, &text);
        ls_html_add(out, ls_str_text(&text));
        ls_str_release(&text);
        ls_data_view_steps(v, k, &text);
        ls_str_printf(out, "</b> #%lld<br/>", (long long)v->samples[k].sample);
        ls_html_add(out, ls_str_text(&text));
        range(v, k, out);
        char *file = v->set->file ? v->set->file(v->set, v->samples[k].sample) : NULL;
        if (v->set->file && s == LS_OK)
            s = ls_sys_have(file);
        ls_str_add(out, file ? "<br/>" : "");
        ls_html_add(out, file ? file : "");
        free(file);
        ls_str_add(out, "</figcaption></figure>\n");
        ls_str_inherit(out, &text);
        ls_str_release(&text);
    }
    ls_str_add(out, "</div>\n");
    return s;
}

/* The first elements of a field of sample k, as the model gets them. */
static void first_numbers(const ls_data_view *v, int f, int64_t k, int64_t most, ls_str *out)
{
    const int64_t n = ls_type_count(&v->set->fields[f].type);
    for (int64_t i = 0; i < n && i < most; i++)
        ls_str_printf(out, "%s%.5g", i ? ", " : "", ls_data_view_at(v, f, v->drawn[f], k * n + i));
    ls_str_add(out, n > most ? ", …" : "");
}

static ls_status texts(const ls_data_view *v, ls_str *out)
{
    ls_status s = LS_OK;
    for (int64_t k = 0; k < v->n && s == LS_OK; k++)
        for (int f = 0; f < v->set->n_fields && s == LS_OK; f++) {
            ls_str text = { 0 };
            s = ls_data_view_text(v, f, k, &text);
            ls_str_printf(out, "<p class=\"note\">sample %lld, ", (long long)v->samples[k].sample);
            ls_html_add(out, v->set->fields[f].name);
            ls_str_add(out, "</p><pre class=\"text\">");
            ls_html_add(out, ls_str_text(&text));
            ls_str_add(out, "</pre>\n<p class=\"note\">");
            first_numbers(v, f, k, 24, out);
            ls_str_add(out, "</p>\n");
            ls_str_inherit(out, &text);
            ls_str_release(&text);
        }
    return s;
}

/* Of fields without a picture: the first numbers of each. */
static void numbers(const ls_data_view *v, ls_str *out)
{
    enum { SHOWN = 8 };
    ls_str_add(out, "<div class=\"scroll\"><table><thead><tr><th>sample</th>");
    for (int f = 0; f < v->set->n_fields; f++) {
        ls_str_add(out, "<th>");
        ls_html_add(out, v->set->fields[f].name);
        ls_str_add(out, "</th>");
    }
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int64_t k = 0; k < v->n; k++) {
        ls_str_printf(out, "<tr><td>%lld</td>", (long long)v->samples[k].sample);
        for (int f = 0; f < v->set->n_fields; f++) {
            ls_str_add(out, "<td>");
            first_numbers(v, f, k, SHOWN, out);
            ls_str_add(out, "</td>");
        }
        ls_str_add(out, "</tr>\n");
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

ls_status ls_data_page(const ls_data_view *v, ls_str *out)
{
    ls_status s = LS_OK;
    head(v, out);
    fields(v, out);
    if (v->counts)
        classes(v, out);
    ls_str_printf(out, "<h2>The first %lld samples of epoch %lld</h2>\n", (long long)v->n,
                  (long long)v->epoch);
    if (v->images >= 0)
        s = pictures(v, out);
    else if (v->tokenizer)
        s = texts(v, out);
    else
        numbers(v, out);
    ls_page_end(out, "");
    return s == LS_OK ? ls_str_status(out) : s;
}

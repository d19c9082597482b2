/* test_tensorboard.c - event files: records have the bytes of TensorBoard's own writer, and a run writes the
 * expected records to the expected files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>

#include "base/file.h"
#include "base/hash.h"
#include "record/metrics.h"
#include "record/hparams.h"
#include "record/tensorboard.h"
#include "support/support.h"

/* Made by RecordWriter and the Event message of TensorBoard 2.x (as torch.utils.tensorboard writes them), in
 * hexadecimal. */
static void records_are_those_of_tensorboard(void **state)
{
    (void)state;
    const ls_scalar pair[] = { { "train/loss", 2.3025851 }, { "train/lr", 0.001 } },
                    zero = { "eval/accuracy", 0 };
    const struct {
        double time;
        int64_t step;
        int n;
        const ls_scalar *scalars;
        const char *want;
    } ALL[] = {
        { 1700000000.25, 0, 0, NULL,
          "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9" },
        { 1700000000.5, 300, 2, pair,
          "3200000000000000241956ec0900002040fc54d94110ac022a240a110a0a747261696e2f6c6f7373158e5d13400a0f0a08"
          "747261696e2f6c72156f12833a7c27bccc" },
        { 1700000001.0, 0, 1, &zero,
          "2100000000000000017becf60900004040fc54d9412a160a140a0d6576616c2f616363757261637915000000006791831"
          "4" },
    };
    for (size_t i = 0; i < sizeof ALL / sizeof ALL[0]; i++) {
        uint8_t record[LS_EVENT_RECORD];
        char hex[2 * LS_EVENT_RECORD + 1] = "";
        const size_t n = ls_event_record(record, ALL[i].time, ALL[i].step, ALL[i].n, ALL[i].scalars);
        for (size_t k = 0; k < n; k++)
            snprintf(hex + 2 * k, 3, "%02x", record[k]);
        assert_string_equal(hex, ALL[i].want);
    }
}

/* A tag of 200 letters and a step of six bytes: lengths of more than one byte. */
static void long_names_fit(void **state)
{
    (void)state;
    uint8_t record[LS_EVENT_RECORD];
    char name[201];
    memset(name, 'x', 200);
    name[200] = 0;
    const size_t n = ls_event_record(record, 1, ((int64_t)1 << 40) + 5, 1, &(ls_scalar){ name, NAN });
    static const uint8_t BEGIN[] = { 0xe6, 0,    0,    0,    0,    0,    0,    0,    0x71, 0x23,
                                     0x4f, 0x87, 0x09, 0,    0,    0,    0,    0,    0,    0xf0,
                                     0x3f, 0x10, 0x85, 0x80, 0x80, 0x80, 0x80, 0x20, 0x2a, 0xd3,
                                     0x01, 0x0a, 0xd0, 0x01, 0x0a, 0xc8, 0x01, 'x' },
                         END[] = { 'x', 0x15, 0, 0, 0xc0, 0x7f, 0xd2, 0x22, 0x3c, 0xf0 };
    assert_int_equal(n, 8 + 4 + 0xe6 + 4);
    assert_memory_equal(record, BEGIN, sizeof BEGIN);
    assert_memory_equal(record + n - sizeof END, END, sizeof END);
}

static uint64_t little(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    while (bytes--)
        x = x << 8 | p[bytes];
    return x;
}

static bool crc_is(const uint8_t *data, size_t n)
{
    const uint32_t c = ls_crc32c(data, n);
    return little(data + n, 4) == (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u);
}

/* The records of a file as text: "step tag=value ..." a line. Reads only what the writer writes. */
static void read_events(char *out, size_t most, const uint8_t *p, const uint8_t *end)
{
    size_t used = 0;
    *out = 0;
#define SAY(...) used += (size_t)snprintf(out + used, most - used, __VA_ARGS__)
    while (p < end) {
        const size_t n = (size_t)little(p, 8);
        assert_true(crc_is(p, 8) && crc_is(p + 12, n));
        const uint8_t *e = p + 12, *stop = e + n;
        double time;
        float value;
        assert_int_equal(*e, 1 << 3 | 1);
        memcpy(&time, e + 1, 8);
        assert_true(time > 1.7e9 && time < 1e11);
        e += 9;
        int step = 0;
        if (*e == (2 << 3 | 0)) {
            step = *++e & 0x7f;
            if (*e & 0x80)
                step |= *++e << 7;
            e++;
        }
        if (*e == (3 << 3 | 2)) {
            SAY("version %.*s\n", e[1], (const char *)e + 2);
        } else if (memmem(e, (size_t)(stop - e), "_hparams_", 9)) {
            SAY("hparams%s\n", memmem(e, (size_t)(stop - e), "log.tensorboard", 15) ? " log" : "");
        } else {
            SAY("%d", step);
            e += e[1] & 0x80 ? 3 : 2;
            for (; e < stop; e += 2 + e[1]) {
                memcpy(&value, e + 5 + e[3], 4);
                SAY(" %.*s=%g", e[3], (const char *)e + 4, (double)value);
            }
            SAY("\n");
        }
        p += 12 + n + 4;
    }
    assert_true(p == end);
}

static ls_rundir *opened(bool wanted)
{
    static const char TEXT[] = "run: {name: one}\nmodel: {type: mlp}\ndata: {type: mnist}\n";
    char set[600];
    const char *const sets[] = { set, "log.tensorboard=true" };
    snprintf(set, sizeof set, "run.storage=%s", ls_test_path(wanted ? "yes" : "no"));
    ls_recipe *r;
    ls_rundir *d;
    ASSERT_OK(ls_recipe_load_text(&r, TEXT, strlen(TEXT), "test.yaml", wanted ? 2 : 1, sets));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 299 + (int)d->attempt,
                                                 .loss = 0.5f,
                                                 .lr = 0.25,
                                                 .samples = 8,
                                                 .seconds = 0.5,
                                                 .grad_norm = d->attempt ? 2 : -1 }));
    ASSERT_OK(ls_metrics_eval(
        d, &(ls_eval_row){
               .step = 300,
               .eval = { .n = 2, .at = (ls_metric[]){ { "loss", 0.75 }, { "accuracy", 0.125 } } } }));
    ls_recipe_destroy(&r);
    return d;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void each_attempt_has_a_file(void **state)
{
    (void)state;
    static const char *const WANT[] = {
        "version brain.Event:2\nhparams\n299 train/images_per_second=16 train/loss=0.5 train/lr=0.25\n300 "
        "eval/loss=0.75 eval/accuracy=0.125\n",
        "version brain.Event:2\nhparams\n300 train/images_per_second=16 train/loss=0.5 train/lr=0.25 "
        "train/grad_norm=2\n300 eval/loss=0.75 eval/accuracy=0.125\n"
    };
    for (int i = 0; i < 2; i++) {
        ls_rundir *d = opened(true);
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    }
    struct dirent **files;
    /* with . and .. */
    assert_int_equal(scandir(ls_test_path("yes/one/tensorboard"), &files, NULL, by_name), 4);
    for (int i = 0; i < 2; i++) {
        char path[900], text[1024], *bytes;
        size_t n;
        assert_int_equal(strncmp(files[2 + i]->d_name, "events.out.tfevents.", 20), 0);
        snprintf(path, sizeof path, "%s/%s", ls_test_path("yes/one/tensorboard"), files[2 + i]->d_name);
        ASSERT_OK(ls_file_read(&bytes, &n, path));
        read_events(text, sizeof text, (uint8_t *)bytes, (uint8_t *)bytes + n);
        assert_string_equal(text, WANT[i]);
        free(bytes);
    }
    for (int i = 0; i < 4; i++)
        free(files[i]);
    free(files);
    ls_rundir *d = opened(false);
    assert_false(ls_dir_exists(ls_test_path("no/one/tensorboard"))); /* only where it is asked for */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
}

/* An entry of the map of hyperparameters: its key, and its value with the tag of its type. */
static bool has_entry(const ls_str *summary, const char *key, const void *value, size_t n)
{
    ls_str entry = { 0 };
    ls_str_printf(&entry, "\n%c%s\x12%c", (int)strlen(key), key, (int)n);
    ls_str_add_n(&entry, value, n);
    const bool has = memmem(ls_str_text(summary), summary->len, ls_str_text(&entry), entry.len);
    ls_str_release(&entry);
    return has;
}

static void settings_have_types(void **state)
{
    (void)state;
    static const char TEXT[] = "run: {name: one}\nmodel: {type: mlp}\ndata: {type: mnist, download: false}\n"
                               "optimizer: {lr: 0.5}\n";
    ls_recipe *r;
    ls_str s = { 0 };
    ASSERT_OK(ls_recipe_load_text(&r, TEXT, strlen(TEXT), "test.yaml", 0, NULL));
    ASSERT_OK(ls_hparams_summary(&s, r));
    assert_true(has_entry(&s, "model.type", "\x1a\3mlp", 5));
    assert_true(has_entry(&s, "data.download", "\x20\0", 2));
    assert_true(has_entry(&s, "optimizer.lr", "\x11\0\0\0\0\0\0\xe0\x3f", 9)); /* 0.5 */
    assert_null(memmem(s.data, s.len, "run.name", 8));
    assert_null(memmem(s.data, s.len, "train.epochs", 12)); /* a default */
    ls_str_release(&s);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_those_of_tensorboard),
        cmocka_unit_test(long_names_fit),
        cmocka_unit_test(each_attempt_has_a_file),
        cmocka_unit_test(settings_have_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

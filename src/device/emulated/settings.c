/* settings.c - LOCKSTEP_EMULATED, "seed=3,delay=200us,memory=256MiB,fail=17,skip=2,links=1", each part
 * optional. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/str.h"
#include "emulated_own.h"

enum { WORD = 32 };

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    *out = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *out < INT64_MAX;
}

static bool parse_time(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };
    char *end;
    const double value = ls_strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name)) {
            *seconds = value * units[i].seconds;
            return *text >= '0' && *text <= '9' && *seconds <= 60;
        }
    return false;
}

static bool parse_word(const char *word, ls_emulation *e)
{
    const char *value = strchr(word, '=');
    int64_t seed;
    if (!value)
        return false;
    value++;
    if (!strncmp(word, "seed=", 5))
        return parse_number(value, &seed) && (e->seed = (uint64_t)seed, true);
    if (!strncmp(word, "delay=", 6))
        return parse_time(value, &e->delay);
    if (!strncmp(word, "memory=", 7))
        return ls_parse_bytes(value, &e->memory) && e->memory > 0;
    if (!strncmp(word, "fail=", 5))
        return parse_number(value, &e->fail) && e->fail > 0;
    if (!strncmp(word, "skip=", 5))
        return parse_number(value, &e->skip) && e->skip > 0;
    if (!strncmp(word, "links=", 6))
        return parse_number(value, &e->links) && e->links < 2;
    return false;
}

ls_status ls_emulation_read(ls_emulation *out)
{
    const char *text = getenv("LOCKSTEP_EMULATED");
    *out = (ls_emulation){ .delay = 20e-6, .memory = INT64_C(16) << 30 };
    for (const char *at = text ? text : ""; *at;) {
        char word[WORD];
        const size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (n >= sizeof word || !parse_word(word, out) || (at[n] && !at[n + 1]))
            return ls_fail(LS_E_USAGE,
                           "LOCKSTEP_EMULATED=%s: \"%s\" is not understood; use a list of seed=3, "
                           "delay=200us (or ms, s; at most 60s), memory=256MiB, fail=17 (the task that "
                           "fails), skip=2 (the await that is left out) and links=1 (between ranks that are "
                           "threads)",
                           text, word);
        at += n + (at[n] == ',');
    }
    return LS_OK;
}

/* Counts of this process, under these settings. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char text[8 * WORD];
    int64_t queues, awaits;
} counted;

static int64_t count(int64_t *of)
{
    const char *text = getenv("LOCKSTEP_EMULATED");
    char now[sizeof counted.text];
    snprintf(now, sizeof now, "%s", text ? text : "");
    pthread_mutex_lock(&lock);
    if (strcmp(now, counted.text)) {
        memcpy(counted.text, now, sizeof now);
        counted.queues = counted.awaits = 0;
    }
    const int64_t n = ++*of;
    pthread_mutex_unlock(&lock);
    return n;
}

int64_t ls_emulation_queue(void) { return count(&counted.queues); }
int64_t ls_emulation_await(void) { return count(&counted.awaits); }

/* hparams.c - see hparams.h. The messages are those of TensorBoard's plugins/hparams/plugin_data.proto:
 * Summary { value { tag, metadata { plugin_data { plugin_name, content } } } }, whose content is
 * HParamsPluginData { session_start_info { hparams: map from text to google.protobuf.Value } }. */
#include "hparams.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/sys.h"
#include "recipe/recipe_fields.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };                         /* how a field is encoded */
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_METADATA = 9 };       /* Summary, Summary.Value */
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };   /* SummaryMetadata */
enum { SESSION_START = 3, HPARAMS = 1, MAP_KEY = 1, MAP_VALUE = 2 }; /* HParamsPluginData */
enum { NUMBER_VALUE = 2, STRING_VALUE = 3, BOOL_VALUE = 4 };         /* google.protobuf.Value */

static void add_varint(ls_str *out, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        ls_str_add_n(out, &(char){ (char)(x | 0x80) }, 1);
    ls_str_add_n(out, &(char){ (char)x }, 1);
}

static void add_field(ls_str *out, int field, const char *bytes, size_t n)
{
    add_varint(out, (uint64_t)(field << 3 | BYTES));
    add_varint(out, n);
    ls_str_add_n(out, bytes, n);
}

/* Puts a message into a field of another one, and releases it. */
static void add_message(ls_str *out, int field, ls_str *message)
{
    ls_str_inherit(out, message);
    add_field(out, field, ls_str_text(message), message->len);
    ls_str_release(message);
}

static void add_setting(ls_str *out, const ls_key *k, const char *text)
{
    ls_str value = { 0 }, entry = { 0 };
    char *end;
    const double number = ls_strtod(text, &end);
    if (k->kind == LS_KEY_BOOL) {
        add_varint(&value, BOOL_VALUE << 3 | VARINT);
        add_varint(&value, !strcmp(text, "true"));
    } else if ((k->kind == LS_KEY_INT || k->kind == LS_KEY_REAL) && end != text && !*end) {
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        add_varint(&value, NUMBER_VALUE << 3 | FIXED64);
        for (int i = 0; i < 8; i++)
            ls_str_add_n(&value, &(char){ (char)(bits >> 8 * i) }, 1);
    } else {
        add_field(&value, STRING_VALUE, text, strlen(text));
    }
    add_field(&entry, MAP_KEY, k->key, strlen(k->key));
    add_message(&entry, MAP_VALUE, &value);
    add_message(out, HPARAMS, &entry);
}

/* What distinguishes runs, not where a run lies or what it prints. */
static bool is_hparam(const ls_key *k, const char *origin)
{
    return origin && strcmp(origin, "default") && !strstr(origin, "(environment") &&
           strcmp(k->key, "run.name") && strcmp(k->key, "run.storage") && strncmp(k->key, "log.", 4);
}

ls_status ls_hparams_summary(ls_str *out, const ls_recipe *r)
{
    static const char TAG[] = "_hparams_/session_start_info", PLUGIN[] = "hparams";
    ls_str session = { 0 }, content = { 0 }, plugin = { 0 }, metadata = { 0 }, value = { 0 };
    bool no_memory = false;
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        if (!is_hparam(k, ls_recipe_origin(r, k->key)))
            continue;
        char *text = ls_recipe_value(r, k->key);
        no_memory = no_memory || !text;
        if (text)
            add_setting(&session, k, text);
        free(text);
    }
    const bool any = session.len > 0;
    add_message(&content, SESSION_START, &session);
    add_field(&plugin, PLUGIN_NAME, PLUGIN, sizeof PLUGIN - 1);
    add_message(&plugin, PLUGIN_CONTENT, &content);
    add_message(&metadata, METADATA_PLUGIN, &plugin);
    add_field(&value, VALUE_TAG, TAG, sizeof TAG - 1);
    add_message(&value, VALUE_METADATA, &metadata);
    if (any)
        add_message(out, SUMMARY_VALUE, &value);
    ls_str_release(&value);
    return no_memory ? ls_sys_have(NULL) : ls_str_status(out);
}

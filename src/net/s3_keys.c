/* s3_keys.c - see s3_keys.h. */
#include "net/s3_keys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The text between spaces of [from, to); malloc'ed. */
static char *trimmed(const char *from, const char *to)
{
    while (from < to && strchr(" \t\r", *from))
        from++;
    while (to > from && strchr(" \t\r", to[-1]))
        to--;
    return ls_sys_strndup(from, (size_t)(to - from));
}

static void set_once(char **to, char *value)
{
    if (*to)
        free(value);
    else
        *to = value;
}

/* The lines "NAME = VALUE" of the section [profile]. */
static void read_section(ls_s3_keys *k, const char *text, const char *profile)
{
    bool inside = false;
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const char *equals = memchr(line, '=', (size_t)(end - line));
        if (*line == '[') {
            const size_t n = strlen(profile);
            inside = !strncmp(line + 1, profile, n) && line[1 + n] == ']';
        } else if (inside && equals) {
            char *name = trimmed(line, equals), *value = trimmed(equals + 1, end);
            char **to = !name                                    ? NULL
                        : !strcmp(name, "aws_access_key_id")     ? &k->key
                        : !strcmp(name, "aws_secret_access_key") ? &k->secret
                        : !strcmp(name, "aws_session_token")     ? &k->session
                                                                 : NULL;
            if (to)
                set_once(to, value);
            else
                free(value);
            free(name);
        }
    }
}

static ls_status s3_keys_read_file(ls_s3_keys *k)
{
    const char *named = variable("AWS_SHARED_CREDENTIALS_FILE"), *profile = variable("AWS_PROFILE"),
               *home = variable("HOME");
    char *path = named ? ls_sys_strdup(named) : ls_path_join(home ? home : ".", ".aws/credentials"),
         *text = NULL;
    size_t n = 0;
    ls_status s = path ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory");
    if (s == LS_OK && (named || ls_file_exists(path)))
        s = ls_file_read(&text, &n, path);
    if (s == LS_OK && text)
        read_section(k, text, profile ? profile : "default");
    free(text);
    free(path);
    return s;
}

static char *s3_keys_copy(const char *first, const char *second, const char *otherwise)
{
    return ls_sys_strdup(first ? first : second ? second : otherwise);
}

ls_status ls_s3_keys_find(ls_s3_keys *out, const char *place)
{
    ls_s3_keys k = { 0 };
    ls_status s = LS_OK;
    if (variable("AWS_ACCESS_KEY_ID") && variable("AWS_SECRET_ACCESS_KEY")) {
        k.key = ls_sys_strdup(variable("AWS_ACCESS_KEY_ID"));
        k.secret = ls_sys_strdup(variable("AWS_SECRET_ACCESS_KEY"));
        k.session = variable("AWS_SESSION_TOKEN") ? ls_sys_strdup(variable("AWS_SESSION_TOKEN")) : NULL;
    } else {
        s = s3_keys_read_file(&k);
    }
    k.region = s3_keys_copy(variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"), "us-east-1");
    const char *endpoint = variable("AWS_ENDPOINT_URL_S3");
    endpoint = endpoint ? endpoint : variable("AWS_ENDPOINT_URL");
    ls_str amazon = { 0 };
    ls_str_printf(&amazon, "https://s3.%s.amazonaws.com", k.region ? k.region : "");
    k.endpoint = ls_sys_strdup(endpoint ? endpoint : ls_str_text(&amazon));
    ls_str_release(&amazon);
    for (size_t n = k.endpoint ? strlen(k.endpoint) : 0; n && k.endpoint[n - 1] == '/'; n--)
        k.endpoint[n - 1] = 0;
    if (s == LS_OK && (!k.key || !k.secret))
        s = ls_fail(
            LS_E_USAGE,
            "%s: no keys for it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of "
            "~/.aws/credentials in AWS_PROFILE",
            place);
    if (s == LS_OK && (!k.region || !k.endpoint))
        s = ls_fail(LS_E_MEMORY, "%s: out of memory", place);
    if (s == LS_OK)
        *out = k;
    else
        ls_s3_keys_release(&k);
    return s;
}

void ls_s3_keys_release(ls_s3_keys *k)
{
    free(k->endpoint);
    free(k->region);
    free(k->key);
    free(k->secret);
    free(k->session);
    *k = (ls_s3_keys){ 0 };
}

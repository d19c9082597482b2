/* s3_answer.c - see s3_answer.h. The XML that these servers write has no attributes that matter, no comments
 * and no CDATA: an element is found by its name. */
#include "net/s3_answer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/sys.h"

/* Appends one entity ("&amp;", "&#47;", "&#x2F;"); returns how many characters it has, 0: it is none. */
static size_t add_entity(ls_str *out, const char *p)
{
    static const char *const NAMES[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&apos;" };
    for (int i = 0; i < 5; i++)
        if (!strncmp(p, NAMES[i], strlen(NAMES[i]))) {
            ls_str_add_n(out, &"&<>\"'"[i], 1);
            return strlen(NAMES[i]);
        }
    if (p[1] != '#')
        return 0;
    char *end;
    const bool hex = p[2] == 'x';
    const long c = strtol(p + 2 + hex, &end, hex ? 16 : 10);
    if (*end != ';' || c < 1 || c > 126)
        return 0;
    ls_str_add_n(out, &(char){ (char)c }, 1);
    return (size_t)(end + 1 - p);
}

char *ls_s3_element(const char *xml, const char *name)
{
    char begin[64], finish[64];
    snprintf(begin, sizeof begin, "<%s>", name);
    snprintf(finish, sizeof finish, "</%s>", name);
    const char *from = strstr(xml, begin), *to = from ? strstr(from, finish) : NULL;
    if (!to)
        return NULL;
    ls_str text = { 0 };
    for (const char *p = from + strlen(begin); p < to;) {
        const size_t entity = *p == '&' ? add_entity(&text, p) : 0;
        if (!entity)
            ls_str_add_n(&text, p, 1);
        p += entity ? entity : 1;
    }
    char *copy = ls_sys_strdup(ls_str_text(&text));
    ls_str_release(&text);
    return copy;
}

static ls_status add_object(ls_s3_list *out, const char *entry, const char *prefix, const char *url)
{
    char *key = ls_s3_element(entry, "Key"), *size = ls_s3_element(entry, "Size"), *end = NULL;
    const long long bytes = size ? strtoll(size, &end, 10) : -1;
    ls_s3_object *grown = NULL;
    ls_status s = LS_OK;
    if (!key || bytes < 0 || *end || strncmp(key, prefix, strlen(prefix)))
        s = ls_fail(LS_E_FORMAT, "%s: an entry of the list has no Key below %s, or no Size", url, prefix);
    else if (!(grown = ls_sys_realloc(out->at, (out->n + 1) * sizeof *grown)))
        s = ls_fail(LS_E_MEMORY, "%s: out of memory", url);
    else {
        out->at = grown;
        memmove(key, key + strlen(prefix), strlen(key + strlen(prefix)) + 1);
        out->at[out->n++] = (ls_s3_object){ key, bytes };
        key = NULL;
    }
    free(key);
    free(size);
    return s;
}

ls_status ls_s3_read_list(ls_s3_list *out, char **token, const char *xml, const char *prefix, const char *url)
{
    if (!strstr(xml, "<ListBucketResult"))
        return ls_fail(LS_E_FORMAT, "%s: the answer is no list of objects; is this an S3 server?", url);
    for (const char *p = xml; (p = strstr(p, "<Contents>")); p++)
        LS_TRY(add_object(out, p, prefix, url));
    char *cut = ls_s3_element(xml, "IsTruncated");
    *token = cut && !strcmp(cut, "true") ? ls_s3_element(xml, "NextContinuationToken") : NULL;
    free(cut);
    return LS_OK;
}

/* What the user can do about it. */
static const char *advice(long answer, const char *code)
{
    if (!strcmp(code, "NoSuchBucket"))
        return "; make the bucket, or correct its name";
    if (!strcmp(code, "RequestTimeTooSkewed"))
        return "; set this machine's clock";
    if (answer == 401 || answer == 403)
        return "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and what the keys may do";
    if (answer == 507 || strstr(code, "Full") || strstr(code, "Quota"))
        return "; make room there";
    if (answer == 301 || answer == 307)
        return "; set AWS_REGION to the bucket's region";
    return "";
}

ls_status ls_s3_refusal(const char *bucket, const char *prefix, const char *key, const char *what,
                        long answer, const char *xml)
{
    char *code = ls_s3_element(xml, "Code"), *message = ls_s3_element(xml, "Message");
    const bool user = answer / 100 == 4 && answer != 429 && answer != 404;
    const ls_status s = ls_fail(user || (code && !strcmp(code, "NoSuchBucket")) ? LS_E_USAGE : LS_E_IO,
                                "cannot %s s3://%s/%s%s: the server says %ld%s%s%s%s%s", what, bucket, prefix,
                                key ? key : "", answer, code ? " " : "", code ? code : "",
                                message ? ", " : "", message ? message : "",
                                advice(answer, code ? code : ""));
    free(code);
    free(message);
    return s;
}

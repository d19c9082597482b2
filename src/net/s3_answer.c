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

/* The text between <NAME> and </NAME>; false: it is not there. It looks at each byte once or twice, so that
 * an answer made to be slow is not. */
static bool s3_answer_find(ls_s3_part *out, ls_s3_part in, const char *name)
{
    char begin[64], end[64];
    const size_t n = (size_t)snprintf(begin, sizeof begin, "<%s>", name);
    snprintf(end, sizeof end, "</%s>", name);
    const char *from = memmem(in.from, (size_t)(in.to - in.from), begin, n);
    const char *to = from ? memmem(from + n, (size_t)(in.to - from) - n, end, n + 1) : NULL;
    if (!to)
        return false;
    *out = (ls_s3_part){ from + n, to };
    return true;
}

bool ls_s3_next(ls_s3_part *out, ls_s3_part *rest, const char *name)
{
    const bool found = s3_answer_find(out, *rest, name);
    rest->from = found ? out->to : rest->to;
    return found;
}

char *ls_s3_element_of(ls_s3_part part, const char *name)
{
    ls_s3_part found;
    if (!s3_answer_find(&found, part, name))
        return NULL;
    ls_str text = { 0 };
    for (const char *p = found.from; p < found.to;) {
        const size_t entity = *p == '&' ? add_entity(&text, p) : 0;
        if (!entity)
            ls_str_add_n(&text, p, 1);
        p += entity ? entity : 1;
    }
    return ls_str_take(&text);
}

char *ls_s3_element(const char *xml, const char *name)
{
    return ls_s3_element_of((ls_s3_part){ xml, xml + strlen(xml) }, name);
}

static ls_status add_object(ls_s3_list *out, ls_s3_part entry, const char *prefix, const char *url)
{
    char *key = ls_s3_element_of(entry, "Key"), *size = ls_s3_element_of(entry, "Size"), *end = NULL;
    const long long bytes = size ? strtoll(size, &end, 10) : -1;
    ls_s3_object *grown = NULL;
    ls_status s = LS_OK;
    if (!key || bytes < 0 || end == size || *end || strncmp(key, prefix, strlen(prefix)))
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
        return ls_fail(LS_E_FORMAT, "%s: the answer is not a list of objects; is this an S3 server?", url);
    ls_s3_part entry, rest = { xml, xml + strlen(xml) };
    while (ls_s3_next(&entry, &rest, "Contents"))
        LS_TRY(add_object(out, entry, prefix, url));
    char *cut = ls_s3_element(xml, "IsTruncated");
    const bool more = cut && !strcmp(cut, "true");
    free(cut);
    *token = more ? ls_s3_element(xml, "NextContinuationToken") : NULL;
    if (more && !*token)
        return ls_fail(LS_E_FORMAT, "%s: the list is cut and has no NextContinuationToken", url);
    return LS_OK;
}

/* What the user can do about a redirection, or about keys that are signed for another region. */
static void add_place(ls_str *out, const ls_http *r, const char *xml)
{
    char *named = ls_s3_element(xml, "Region");
    const char *region = *r->region ? r->region : named;
    if (region)
        ls_str_printf(out, "; the bucket is in the region %s: set AWS_REGION to it", region);
    else
        ls_str_printf(out,
                      "%s%s; the keys are not sent there: set AWS_ENDPOINT_URL_S3 to the server that has "
                      "the bucket, or AWS_REGION to its region",
                      *r->moved ? ", to " : "", r->moved);
    free(named);
}

static void add_advice(ls_str *out, const ls_http *r, const char *code, const char *xml)
{
    if (r->answer / 100 == 3 || !strcmp(code, "AuthorizationHeaderMalformed"))
        add_place(out, r, xml);
    else if (!strcmp(code, "NoSuchBucket"))
        ls_str_add(out, "; make the bucket, or correct its name");
    else if (!strcmp(code, "RequestTimeTooSkewed"))
        ls_str_add(out, "; set this machine's clock");
    else if (!strcmp(code, "ExpiredToken"))
        ls_str_add(out, "; get new keys, and give the same command again");
    else if (r->answer == 401 || r->answer == 403)
        ls_str_add(out,
                   "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and what the keys may do");
    else if (r->answer == 507 || strstr(code, "Full") || strstr(code, "Quota"))
        ls_str_add(out, "; make room there");
}

ls_status ls_s3_refusal(const char *bucket, const char *prefix, const char *key, const char *what,
                        const ls_http *r, const char *xml)
{
    char *code = ls_s3_element(xml, "Code"), *message = ls_s3_element(xml, "Message");
    const bool user = (r->answer / 100 == 4 && r->answer != 429 && r->answer != 404) || r->answer / 100 == 3;
    ls_str advice = { 0 };
    add_advice(&advice, r, code ? code : "", xml);
    const ls_status s = ls_fail(user || (code && !strcmp(code, "NoSuchBucket")) ? LS_E_USAGE : LS_E_IO,
                                "cannot %s s3://%s/%s%s: the server says %ld%s%s%s%s%s", what, bucket, prefix,
                                key ? key : "", r->answer, code ? " " : "", code ? code : "",
                                message ? ", " : "", message ? message : "", ls_str_text(&advice));
    ls_str_release(&advice);
    free(code);
    free(message);
    return s;
}

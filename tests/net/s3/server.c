/* server.c - a program that answers as an S3 server does, with its objects in memory, for tests of the
 * command: objects, lists in pages of five, objects in parts. It prints its port, then a line for each
 * request, "TOKEN PATH" for one that has a session token, and "KEY NAME REGION" for one that is not signed by
 * the key "key" for us-east-1. PUT /control/MODE changes what it does from
 * then on:
 *
 *     well       answers everything
 *     hold       leaves requests that write a part without an answer
 *     hold:NAME  leaves requests to write an object of this name without an answer
 *     full       refuses to write: 507
 *     wrong      refuses the keys: 403
 *     busy       answers every other request with 503
 *     down       answers every request with 503
 *     mute       leaves every request without an answer
 *     mute:NAME  leaves requests to read an object of this name without an answer
 *     portal     answers every request with 200 and a page
 *     void       answers requests to write with 200 and does nothing
 *     same       lists that never end: always with the same continuation token
 *     endless    lists that never end: with another continuation token each
 *     crowded    lists that never end, with 600000 objects a page
 *     cut        a list that is cut and has no continuation token
 *     key:NAME   a list of one object, of this name behind the prefix
 *     uploads    12 MB of half uploads that have neither key nor end
 *     others     12 MB of half uploads of others
 *     many       100,000 half uploads below the prefix that is asked for
 *     refused    lists of half uploads are 200 with an error in the body
 *     halfway    ends an upload in parts with 200 and an error in the body
 *     to:PORT    redirects every request to that port of this machine: 307; put-to:PORT requests to write,
 *                get-to:PORT requests to read an object
 *     region     redirects every request to another region, as Amazon's do: 301
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 1000, PAGE = 5, PARTS = 64 };

typedef struct blob {
    char *data;
    size_t n;
} blob;

typedef struct object {
    char key[1024]; /* BUCKET/KEY */
    blob whole;
    bool uploading; /* not there yet: its parts are */
    blob part[PARTS];
} object;

static object all[MOST];
static int n_all;
static char mode[32] = "well";
static const char BUCKET[] = "bucket";

typedef struct request {
    int fd;
    char method[8], path[2048], query[2048];
    size_t from, until; /* of a GET; until 0: the end */
    bool token;
    char key[64], region[64]; /* of the signature */
    blob body;
} request;

static void answer(const request *r, const char *status, const char *header, const char *body, size_t n)
{
    char head[8192];
    const int h = snprintf(head, sizeof head,
                           "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status, n,
                           header);
    if (send(r->fd, head, (size_t)h, MSG_NOSIGNAL) < 0)
        return;
    for (size_t done = 0; done < n;) {
        const ssize_t w = send(r->fd, body + done, n - done, MSG_NOSIGNAL);
        if (w <= 0)
            return;
        done += (size_t)w;
    }
}

static void refuse(const request *r, const char *status, const char *code)
{
    char body[256];
    const int n = snprintf(body, sizeof body,
                           "<Error><Code>%s</Code><Message>the test says so &amp; means it</Message></Error>",
                           code);
    answer(r, status, "", body, (size_t)n);
}

static int find(const char *key, bool uploading)
{
    for (int i = 0; i < n_all; i++)
        if (!strcmp(all[i].key, key) && all[i].uploading == uploading)
            return i;
    return -1;
}

static object *make(const char *key, bool uploading)
{
    const int i = find(key, uploading);
    object *o = &all[i >= 0 ? i : n_all++];
    snprintf(o->key, sizeof o->key, "%s", key);
    o->uploading = uploading;
    return o;
}

static void drop(int i) { all[i] = all[--n_all]; }

static int by_key(const void *a, const void *b)
{
    return strcmp(((const object *)a)->key, ((const object *)b)->key);
}

/* Copies up to `end` or the end of `text`, with %XX as the byte that it means. */
static void decode(char *to, const char *text, char end)
{
    for (; *text && *text != end; text++) {
        unsigned c = (unsigned char)*text;
        if (c == '%' && sscanf(text + 1, "%2x", &c) == 1)
            text += 2;
        *to++ = (char)c;
    }
    *to = 0;
}

/* The value of a word of the query; "" without it. */
static const char *value(const request *r, const char *name)
{
    static char text[2048];
    const size_t n = strlen(name);
    text[0] = 0;
    for (const char *p = r->query; p && *p; p = strchr(p, '&') ? strchr(p, '&') + 1 : NULL)
        if (!strncmp(p, name, n) && p[n] == '=')
            decode(text, p + n + 1, '&');
    return text;
}

static void list(const request *r, bool uploads)
{
    static char body[1 << 20];
    char prefix[2048], after[2048];
    int n = snprintf(body, sizeof body,
                     uploads ? "<ListMultipartUploadsResult>" : "<ListBucketResult xmlns=\"x\">"),
        shown = 0;
    snprintf(prefix, sizeof prefix, "%s/%s", BUCKET, value(r, "prefix"));
    snprintf(after, sizeof after, "%s", value(r, "continuation-token"));
    qsort(all, (size_t)n_all, sizeof *all, by_key);
    for (int i = 0; i < n_all; i++) {
        const char *key = all[i].key + sizeof BUCKET;
        if (all[i].uploading != uploads || strncmp(all[i].key, prefix, strlen(prefix)) ||
            strcmp(key, after) <= 0)
            continue;
        if (!uploads && shown == PAGE) {
            n += snprintf(body + n, sizeof body - (size_t)n,
                          "<NextContinuationToken>%s</NextContinuationToken>", after);
            break;
        }
        snprintf(after, sizeof after, "%s", key);
        n += uploads ? snprintf(body + n, sizeof body - (size_t)n,
                                "<Upload><Key>%s</Key><UploadId>id</UploadId></Upload>", key)
                     : snprintf(body + n, sizeof body - (size_t)n,
                                "<Contents><Key>%s</Key><Size>%zu</Size></Contents>", key, all[i].whole.n);
        shown++;
    }
    const bool cut = strstr(body, "<NextContinuationToken>") != NULL;
    n += snprintf(body + n, sizeof body - (size_t)n, "<IsTruncated>%s</IsTruncated>%s",
                  cut ? "true" : "false", uploads ? "</ListMultipartUploadsResult>" : "</ListBucketResult>");
    answer(r, "200 OK", "", body, (size_t)n);
}

/* A list of objects or of half uploads that nobody has; of objects, it goes on. */
static void list_made(const request *r, const char *entry, const char *key, int times)
{
    char *body = malloc(200 + (size_t)times * (strlen(entry) + strlen(key) + 16)), *end = body;
    static int page;
    const bool uploads = !strncmp(entry, "<Upload", 7);
    end += sprintf(end, uploads ? "<ListMultipartUploadsResult>" : "<ListBucketResult>");
    for (int i = 0; i < times; i++)
        end += sprintf(end, entry, key, i);
    if (uploads)
        end += sprintf(end, "</ListMultipartUploadsResult>");
    else
        end += sprintf(end,
                       "<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"
                       "</ListBucketResult>",
                       ++page);
    answer(r, "200 OK", "", body, (size_t)(end - body));
    free(body);
}

static void list_uploads(const request *r)
{
    static const char ENTRY[] = "<Upload><Key>%s%d</Key><UploadId>id</UploadId></Upload>";
    if (!strcmp(mode, "uploads"))
        list_made(r, "<Upload>", "", 1500000);
    else if (!strcmp(mode, "others"))
        list_made(r, ENTRY, "", 200000);
    else if (!strcmp(mode, "many"))
        list_made(r, ENTRY, value(r, "prefix"), 100000);
    else if (!strcmp(mode, "refused"))
        refuse(r, "200 OK", "InternalError");
    else
        list(r, true);
}

static void list_objects(const request *r)
{
    static int page;
    if (!strncmp(mode, "key:", 4)) {
        char one[4096];
        const int n = snprintf(
            one, sizeof one,
            "<ListBucketResult><Contents><Key>%s%s</Key><Size>1</Size></Contents></ListBucketResult>",
            value(r, "prefix"), mode + 4);
        answer(r, "200 OK", "", one, (size_t)n);
        return;
    }
    if (!strcmp(mode, "crowded")) {
        list_made(r, "<Contents><Key>%s%d</Key><Size>1</Size></Contents>", value(r, "prefix"), 600000);
        return;
    }
    char body[256];
    const bool same = !strcmp(mode, "same"), cut = !strcmp(mode, "cut");
    if (!same && !cut && strcmp(mode, "endless")) {
        list(r, false);
        return;
    }
    int n = snprintf(body, sizeof body, "<ListBucketResult><IsTruncated>true</IsTruncated>");
    if (!cut)
        n += snprintf(body + n, sizeof body - (size_t)n, "<NextContinuationToken>%d</NextContinuationToken>",
                      same ? 1 : ++page);
    n += snprintf(body + n, sizeof body - (size_t)n, "</ListBucketResult>");
    answer(r, "200 OK", "", body, (size_t)n);
}

static void redirect(const request *r, const char *port)
{
    char header[4200];
    snprintf(header, sizeof header, "Location: http://127.0.0.1:%s%s%s%s\r\n", port, r->path,
             *r->query ? "?" : "", r->query);
    answer(r, "307 Temporary Redirect", header, "", 0);
}

static void finish_upload(const request *r, const char *key)
{
    const int i = find(key, true);
    if (i < 0 || !strcmp(mode, "halfway")) {
        refuse(r, i < 0 ? "404 Not Found" : "200 OK", i < 0 ? "NoSuchUpload" : "InternalError");
        return;
    }
    blob whole = { 0 };
    for (int p = 0; p < PARTS && all[i].part[p].data; p++) {
        whole.data = realloc(whole.data, whole.n + all[i].part[p].n);
        memcpy(whole.data + whole.n, all[i].part[p].data, all[i].part[p].n);
        whole.n += all[i].part[p].n;
    }
    drop(i);
    make(key, false)->whole = whole;
    answer(r, "200 OK", "", "<CompleteMultipartUploadResult/>", 32);
}

static void put(const request *r, const char *key)
{
    const int part = atoi(value(r, "partNumber"));
    if (part > 0 && part < PARTS && find(key, true) >= 0)
        all[find(key, true)].part[part - 1] = r->body;
    else if (!part)
        make(key, false)->whole = r->body;
    answer(r, "200 OK", "ETag: \"e\"\r\n", "", 0);
}

static void get(const request *r, const char *key)
{
    const int i = find(key, false);
    if (i < 0)
        refuse(r, "404 Not Found", "NoSuchKey");
    else {
        char range[128] = "";
        const size_t end = r->until && r->until < all[i].whole.n ? r->until : all[i].whole.n;
        const bool part = r->from || r->until;
        if (part) {
            snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", r->from, end - 1,
                     all[i].whole.n);
            printf("PART %s\n", key);
        }
        answer(r, part ? "206 Partial Content" : "200 OK", range, all[i].whole.data + r->from, end - r->from);
    }
}

/* false: the connection stays open, without an answer. */
static bool serve(request *r)
{
    static int count;
    const char *key = r->path + 1;
    const bool bucket = !strcmp(key, BUCKET),
               writes = strcmp(r->method, "GET") && strcmp(r->method, "DELETE"),
               reads = !strcmp(r->method, "GET") && !bucket;
    if (!strncmp(key, "control/", 8)) {
        snprintf(mode, sizeof mode, "%s", key + 8);
        answer(r, "200 OK", "", "", 0);
    } else if (!strcmp(mode, "wrong"))
        refuse(r, "403 Forbidden", "SignatureDoesNotMatch");
    else if (!strcmp(mode, "full") && writes)
        refuse(r, "507 Insufficient Storage", "XMinioStorageFull");
    else if (!strcmp(mode, "down") || (!strcmp(mode, "busy") && ++count % 2))
        refuse(r, "503 Slow Down", "SlowDown");
    else if (!strcmp(mode, "mute"))
        return false;
    else if (!strcmp(mode, "portal"))
        answer(r, "200 OK", "", "<html>welcome to the hotel</html>", 33);
    else if (!strcmp(mode, "void") && writes)
        answer(r, "200 OK", "", "", 0);
    else if (!strncmp(mode, "to:", 3) || (!strncmp(mode, "put-to:", 7) && writes) ||
             (!strncmp(mode, "get-to:", 7) && reads))
        redirect(r, strchr(mode, ':') + 1);
    else if (!strncmp(mode, "mute:", 5) && reads && strstr(key, mode + 5))
        return false;
    else if (!strcmp(mode, "region"))
        answer(r, "301 Moved Permanently", "x-amz-bucket-region: eu-west-1\r\n",
               "<Error><Code>PermanentRedirect</Code></Error>", 45);
    else if (!strcmp(mode, "hold") && strstr(r->query, "partNumber"))
        return false;
    else if (!strncmp(mode, "hold:", 5) && writes && strstr(key, mode + 5))
        return false;
    else if (strncmp(key, BUCKET, sizeof BUCKET - 1))
        refuse(r, "404 Not Found", "NoSuchBucket");
    else if (bucket && strstr(r->query, "uploads="))
        list_uploads(r);
    else if (bucket)
        list_objects(r);
    else if (!strcmp(r->method, "POST") && strstr(r->query, "uploads=")) {
        make(key, true);
        answer(r, "200 OK", "", "<X><UploadId>id</UploadId></X>", 30);
    } else if (!strcmp(r->method, "POST"))
        finish_upload(r, key);
    else if (!strcmp(r->method, "PUT"))
        put(r, key);
    else if (!strcmp(r->method, "GET"))
        get(r, key);
    else {
        const int i = find(key, strstr(r->query, "uploadId") != NULL);
        if (i >= 0)
            drop(i);
        answer(r, "204 No Content", "", "", 0);
    }
    return true;
}

static bool read_request(request *r)
{
    char head[16384];
    size_t n = 0, length = 0;
    char *end = NULL;
    for (ssize_t got;
         !end && n + 1 < sizeof head && (got = recv(r->fd, head + n, sizeof head - 1 - n, 0)) > 0;) {
        head[n += (size_t)got] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    char target[4096];
    if (!end || sscanf(head, "%7s %4095s", r->method, target) != 2)
        return false;
    char *query = strchr(target, '?');
    snprintf(r->query, sizeof r->query, "%.2047s", query ? query + 1 : "");
    if (query)
        *query = 0;
    target[sizeof r->path - 1] = 0;
    decode(r->path, target, 0);
    const char *range = strcasestr(head, "Range: bytes="), *size = strcasestr(head, "Content-Length: ");
    char *dash = NULL;
    r->from = range ? strtoull(range + 13, &dash, 10) : 0;
    r->until = dash && *dash == '-' ? strtoull(dash + 1, NULL, 10) + 1 : 0;
    r->until = r->until > 1 ? r->until : 0;
    const char *key = strstr(head, "Credential=");
    if (key)
        sscanf(key + 11, "%63[^/]/%*[^/]/%63[^/]", r->key, r->region);
    r->token = strcasestr(head, "\r\nx-amz-security-token:") != NULL;
    length = size ? strtoull(size + 16, NULL, 10) : 0;
    if (strcasestr(head, "Expect: 100-continue"))
        (void)!send(r->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    r->body = (blob){ malloc(length + 1), 0 };
    const size_t there = n - (size_t)(end + 4 - head);
    memcpy(r->body.data, end + 4, there < length ? there : length);
    r->body.n = there < length ? there : length;
    for (ssize_t got;
         r->body.n < length && (got = recv(r->fd, r->body.data + r->body.n, length - r->body.n, 0)) > 0;)
        r->body.n += (size_t)got;
    return r->body.n == length;
}

int main(int n, char **words)
{
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    if (n > 1)
        inet_pton(AF_INET, words[1], &a.sin_addr);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&a, &size))
        return 1;
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    for (;;) {
        request r = { .fd = accept(listener, NULL, NULL) };
        if (r.fd < 0)
            return 1;
        bool close_it = true;
        if (read_request(&r)) {
            printf("%s %s?%s\n", r.method, r.path, r.query);
            if (strcmp(r.key, "key") || strcmp(r.region, "us-east-1"))
                printf("KEY %s %s\n", r.key, r.region);
            if (r.token)
                printf("TOKEN %s\n", r.path);
            fflush(stdout);
            close_it = serve(&r);
        }
        if (close_it)
            close(r.fd);
    }
}

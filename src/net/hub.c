/* hub.c - see hub.h. */
#include "net/hub.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/str.h"
#include "base/sys.h"
#include "net/download.h"
#include "net/http.h"
#include "net/url.h"

enum { LIST_MOST = 64 << 20 }; /* bytes of a list of files: some 200,000 of them, less than 2^20 */
/* Bytes of a file; so the sizes of a list's files can be added. (The hub's largest have 2^39.) */
static const int64_t FILE_MOST = INT64_C(1) << 42;

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *find_token(void)
{
    const char *given = variable("HF_TOKEN");
    char *home = ls_hub_home(), *path = home ? ls_path_join(home, "token") : NULL, *token = NULL;
    size_t n = 0;
    if (given)
        token = ls_sys_strdup(given);
    else if (path && ls_file_exists(path) && ls_file_read(&token, &n, path) != LS_OK)
        token = NULL;
    if (token)
        token[strcspn(token, " \r\n")] = 0;
    free(path);
    free(home);
    return token;
}

/* Everybody on the way can read what plain http carries. */
static void withhold_token(ls_hub_repo *r)
{
    char shown[LS_URL_SHOWN];
    r->withheld = r->token && !ls_url_is_https(r->endpoint);
    if (r->withheld && strncmp(r->endpoint, "file://", 7))
        ls_log_warn("the token is not sent to %s, because it goes only over https",
                    ls_url_shown(shown, r->endpoint));
}

static const char *bearer(const ls_hub_repo *r) { return r->withheld ? NULL : r->token; }

/* Whether a path from the server stays inside the folder that it is put in. */
static bool safe(const char *path)
{
    if (!*path || *path == '/')
        return false;
    for (const char *word = path; word; word = strchr(word, '/') ? strchr(word, '/') + 1 : NULL) {
        const size_t n = strcspn(word, "/");
        if (n == 0 || (n <= 2 && !strncmp(word, "..", n)))
            return false;
    }
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            return false;
    return true;
}

static bool is_hex(const char *text, size_t digits)
{
    return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static ls_status hub_read_file(ls_hub_file *f, const json_t *entry, const char *url)
{
    const json_t *large = json_object_get(entry, "lfs"), *has_size = json_is_object(large) ? large : entry;
    const char *path = json_string_value(json_object_get(entry, "rfilename")),
               *sha256 = json_string_value(json_object_get(large, "sha256")),
               *git = json_string_value(json_object_get(entry, "blobId"));
    const json_t *bytes = json_object_get(has_size, "size");
    if (!path || !json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return ls_fail(LS_E_FORMAT, "%s: an entry of the list has no rfilename or no size", url);
    if (json_integer_value(bytes) > FILE_MOST)
        return ls_fail(LS_E_FORMAT, "%s: %s has %lld bytes by the list, more than any file has", url, path,
                       (long long)json_integer_value(bytes));
    if (!safe(path))
        return ls_fail(LS_E_FORMAT, "%s: names the file \"%s\", which would lie outside its folder", url,
                       path);
    if (json_is_object(large) ? !is_hex(sha256, 64) : !is_hex(git, 40))
        return ls_fail(LS_E_FORMAT, "%s: %s has no checksum", url, path);
    f->path = ls_sys_strdup(path);
    f->bytes = json_integer_value(bytes);
    f->sha256 = json_is_object(large) ? ls_sys_strdup(sha256) : NULL;
    f->git_sha1 = json_is_object(large) ? NULL : ls_sys_strdup(git);
    return f->path && (f->sha256 || f->git_sha1) ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory", url);
}

static ls_status read_files(ls_hub_repo *r, const json_t *answer, const char *url)
{
    const char *commit = json_string_value(json_object_get(answer, "sha"));
    const json_t *files = json_object_get(answer, "siblings");
    if (!is_hex(commit, 40) || !json_is_array(files))
        return ls_fail(LS_E_FORMAT, "%s: the answer is not a list of a repository's files", url);
    r->commit = ls_sys_strdup(commit);
    r->files = ls_sys_calloc(json_array_size(files) + 1, sizeof *r->files);
    if (!r->commit || !r->files)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", url);
    for (size_t i = 0; i < json_array_size(files); i++)
        LS_TRY(hub_read_file(&r->files[r->n++], json_array_get(files, i), url));
    return LS_OK;
}

ls_status ls_hub_read_list(ls_hub_repo *r, const char *text, size_t n, const char *url)
{
    json_t *answer;
    LS_TRY(ls_json_parse(&answer, text, n, url));
    const ls_status s = read_files(r, answer, url);
    json_decref(answer);
    return s;
}

/* What a failed request for the list means. */
static ls_status explain(ls_status s, const ls_hub_repo *r, long answer)
{
    char server[LS_URL_SHOWN], reason[1024];
    ls_url_shown(server, r->endpoint);
    if ((answer == 401 || answer == 403) && r->withheld)
        return ls_fail(
            LS_E_USAGE,
            "%s: %s has no such repository, or wants a token, which is sent only over https; check "
            "the name, and give the server's https address",
            r->name, server);
    if (answer == 401 || answer == 403)
        return ls_fail(LS_E_USAGE, "%s: %s %s; check the name, and %s", r->name, server,
                       r->token ? "refuses the token" : "has no such repository, or wants a token",
                       r->token ? "accept the repository's conditions in a browser"
                                : "set HF_TOKEN to a token of yours if the repository is private or gated");
    if (answer == 404)
        return ls_fail(LS_E_USAGE, "%s: %s has no such repository, or no revision %s of it", r->name, server,
                       r->revision);
    if (s != LS_E_IO || answer)
        return s;
    snprintf(reason, sizeof reason, "%s", ls_error_message());
    return ls_fail(
        LS_E_IO,
        "%s; without a network, load %s on a machine that has one (`lockstep get %s --to FOLDER`) and "
        "copy the folder",
        reason, r->name, r->name);
}

ls_status ls_hub_ask(ls_hub_repo *r)
{
    const bool data = !strncmp(r->name, "datasets/", 9);
    char shown[LS_URL_SHOWN], *text = NULL;
    ls_str url = { 0 };
    size_t n = 0;
    ls_str_printf(&url, "%s/api/%s%s/revision/", r->endpoint, data ? "" : "models/", r->name);
    ls_url_escape(&url, r->revision, "/");
    ls_str_add(&url, "?blobs=true");
    ls_http request = { .url = ls_str_text(&url), .bearer = bearer(r) };
    ls_status s = ls_str_status(&url);
    if (s == LS_OK) {
        s = ls_http_text(&text, &n, &request, LIST_MOST);
        s = s == LS_OK ? s : explain(s, r, request.answer);
    }
    if (s == LS_OK)
        s = ls_hub_read_list(r, text, n, ls_url_shown(shown, ls_str_text(&url)));
    free(text);
    ls_str_release(&url);
    return s;
}

ls_status ls_hub_list(ls_hub_repo *out, const char *name, const char *revision, const char *mirror)
{
    const char *offline = variable("HF_HUB_OFFLINE"), *from = mirror ? mirror : variable("HF_ENDPOINT");
    *out = (ls_hub_repo){ 0 };
    if (!ls_hub_name_ok(name))
        return ls_fail(LS_E_USAGE, "%s: no name of a repository: OWNER/NAME, or datasets/OWNER/NAME", name);
    if (offline && strcmp(offline, "0"))
        return ls_fail(LS_E_IO, "%s: HF_HUB_OFFLINE=%s forbids the network; unset it to load", name, offline);
    ls_hub_repo r = { .name = ls_sys_strdup(name),
                      .revision = ls_sys_strdup(revision),
                      .endpoint = ls_sys_strdup(from ? from : "https://huggingface.co"),
                      .token = find_token() };
    ls_status s = r.name && r.revision && r.endpoint ? LS_OK
                                                     : ls_fail(LS_E_MEMORY, "%s: out of memory", name);
    if (s == LS_OK) {
        for (size_t end = strlen(r.endpoint); end && r.endpoint[end - 1] == '/'; end--)
            r.endpoint[end - 1] = 0;
        withhold_token(&r);
        s = ls_hub_ask(&r);
    }
    if (s == LS_OK)
        *out = r;
    else
        ls_hub_release(&r);
    return s;
}

void ls_hub_release(ls_hub_repo *r)
{
    for (int i = 0; i < r->n; i++) {
        free(r->files[i].path);
        free(r->files[i].sha256);
        free(r->files[i].git_sha1);
    }
    free(r->files);
    free(r->name);
    free(r->revision);
    free(r->commit);
    free(r->endpoint);
    free(r->token);
    *r = (ls_hub_repo){ 0 };
}

/* Whether file f is at `path`, with its size and checksum. In a folder of the user's another file of that
 * name is an error. In the cache, where a file's name is its checksum, it is damaged and goes away. */
static ls_status hub_look(const ls_hub_repo *r, const ls_hub_load *l, const ls_download *d, bool *there)
{
    ls_download as_it_is = *d;
    const int64_t bytes = ls_file_size(d->path);
    *there = bytes >= 0;
    if (!*there)
        return LS_OK;
    as_it_is.bytes = l->to ? d->bytes : bytes;
    ls_status s = ls_download_verify(&as_it_is, d->path);
    if (s == LS_E_FORMAT && l->to)
        return ls_fail(
            s, "%s: a file of another content than that of %s is there; remove it, or name another folder",
            d->path, r->name);
    if (s == LS_E_FORMAT) {
        ls_log_warn("%s; the file is damaged, and is loaded again", ls_error_message());
        *there = false;
        return ls_sys_remove(d->path) == 0 ? LS_OK : ls_fail_os(d->path, "remove", errno);
    }
    if (s == LS_OK && bytes != d->bytes)
        s = ls_fail(LS_E_FORMAT,
                    "%s: the server's list says %lld bytes, and the file with its checksum, %s, "
                    "has %lld",
                    d->name, (long long)d->bytes, d->path, (long long)bytes);
    return s;
}

/* Loads file f to `path`, unless it is there. */
static ls_status hub_load(const ls_hub_repo *r, ls_hub_load *l, const ls_hub_file *f, const char *path)
{
    char shown[LS_URL_SHOWN];
    ls_str url = { 0 };
    ls_str_printf(&url, "%s/%s/resolve/%s/", r->endpoint, r->name, r->commit);
    ls_url_escape(&url, f->path, "/");
    const char *const urls[] = { ls_str_text(&url), NULL };
    ls_download d = { .path = path,
                      .name = f->path,
                      .urls = urls,
                      .bytes = f->bytes,
                      .sha256 = f->sha256,
                      .git_sha1 = f->git_sha1,
                      .bearer = bearer(r),
                      .progress = l->progress,
                      .context = l->context };
    bool there = false;
    ls_status s = ls_str_status(&url);
    if (s == LS_OK)
        s = hub_look(r, l, &d, &there);
    if (s == LS_OK && !there) {
        s = ls_make_parent(path);
        if (s == LS_OK)
            s = ls_download_file(&d);
        if (s != LS_OK && (d.answer == 401 || d.answer == 403))
            s = ls_fail(LS_E_USAGE, "%s: the server wants a token for it (answer %ld); %s",
                        ls_url_shown(shown, urls[0]), d.answer,
                        r->withheld ? "yours is sent only over https: give the server's https address"
                                    : "set HF_TOKEN");
        l->loaded += s == LS_OK ? f->bytes : 0;
        l->loaded_files += s == LS_OK;
    }
    ls_str_release(&url);
    return s;
}

/* snapshots/COMMIT/PATH -> ../../blobs/HASH, one more ../ for each folder of PATH. */
static ls_status link_blob(const char *snapshot, const ls_hub_file *f)
{
    ls_str target = { 0 };
    char *path = ls_path_join(snapshot, f->path);
    ls_status s = path ? ls_make_parent(path) : ls_fail(LS_E_MEMORY, "%s: out of memory", f->path);
    ls_str_add(&target, "../../");
    for (const char *p = f->path; (p = strchr(p, '/')); p++)
        ls_str_add(&target, "../");
    ls_str_printf(&target, "blobs/%s", f->sha256 ? f->sha256 : f->git_sha1);
    if (s == LS_OK)
        s = ls_str_status(&target);
    if (s == LS_OK && !ls_file_exists(path) && ls_sys_symlink(ls_str_text(&target), path) != 0 &&
        errno != EEXIST)
        s = ls_fail_os(path, "make a link", errno);
    ls_str_release(&target);
    free(path);
    return s;
}

/* refs/REVISION holds the commit, so that the name is found again without the network. */
static ls_status write_ref(const ls_hub_repo *r, const char *folder)
{
    char *refs = ls_path_join(folder, "refs"), *path = refs ? ls_path_join(refs, r->revision) : NULL;
    ls_status s = LS_OK;
    if (!path)
        s = ls_fail(LS_E_MEMORY, "%s: out of memory", folder);
    else if (strcmp(r->revision, r->commit) && safe(r->revision)) {
        s = ls_make_parent(path);
        if (s == LS_OK)
            s = ls_file_write(path, r->commit, strlen(r->commit));
    }
    free(path);
    free(refs);
    return s;
}

static ls_status get_into_cache(const ls_hub_repo *r, ls_hub_load *l)
{
    char *folder = ls_hub_folder(r->name), *blobs = folder ? ls_path_join(folder, "blobs") : NULL,
         *snapshots = blobs ? ls_path_join(folder, "snapshots") : NULL,
         *snapshot = snapshots ? ls_path_join(snapshots, r->commit) : NULL;
    ls_status s = snapshot ? ls_make_dirs(snapshot) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->name);
    for (int i = 0; s == LS_OK && i < r->n; i++) {
        const ls_hub_file *f = &r->files[i];
        if (!f->wanted)
            continue;
        char *blob = ls_path_join(blobs, f->sha256 ? f->sha256 : f->git_sha1);
        s = blob ? hub_load(r, l, f, blob) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->name);
        if (s == LS_OK)
            s = link_blob(snapshot, f);
        free(blob);
    }
    if (s == LS_OK)
        s = write_ref(r, folder);
    free(snapshots);
    free(blobs);
    free(folder);
    if (s == LS_OK)
        l->folder = snapshot;
    else
        free(snapshot);
    return s;
}

ls_status ls_hub_get(const ls_hub_repo *r, ls_hub_load *l)
{
    l->loaded = l->loaded_files = 0;
    l->folder = NULL;
    if (!l->to)
        return get_into_cache(r, l);
    for (int i = 0; i < r->n; i++)
        if (r->files[i].wanted) {
            char *path = ls_path_join(l->to, r->files[i].path);
            const ls_status s = path ? hub_load(r, l, &r->files[i], path)
                                     : ls_fail(LS_E_MEMORY, "out of memory");
            free(path);
            LS_TRY(s);
        }
    l->folder = ls_sys_strdup(l->to);
    return l->folder ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory");
}

/* test_shared.c - which hosts share a folder: all, none, or some. Hosts are threads here, and the folder of a
 * host is what it is given. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "comm/hosts.h"
#include "record/shared.h"
#include "support/support.h"

typedef struct scene {
    const char *folder[4]; /* of rank 0, 1, ... */
    char path[4][600];
    bool apart[4]; /* what they found */
} scene;

static ls_status look(ls_group *g, int started_as, void *context)
{
    (void)started_as;
    scene *s = context;
    const int rank = ls_group_rank(g);
    return ls_shared_apart(&s->apart[rank], s->path[rank], g);
}

static int entries_of(const char *folder)
{
    int n = 0;
    DIR *d = opendir(ls_test_path(folder));
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void run_hosts(runner *all, scene *s, int ranks, int hosts)
{
    mailbox box;
    for (int r = 0; r < ranks; r++)
        snprintf(s->path[r], sizeof s->path[r], "%s", ls_test_path(s->folder[r]));
    mailbox_init(&box, ranks, hosts);
    run_all(all, &box, look, s);
    mailbox_release(&box);
}

static void all_or_none(void **state)
{
    (void)state;
    runner all[MAILBOX_RANKS];
    scene same = { .folder = { "same", "same", "same", "same" } }, own = { .folder = { "a", "a", "b", "b" } },
          one = { .folder = { "a", "a" } };
    run_hosts(all, &same, 4, 2);
    assert_all_ok(all, 4);
    run_hosts(all, &own, 4, 2);
    assert_all_ok(all, 4);
    for (int r = 0; r < 4; r++)
        assert_true(!same.apart[r] && own.apart[r]);
    run_hosts(all, &one, 2, 1);
    assert_all_ok(all, 2);
    assert_false(one.apart[0] || one.apart[1]);
    assert_int_equal(entries_of("same") + entries_of("a") + entries_of("b"), 0); /* no mark stays */
}

static void some_are_refused(void **state)
{
    (void)state;
    runner all[MAILBOX_RANKS];
    scene some = { .folder = { "c", "c", "d" } };
    run_hosts(all, &some, 3, 3);
    int told = 0;
    for (int r = 0; r < 3; r++) {
        assert_int_not_equal(all[r].status, LS_OK);
        told += all[r].status == LS_E_USAGE && strstr(all[r].message, "some of the 3 hosts share ") != NULL;
    }
    assert_int_equal(told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_or_none), cmocka_unit_test(some_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

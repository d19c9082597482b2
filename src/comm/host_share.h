/* host_share.h - the number of this process among the processes of its group on its host, for devices that
 * only one of them can use (a GPU). All are local. */
#pragma once
#include "group.h"

typedef struct ls_host_share {
    int rank, size; /* this process's number on its host, and how many there are; 0 and 1 without a group */
    bool threads;   /* the group's ranks are threads of this process */
} ls_host_share;
ls_host_share ls_host_share_get(void);
/* Records that this process uses the thing with this number from now on. Returns the rank of another process
 * that uses it already; -1: none. */
int ls_host_share_claim(uint64_t thing);

/* called when a group begins and ends */
void ls_host_share_begin(ls_group *g);
void ls_host_share_end(ls_group *g);

/* hosts.h - from processes that a transport connects to a group: which of them share a host, their numbers,
 * and what they share. */
#pragma once
#include "lockstep/group.h"
#include "transport.h"

/* communicator: as ls_transport_ops.open takes it. `expected`: how many ranks the launcher speaks of, 0: it
 * does not say. A host's ranks get neighbouring numbers; the launcher's order is kept where it has that.
 * LOCKSTEP_FAKE_NODES=k makes k hosts of each. Ranks that all share a host need no transport: it is closed
 * again. Collective over the communicator. */
ls_status ls_hosts_join(ls_group **out, const ls_transport_ops *ops, const void *communicator, int expected);

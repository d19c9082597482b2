/* machines.h - makes a group of processes that a transport connects: finds which of them share a machine, and
 * numbers them. */
#pragma once
#include "lockstep/group.h"
#include "transport.h"

/* communicator: as ls_transport_ops.open takes it. `expected`: the number of ranks according to the launcher,
 * 0 when it does not say. The ranks of a machine get consecutive numbers, in the launcher's order if that
 * allows it. LOCKSTEP_FAKE_NODES=k treats each machine as k machines. When all ranks share one machine the
 * transport is closed again. LS_E_USAGE when the machines have different numbers of ranks, LS_E_UNSUPPORTED
 * when the transport does not fit the launcher, LS_E_PEER, LS_E_MEMORY. Collective over the communicator. */
ls_status ls_machines_join(ls_group **out, const ls_transport_ops *ops, const void *communicator,
                           int expected);

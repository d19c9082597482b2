/* stages.h - pipeline parallel: the stage of every node, and the program of one stage. The axis of role
 * pipeline has a rank for each stage or, with the schedule interleaved, for several. */
#pragma once
#include "graph/graph.h"
#include "lockstep/parallel.h"

/* Decides the stage of each node (ls_node.stage; gradients take over their node's). The model is cut between
 * the modules that `units` names: parallel.stages says how many of them each stage has, or the FLOPs balance
 * them. Other nodes belong to the last stage that they read from, or, where they read from none, to the first
 * that reads them; an output that no module makes belongs to the last. In place; after ls_pass_propagate.
 * LS_E_USAGE: fewer modules than stages, or stages that do not divide them where each rank has several. */
ls_status ls_pass_stages(ls_graph *g, const ls_parallel *p);

/* Makes the program of this rank's stages, which runs n micro-batches, of a program that runs one on a single
 * rank. Values that another stage reads are sent there. The schedule decides the order in which forward and
 * backward passes of the micro-batches stand in the graph. An input of the model has the samples of all
 * micro-batches; other inputs, and the losses, are there once for each (ls_identity.moment is its number).
 * Gradients are summed over the micro-batches, in a balanced tree or, with `running`, one after the other.
 * With one stage nothing changes. After differentiation. */
ls_status ls_pass_pipeline(ls_graph **g, const ls_parallel *p, int64_t n, bool running);

/* The ranks of a pipeline, and the position of this one: it has stages position, position + ranks, ... */
int ls_parallel_stages(const ls_parallel *p);
int ls_parallel_stage(const ls_parallel *p);
int ls_parallel_chunks(
    const ls_parallel *p); /* stages of each rank: 1, or with the schedule interleaved more */

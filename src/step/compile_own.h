/* compile_own.h - functions that compile.c and compile_forward.c share. */
#pragma once
#include "compile.h"

/* The last passes of every program: clean and fuse (finish.c). */
ls_status ls_program_finish(ls_graph **g, const ls_device *d);
ls_status ls_evaluation_finish(ls_graph **g, const ls_device *d); /* the same of the program `eval` */
/* Makes one op of a head and its loss, where the device has a kernel for it. */
ls_status ls_program_join_loss(ls_graph **g, const ls_device *d);
/* About so many logits are in memory at a time (passes/join_loss.h). Tests make it smaller. */
extern int64_t ls_logits_at_a_time;
ls_value ls_output_named(const ls_graph *g, const char *name); /* LS_NONE: there is no such output */
/* The argmax of the logits. If a metric reads one, it is that node, because an argmax over split columns
 * communicates. */
ls_value ls_predicted(ls_graph *g, ls_value logits);
/* Keeps a copy of the precision in *c. */
ls_status ls_compiled_keep(ls_compiled *c, const ls_precision *p);

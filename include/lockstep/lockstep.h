/* lockstep.h - everything: errors and types, graphs and layers, models, optimizers, the trainer, data,
 * weights, checkpoints, recipes, runs. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "checkpoint.h"
#include "data.h"
#include "generate.h"
#include "graph.h"
#include "group.h"
#include "live.h"
#include "mesh.h"
#include "models.h"
#include "module.h"
#include "nn.h"
#include "optim.h"
#include "parallel.h"
#include "predictor.h"
#include "recipe.h"
#include "run.h"
#include "status.h"
#include "trainer.h"
#include "types.h"
#include "weights.h"

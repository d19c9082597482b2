/* lockstep.h - everything: errors and types, graphs and layers, models, optimizers, the trainer, data, weights, recipes. */
#pragma once
#include "data.h"
#include "graph.h"
#include "models.h"
#include "nn.h"
#include "optim.h"
#include "recipe.h"
#include "status.h"
#include "trainer.h"
#include "types.h"
#include "weights.h"

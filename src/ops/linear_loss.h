/* linear_loss.h - the row of linear_cross_entropy. */
#pragma once
#include "graph/loss_attrs.h"
#include "rules.h"

extern const ls_op ls_op_linear_cross_entropy;

/* torch_settings.h - the settings that PyTorch's optimizers store in param_groups: for directories that
 * PyTorch reads, for those that it wrote, and for trainer.json of a program that has no recipe. */
#pragma once
#include "base/json.h"
#include "ckpt/dcp.h"
#include "lockstep/optim.h"

struct ls_trainer;

enum { LS_TORCH_MOST = 16 };

/* All settings of a group of parameters: with `lr`, the rate of the last step, and `initial`, that of the
 * first. Returns how many they are; 0: PyTorch has no optimizer of this kind. */
int ls_torch_settings(ls_dcp_setting list[LS_TORCH_MOST], const ls_optimizer *o, double lr, double initial,
                      double weight_decay);

/* Writes members to the open object: lr, the rate of the last step, and param_groups, a list with the
 * settings of each group and, as "params", the names of its parameters. Null for what is not known. */
void ls_torch_groups_write(ls_json *j, const struct ls_trainer *t);

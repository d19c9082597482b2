/* loader.h - for closing a data set that loaders still use. */
#pragma once
#include "lockstep/data.h"

/* True: a loader uses the set. The last loader to be destroyed will close it. */
bool ls_loader_keeps(ls_dataset *set);

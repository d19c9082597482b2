/* loader.h - a data set that is closed while loaders read it. */
#pragma once
#include "lockstep/data.h"

/* True: a loader is on it, and the last one to be destroyed closes it. */
bool ls_loader_keeps(ls_dataset *set);

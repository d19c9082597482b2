/* stop.h - the request to stop (ls_stop_on of lockstep/status.h), for long work in the library that can be
 * thrown away: reading, tokenizing, checking, building. Training steps and saves never check it; their caller
 * decides what is completed first. */
#pragma once
#include "lockstep/status.h"

/* a load or two: cheap enough for every few thousand elements; any thread may call it */
bool ls_stop_asked(void);

/* While this thread holds requests, it is asked nothing: for work of all ranks that must end on all of them
 * at once (comm/rounds.h), though a part of it, such as building a model, could be thrown away by itself. */
void ls_stop_hold(bool held);

/* LS_E_STOPPED with "stopped while DOING" if a stop is requested, else LS_OK. */
ls_status ls_stop_check(const char *doing, ...) __attribute__((format(printf, 1, 2)));

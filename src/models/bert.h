/* bert.h - what a recipe checks of a BERT before it is built. */
#pragma once
#include "lockstep/models.h"

ls_status ls_bert_check(const ls_bert_config *c); /* LS_E_SHAPE */

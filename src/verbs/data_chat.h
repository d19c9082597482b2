/* data_chat.h - conversations with their targets marked, for `lockstep data`. */
#pragma once
#include "base/ui.h"
#include "data_view.h"

/* Prints the samples that are looked at: in colour on a terminal, else with brackets. */
ls_status ls_data_chat_print(const ls_data_view *v, const ls_ui *ui);

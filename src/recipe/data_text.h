/* data_text.h - what the rows of texts in the table of data sets do (data_row.c). */
#pragma once
#include "data_row.h"

ls_status ls_data_check_text(const ls_recipe *r);
ls_status ls_data_check_chat(const ls_recipe *r);
ls_status ls_data_check_pairs(const ls_recipe *r);
ls_status ls_data_open_text(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o);
ls_status ls_data_open_chat(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o);
ls_status ls_data_open_pairs(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o);

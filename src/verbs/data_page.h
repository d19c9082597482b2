/* data_page.h - the page of `lockstep data --out`. */
#pragma once
#include "base/str.h"
#include "data_view.h"

/* One self-contained page: what is in the split, and its samples, each beside what the data set has. Images
 * are inside as PNG. LS_E_MEMORY. */
ls_status ls_data_page(const ls_data_view *v, ls_str *out);

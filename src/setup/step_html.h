/* step_html.h - the page of a compiled step, as `explain --html` and training write it. */
#pragma once
#include "pages/step_page.h"

/* Replaces the file `path`. times: [LS_MICRO], [LS_UPDATE], measured; NULL: estimates. Local. */
ls_status ls_step_html(const char *path, const char *name, const ls_compiled *c, const ls_step_times *times);

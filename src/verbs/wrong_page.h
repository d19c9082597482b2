/* wrong_page.h - `lockstep predict --wrong`: the worst mistakes of an image classifier as a page.
 */
#pragma once
#include "saved_model.h"

/* Predicts the whole split and writes the o->count samples whose true class has the lowest probability. The
 * saved model is open. Local. */
ls_status ls_wrong_command(const ls_predict_opts *o, const ls_saved_model *saved, const ls_ui *ui);

/* generate_command.h - `lockstep predict --prompt`: a language model continues a text. */
#pragma once
#include "commands.h"

/* o->model may also be a Hugging Face folder. */
ls_status ls_generate_command(const ls_predict_opts *o, const ls_ui *ui);
/* --out FILE.jsonl: a T5 makes the texts of a split. */
ls_status ls_texts_command(const ls_predict_opts *o, const ls_ui *ui);

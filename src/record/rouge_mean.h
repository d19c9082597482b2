/* rouge_mean.h - ROUGE of generated texts in the files of a run: by name, written and read. */
#pragma once
#include "base/json.h"
#include "text/rouge.h"

/* Writes means as "rouge1", "rouge2", "rougeL" and "texts", behind `prefix`, unless there are none; and reads
 * them. */
void ls_rouge_write(ls_json *j, const char *prefix, const ls_rouge_mean *rouge);
ls_rouge_mean ls_rouge_read(const json_t *object, const char *prefix);
/* Member 0, 1 or 2 of the means, and its name: "rouge1", "rouge2", "rougeL". */
enum { LS_ROUGES = 3 };
extern const char *const LS_ROUGE_NAMES[LS_ROUGES];
double ls_rouge_at(const ls_rouge_mean *rouge, int i); /* NAN: nothing was generated */

/* bytes.h - the tokenizer `bytes` as a tokenizer.json, for programs that need a file. */
#pragma once

char *ls_tokenizer_bytes_json(void); /* malloc'ed; NULL: no memory, as ls_error_message says */

/* bytes.c - the tokenizer "bytes", which needs no file: each byte is an id, and <|endoftext|> is 256. It is
 * built from the text of a tokenizer.json, so the other files need not know of it. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "bytes.h"
#include "text.h"

char *ls_tokenizer_bytes_json(void)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "version", "1.0"); /* (other programs read the text, too) */
    ls_json_raw(&j, "added_tokens",
                "[{\"id\": 256, \"content\": \"<|endoftext|>\", \"single_word\": false, \"lstrip\": false, "
                "\"rstrip\": false, \"normalized\": false, \"special\": true}]");
    /* splitting into words keeps pieces short; otherwise a book would be one piece */
    ls_json_raw(&j, "pre_tokenizer",
                "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                "\"use_regex\": true}");
    ls_json_raw(&j, "decoder",
                "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                "\"use_regex\": true}");
    ls_json_object(&j, "model");
    ls_json_text(&j, "type", "BPE");
    ls_json_object(&j, "vocab");
    for (int b = 0; b < 256; b++) {
        ls_str c = { 0 };
        ls_utf8_add(&c, ls_char_of_byte((uint8_t)b));
        ls_json_int(&j, ls_str_text(&c), b);
        ls_str_inherit(&j.out, &c);
        ls_str_release(&c);
    }
    ls_json_close_object(&j);
    ls_json_raw(&j, "merges", "[]");
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    return ls_str_take(&j.out);
}

ls_status ls_tokenizer_read_bytes(ls_tokenizer *t)
{
    json_t *root = NULL;
    char *text = ls_tokenizer_bytes_json();
    LS_TRY(ls_sys_have(text));
    ls_status s = ls_json_parse(&root, text, strlen(text), "bytes");
    if (s == LS_OK)
        s = ls_tokenizer_read(t, root, "bytes");
    json_decref(root);
    free(text);
    return s;
}

/* memory.h - how much memory this process uses. */
#pragma once
#include <stdint.h>

/* Bytes of anonymous resident memory (RssAnon of /proc/self/status); 0 if unknown. */
int64_t ls_anonymous_rss(void);

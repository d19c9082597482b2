/* memory.h - how much memory this process really holds. */
#pragma once
#include <stdint.h>

/* bytes of anonymous resident memory (/proc/self/status RssAnon); 0 when not known */
int64_t ls_anonymous_rss(void);

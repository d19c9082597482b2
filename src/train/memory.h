/* memory.h - how much memory this process really holds. */
#pragma once
#include <stdint.h>

int64_t ls_anonymous_rss(void); /* bytes of anonymous resident memory (/proc/self/status RssAnon); 0 when not known */

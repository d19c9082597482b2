/* memory.h - how much memory and processor time this process uses, and how busy its host is. */
#pragma once
#include <stdint.h>

/* Bytes of anonymous resident memory (RssAnon of /proc/self/status); 0 if unknown. */
int64_t ls_anonymous_rss(void);

/* Seconds of processors that this process has used, all its threads together. */
double ls_processor_seconds(void);
/* The load average of the host over the last minute; NAN if unknown. */
double ls_host_load(void);

/* lag_threshold.h - after how long a wait is reported, also for processes that watch ranks. */
#pragma once

double ls_lag_threshold(void); /* seconds of waiting before the first report; LOCKSTEP_NOTICE in tests */

/* allocations.h - counts calls of malloc and mmap between two points, over all threads and libraries of the
 * process. Only a program that uses it gets these functions in place of libc's. Under a sanitizer, which
 * replaces both, it counts malloc only. */
#pragma once

#if defined(LS_ASAN) || defined(LS_TSAN)
#define LS_TEST_SANITIZED 1
#else
#define LS_TEST_SANITIZED 0
#endif

void ls_test_count_begin(void);
void ls_test_count_end(int *allocations, int *mappings);

/* allocations.h - counts the malloc family and mmap between two calls, over all threads and libraries of the
 * process. Only a program that uses it gets these functions in place of libc's. Under a sanitizer, which owns
 * both, it tells of malloc, and mmap is not counted. */
#pragma once

#if defined(LS_ASAN) || defined(LS_TSAN)
#define LS_TEST_SANITIZED 1
#else
#define LS_TEST_SANITIZED 0
#endif

void ls_test_count_begin(void);
void ls_test_count_end(int *allocations, int *mappings);

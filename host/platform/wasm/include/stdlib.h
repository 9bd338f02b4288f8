/* stdlib.h with functions that wasi-libc lacks; in libc.c. */
#ifndef WASM_STDLIB_H
#define WASM_STDLIB_H
#include_next <stdlib.h>

char *realpath(const char *path, char *real);
void qsort_r(void *list, size_t count, size_t bytes, int (*compare)(const void *a, const void *b, void *user),
             void *user);
#endif

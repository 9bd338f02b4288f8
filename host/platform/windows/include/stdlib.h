/* stdlib.h with POSIX functions; in files.c and libc.c. Blocks of all allocating functions, aligned ones too, are freed
 * by free(): the linker's --wrap replaces the functions of the C runtime by those of heap.c. */
#ifndef WINDOWS_STDLIB_H
#define WINDOWS_STDLIB_H
#include_next <stdlib.h>
#include <locale.h>

int posix_memalign(void **out, size_t alignment, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);

/* An absolute path with '/', such as C:/folder/file, of a file that exists. Links are not resolved. */
char *realpath(const char *path, char *real);
char *mkdtemp(char *path);
/* mkstemp(); the flags are ignored. */
int mkostemp(char *path, int flags);

/* An environment variable; the process is never privileged. */
char *secure_getenv(const char *name);
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);

double strtod_l(const char *text, char **end, locale_t locale);

void qsort_r(void *list, size_t count, size_t bytes, int (*compare)(const void *a, const void *b, void *user),
             void *user);
#endif

/* string.h with functions of POSIX and GNU; in libc.c. */
#ifndef WINDOWS_STRING_H
#define WINDOWS_STRING_H
#include_next <string.h>

char *strndup(const char *text, size_t bytes);
char *strchrnul(const char *text, int letter);
char *strcasestr(const char *text, const char *part);
char *strsep(char **text, const char *separators);
void *memrchr(const void *data, int byte, size_t bytes);
void *memmem(const void *data, size_t bytes, const void *part, size_t part_bytes);
#endif

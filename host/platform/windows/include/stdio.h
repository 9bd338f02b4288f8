/* stdio.h with functions of POSIX and GNU; in files.c and streams.c. */
#ifndef WINDOWS_STDIO_H
#define WINDOWS_STDIO_H
#include_next <stdio.h>
#include <sys/types.h>

/* fopen() in binary mode. Letter 'e' of a mode is the default: child processes do not inherit files. */
FILE *platform_fopen(const char *path, const char *mode);
#define fopen(...) platform_fopen(__VA_ARGS__)
/* rename() that replaces an existing file. */
int platform_rename(const char *from, const char *to);
#define rename(...) platform_rename(__VA_ARGS__)

/* A stream into memory, which *out_text gets when the stream is flushed or closed; the caller frees it. */
FILE *open_memstream(char **out_text, size_t *out_bytes);
int platform_fclose(FILE *file);
#define fclose(...) platform_fclose(__VA_ARGS__)
int platform_fflush(FILE *file);
#define fflush(...) platform_fflush(__VA_ARGS__)

ssize_t getline(char **line, size_t *capacity, FILE *file);
#endif

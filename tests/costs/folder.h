/* folder.h - a temporary cost folder for each test, and functions to read and corrupt its files. */
#ifndef COSTS_FOLDER_H
#define COSTS_FOLDER_H
#include "cmocka_all.h"
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PATH_MAX];

static inline int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/tests/costs-XXXXXX", INLAY_BINARY_DIR);
    return mkdtemp(folder) == NULL;
}

static inline const char *in_folder(const char *name)
{
    static char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline int drop_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int drop_folder(void **state)
{
    (void)state;
    return nftw(folder, drop_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Reads a whole file. The caller frees the result. */
static inline char *read_file(const char *name, size_t *out_bytes)
{
    FILE *file = fopen(in_folder(name), "rb");
    char *data = calloc(1, 4 << 20);

    assert_non_null(file);
    assert_non_null(data);
    *out_bytes = fread(data, 1, (4 << 20) - 1, file);
    assert_int_equal(fclose(file), 0);
    return data;
}

static inline void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(in_folder(name), 0600), 0);
}

/* The number of warnings and the last line that the tested code has logged. */
static uint32_t warnings;
static char last_line[700];
static inline void keep_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    warnings += level <= 1;
    (void)snprintf(last_line, sizeof last_line, "%s", text);
}
#endif

/* folder.h - temporary folders for plugins and verdicts, created for each test. */
#ifndef FOLDER_H
#define FOLDER_H
#include "cmocka_all.h"
#include "plugin/plugin.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char root[64], plugins[80], verdicts[80];
};

static inline void folder_make(struct folder *folder)
{
    char root[sizeof folder->root] = "/tmp/inlay-hostile-XXXXXX";

    assert_non_null(mkdtemp(root));
    (void)snprintf(folder->root, sizeof folder->root, "%s", root);
    (void)snprintf(folder->plugins, sizeof folder->plugins, "%s/plugins", root);
    (void)snprintf(folder->verdicts, sizeof folder->verdicts, "%s/verdicts", root);
    assert_int_equal(mkdir(folder->plugins, 0700), 0);
    assert_int_equal(mkdir(folder->verdicts, 0700), 0);
}

static inline void folder_remove(const struct folder *folder)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder->root);
    assert_int_equal(system(command), 0);
}

/* Reads a file; the caller frees the bytes. */
static inline unsigned char *file_bytes(const char *path, size_t *out_bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data;
    long bytes;

    if (file == NULL)
        fail_msg("no file %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    assert_true(bytes >= 0);
    rewind(file);
    data = malloc((size_t)bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)bytes, file), bytes);
    (void)fclose(file);
    *out_bytes = (size_t)bytes;
    return data;
}

/* Writes a new file with another inode, even if the path exists. */
static inline void file_write(const char *path, const void *data, size_t bytes)
{
    FILE *file;

    (void)unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Copies variant `evil` of evil.c into the folder as NAME.so. */
static inline void folder_add(const struct folder *folder, const char *evil, const char *name)
{
    char from[512], to[160];
    unsigned char *data;
    size_t bytes;

    (void)snprintf(from, sizeof from, "%s/%s.so", EVIL_DIR, evil);
    (void)snprintf(to, sizeof to, "%s/%s.so", folder->plugins, name);
    data = file_bytes(from, &bytes);
    file_write(to, data, bytes);
    free(data);
}

static inline plugin_set *folder_search_with(const struct folder *folder, plugin_search search)
{
    const char *dirs[] = { folder->plugins };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = NULL;

    search.dirs = dirs;
    search.dir_count = 1;
    search.verdict_dir = folder->verdicts;
    if (plugin_set_search(&search, &set, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return set;
}

static inline plugin_set *folder_search(const struct folder *folder)
{
    return folder_search_with(folder, (plugin_search){ .probe_ms = 3000 });
}

static inline void expect_file(const plugin_file *file, plugin_outcome outcome, const char *words)
{
    assert_non_null(file);
    if (file->outcome != outcome || (words != NULL && (file->reason == NULL || strstr(file->reason, words) == NULL)))
        fail_msg("%s: %s: '%s'; expected %s: '%s'", file->path, plugin_outcome_text(file->outcome),
                 file->reason != NULL ? file->reason : "", plugin_outcome_text(outcome), words != NULL ? words : "");
}
#endif

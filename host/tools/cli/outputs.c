#include "cli/outputs.h"
#include "base/memory.h"
#include "base/output.h"
#include "cli/cli.h"
#include "inlay/check.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 8 };

typedef struct known_file {
    dev_t device;
    ino_t inode;
    bool own; /* an output of this process, which may read it and replace it again */
} known_file;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known_file *known; /* [known_count]; threads load models */
static size_t known_count;

/* What the arguments name. */
static struct named {
    const char *option, *path;
} outputs[MOST_OUTPUTS];
static uint32_t output_count;
/* MODEL; -o of a verb whose result may replace it; --external. NULL: not given. */
static const char *model, *version, *external;
static bool complete;              /* no further names follow */
static char replaced[2][PATH_MAX]; /* real paths of both, if the result replaces MODEL; "": it does not */

static known_file *find(const struct stat *file)
{
    for (size_t i = 0; i < known_count && file->st_ino != 0; i++)
        if (known[i].device == file->st_dev && known[i].inode == file->st_ino)
            return &known[i];
    return NULL;
}

static void note(const struct stat *file, bool own)
{
    known_file *entry;

    (void)pthread_mutex_lock(&lock);
    entry = find(file);
    if (entry != NULL) {
        entry->own |= own;
    } else if (LIST_GROW(known, known_count)) {
        known[known_count++] = (known_file){ .device = file->st_dev, .inode = file->st_ino, .own = own };
    } else { /* without the record, the file could be lost */
        (void)fprintf(stderr, "inlay: out of memory\n");
        exit(CLI_FAILED);
    }
    (void)pthread_mutex_unlock(&lock);
}

static void note_read(const struct stat *file)
{
    note(file, false);
}

static void note_written(const struct stat *file)
{
    note(file, true);
}

/* The path without links, also if the file does not exist yet. "": it has no folder, or is too long. */
static void real_path(const char *path, char out[PATH_MAX])
{
    char target[PATH_MAX], folder[PATH_MAX];
    const char *slash, *name;

    out[0] = '\0';
    if (realpath(path, out) != NULL || !output_target(path, target))
        return;
    slash = strrchr(target, '/');
    name = slash != NULL ? slash + 1 : target;
    if (slash != NULL)
        target[slash == target ? 1 : slash - target] = '\0';
    if (realpath(slash != NULL ? target : ".", folder) == NULL ||
        (size_t)snprintf(out, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        out[0] = '\0';
}

static bool refuses(const struct stat *file, const char *path)
{
    char real[PATH_MAX];
    const known_file *entry;
    bool read;

    (void)pthread_mutex_lock(&lock);
    entry = find(file);
    read = entry != NULL && !entry->own;
    (void)pthread_mutex_unlock(&lock);
    if (!read || replaced[0][0] == '\0')
        return read;
    real_path(path, real);
    return strcmp(real, replaced[0]) != 0 && strcmp(real, replaced[1]) != 0;
}

void outputs_protect(void)
{
    static const output_rules rules = {
        .note_read = note_read, .note_written = note_written, .refuses = refuses, .check_all = outputs_check
    };

    output_set_rules(&rules);
}

void outputs_add(const char *option, const char *path)
{
    if (strncmp(path, "/dev/", 5) == 0)
        return;
    INLAY_CHECK(output_count < MOST_OUTPUTS);
    outputs[output_count++] = (struct named){ .option = option, .path = path };
}

void outputs_add_version(const char *option, const char *path)
{
    version = path;
    outputs_add(option, path);
}

void outputs_set_external(const char *name)
{
    external = name;
}

void outputs_set_model(const char *path)
{
    model = path;
    output_note_read_path(path);
}

/* The path of --external, in the folder of -o. */
static void external_path(char path[PATH_MAX])
{
    const char *output = version != NULL ? version : output_count > 0 ? outputs[0].path : "";
    const char *slash = strrchr(output, '/');

    if ((size_t)snprintf(path, PATH_MAX, "%.*s%s", slash != NULL ? (int)(slash - output) + 1 : 0, output, external) >=
        PATH_MAX)
        path[0] = '\0';
}

static inlay_status check_pairs(inlay_diag *diag)
{
    char real[MOST_OUTPUTS][PATH_MAX];

    for (uint32_t i = 0; i < output_count; i++) {
        real_path(outputs[i].path, real[i]);
        for (uint32_t k = 0; k < i; k++)
            if (real[i][0] != '\0' && strcmp(real[i], real[k]) == 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--%s and --%s name the same file, %.300s",
                                  outputs[k].option, outputs[i].option, outputs[i].path);
    }
    return INLAY_OK;
}

/* Adds the path of --external, and finds out whether -o names MODEL. */
static void complete_names(void)
{
    static char tensors[PATH_MAX];
    char of_model[PATH_MAX];

    if (external != NULL) {
        external_path(tensors);
        outputs_add("external", tensors);
    }
    if (model == NULL || version == NULL)
        return;
    real_path(model, of_model);
    real_path(version, replaced[0]);
    if (strcmp(of_model, replaced[0]) != 0)
        replaced[0][0] = '\0';
    else if (external != NULL)
        real_path(tensors, replaced[1]);
}

inlay_status outputs_check(inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (!complete)
        complete_names();
    complete = true;
    INLAY_TRY(check_pairs(diag));
    for (uint32_t i = 0; i < output_count; i++)
        INLAY_TRY(output_check(outputs[i].path, diag));
done:
    return status;
}

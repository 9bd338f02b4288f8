#include "check/cases.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 32 }; /* symbolic links may form cycles */

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the paths of the folders in dir, sorted. */
static inlay_status list_folders(const char *dir, struct arena *arena, const char ***out_paths, uint32_t *out_count,
                                 inlay_diag *diag)
{
    DIR *handle = opendir(dir);
    const char **paths = NULL;
    uint32_t count = 0;
    struct dirent *entry;
    inlay_status status = INLAY_OK;

    *out_count = 0;
    if (handle == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", dir, strerror(errno));
    while ((entry = readdir(handle)) != NULL) {
        const char *path;

        if (entry->d_name[0] == '.')
            continue;
        path = arena_format(arena, "%s/%s", dir, entry->d_name);
        if (path != NULL && !is_dir(path))
            continue;
        if (path == NULL || !ARENA_GROW(arena, paths, count)) {
            status = no_memory(diag, "for the files of %s", dir);
            goto done;
        }
        paths[count++] = path;
    }
    if (count > 0)
        qsort((void *)paths, count, sizeof *paths, by_name);
    *out_paths = paths;
    *out_count = count;
done:
    closedir(handle);
    return status;
}

/* The last component of a data set's path begins with "test_data_set_". */
static bool is_data_set(const char *path)
{
    const char *base = strrchr(path, '/');
    return strncmp(base != NULL ? base + 1 : path, "test_data_set_", 14) == 0;
}

static inlay_status add_case(const test_case *found, struct arena *arena, case_list *list, inlay_diag *diag)
{
    if (!ARENA_GROW(arena, list->cases, list->count))
        return no_memory(diag, "for the list of cases");
    list->cases[list->count++] = *found;
    return INLAY_OK;
}

static inlay_status visit(const char *root, const char *dir, int depth, struct arena *arena, case_list *list,
                          inlay_diag *diag)
{
    const char **folders = NULL;
    uint32_t count, sets = 0;
    char *model = arena_format(arena, "%s/model.onnx", dir);
    inlay_status status;

    INLAY_CHECK(strncmp(dir, root, strlen(root)) == 0);
    if (depth > MAX_DEPTH)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: folders nest more than %d deep", root, MAX_DEPTH);
    INLAY_TRY(list_folders(dir, arena, &folders, &count, diag));
    if (model == NULL) {
        status = no_memory(diag, "for a path");
        goto done;
    }
    if (access(model, F_OK) == 0) {
        const char **data = arena_array(arena, (size_t)count + 1, sizeof *data);
        const char *base = strrchr(dir, '/');
        const char *below = dir[strlen(root)] == '/' ? dir + strlen(root) + 1 : base != NULL ? base + 1 : dir;

        for (uint32_t i = 0; data != NULL && i < count; i++)
            if (is_data_set(folders[i]))
                data[sets++] = folders[i];
        if (sets > 0)
            INLAY_TRY(add_case(&(test_case){ below, model, data, sets }, arena, list, diag));
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_data_set(folders[i]))
            INLAY_TRY(visit(root, folders[i], depth + 1, arena, list, diag));
done:
    return status;
}

inlay_status cases_find(const char *dir, struct arena *arena, case_list *list, inlay_diag *diag)
{
    uint32_t before = list->count;
    char *root = arena_string(arena, dir);
    inlay_status status;

    if (root == NULL)
        return no_memory(diag, "for a path");
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    status = visit(root, root, 0, arena, list, diag);
    if (status == INLAY_OK && list->count == before)
        status = inlay_fail(diag, INLAY_NOT_FOUND,
                            "%s: no test case here: expected folders with model.onnx and test_data_set_0", dir);
    return status;
}

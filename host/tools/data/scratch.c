#include "data/scratch.h"
#include "inlay/check.h"
#include "base/output.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Creates a folder whose name begins with `folder` and `name`. */
static bool make_folder(char dir[SCRATCH_BYTES], const char *folder, const char *name)
{
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(dir, SCRATCH_BYTES, "%s%s.XXXXXX", folder, name) < SCRATCH_BYTES - 64 && mkdtemp(dir) != NULL)
        return true;
    dir[0] = '\0';
    return false;
}

static bool make_temporary(struct scratch *scratch)
{
    const char *folder = getenv("TMPDIR");

    return make_folder(scratch->dir, folder != NULL && folder[0] != '\0' ? folder : "/tmp", "/inlay");
}

/* Creates the folder, so that an unwritable output is detected early. The folder is next to the output, unless the
 * output is not a regular file or its folder is not writable. */
static bool make_near_output(struct scratch *scratch)
{
    char target[PATH_MAX];
    const bool regular = output_target(scratch->output, target);
    const bool exists = regular && access(target, F_OK) == 0;

    if (exists && faccessat(AT_FDCWD, target, W_OK, AT_EACCESS) != 0)
        return false;
    if (regular && make_folder(scratch->dir, target, ""))
        return true;
    return (exists || !regular) && make_temporary(scratch);
}

inlay_status scratch_make_temporary(struct scratch *out, inlay_diag *diag)
{
    *out = (struct scratch){ .output = NULL };
    return make_temporary(out)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "no temporary folder: %s; set TMPDIR", strerror(errno));
}

inlay_status scratch_make(const char *output, const char *external, struct scratch *out, inlay_diag *diag)
{
    struct stat st;

    *out = (struct scratch){ .output = output, .external = external };
    if (external != NULL && (external[0] == '\0' || strchr(external, '/') != NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "external file '%.200s' must be a file name without a folder; it is written to the folder of "
                          "the model",
                          external);
    errno = EISDIR;
    if ((stat(output, &st) == 0 && S_ISDIR(st.st_mode)) || !make_near_output(out))
        return output_not_created(output, diag);
    return INLAY_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void scratch_remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void scratch_remove(struct scratch *scratch)
{
    if (scratch->dir[0] != '\0')
        scratch_remove_folder(scratch->dir);
    scratch->dir[0] = '\0';
}

inlay_status scratch_save(const struct scratch *scratch, const char *name, const graph_model *model, bool mapped,
                          char *path, inlay_diag *diag)
{
    const model_save_options save = { .external_file = scratch->external != NULL ? scratch->external
                                                       : mapped                  ? "tensors"
                                                                                 : NULL,
                                      .with_inferred_shapes = mapped };

    INLAY_CHECK(scratch->dir[0] != '\0');
    (void)snprintf(path, PATH_MAX, "%s/%.64s", scratch->dir, name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot write %.200s: %s", scratch->output, strerror(errno));
    (void)snprintf(path, PATH_MAX, "%s/%.64s/model.onnx", scratch->dir, name);
    return model_save(model, path, &save, diag);
}

inlay_status scratch_publish(const struct scratch *scratch, const char *path, uint64_t *out_bytes, inlay_diag *diag)
{
    const char *slash = strrchr(scratch->output, '/');
    const int folder = (int)(strrchr(path, '/') - path);
    char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];
    output_file model = { .fd = -1 }, data = { .fd = -1 };
    struct stat info;
    bool outside = false;
    inlay_status status = INLAY_OK;

    *out_bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    if (scratch->external != NULL) {
        if ((size_t)snprintf(from, sizeof from, "%.*s/%s", folder, path, scratch->external) >= sizeof from ||
            (size_t)snprintf(to, sizeof to, "%.*s%s", slash == NULL ? 0 : (int)(slash - scratch->output) + 1,
                             scratch->output, scratch->external) >= sizeof to)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the path of the external file '%.100s...' has more than %d bytes", scratch->external,
                              PATH_MAX - 1);
        outside = stat(from, &info) == 0; /* otherwise no tensor was large enough */
    }
    if (outside && !output_target(scratch->output, target))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.200s is not a regular file, so the tensors cannot be written to '%.200s' in its folder",
                          scratch->output, scratch->external);
    if (outside) {
        *out_bytes += (uint64_t)info.st_size;
        INLAY_TRY(output_move_file(&data, to, from, diag));
    }
    INLAY_TRY(output_move_file(&model, scratch->output, path, diag));
    status = outside ? output_commit(&data, &model, diag) : output_commit(&model, NULL, diag);
done:
    output_drop(&model);
    output_drop(&data);
    return status;
}

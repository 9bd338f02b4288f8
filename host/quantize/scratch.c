#include "quantize/scratch.h"
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

inlay_status scratch_make(const char *output, const char *external, scratch *out, inlay_diag *diag)
{
    *out = (scratch){ .output = output, .external = external };
    if (external != NULL && (external[0] == '\0' || strchr(external, '/') != NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "external file '%.200s' must be a plain name; it goes beside "
                          "the model",
                          external);
    if ((size_t)snprintf(out->dir, sizeof out->dir, "%s.XXXXXX", output) >= sizeof out->dir - 64) {
        out->dir[0] = '\0';
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the path of the output is too long");
    }
    if (mkdtemp(out->dir) == NULL) {
        out->dir[0] = '\0';
        return inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be created: %s", output, strerror(errno));
    }
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

void scratch_remove(scratch *s)
{
    if (s->dir[0] != '\0')
        scratch_remove_folder(s->dir);
    s->dir[0] = '\0';
}

inlay_status scratch_save(const scratch *s, const char *name, const graph_model *model, bool inside, char *path,
                          inlay_diag *diag)
{
    const model_save_options save = { .external_file = s->external != NULL ? s->external
                                                       : inside            ? "tensors"
                                                                           : NULL,
                                      .with_inferred_shapes = inside };

    (void)snprintf(path, PATH_MAX, "%s/%.64s", s->dir, name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be written: %s", s->output, strerror(errno));
    (void)snprintf(path, PATH_MAX, "%s/%.64s/model.onnx", s->dir, name);
    return model_save(model, path, &save, diag);
}

/* Moves a file; one that is not there is none of the model's. */
static inlay_status move(const char *from, const char *to, uint64_t *io_bytes, inlay_diag *diag)
{
    struct stat info;

    if (stat(from, &info) != 0)
        return INLAY_OK;
    if (rename(from, to) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be written: %s", to, strerror(errno));
    *io_bytes += (uint64_t)info.st_size;
    return INLAY_OK;
}

inlay_status scratch_publish(const scratch *s, const char *path, uint64_t *out_bytes, inlay_diag *diag)
{
    const char *slash = strrchr(s->output, '/');
    char from[PATH_MAX], to[PATH_MAX];
    inlay_status status = INLAY_OK;

    *out_bytes = 0;
    if (s->external != NULL) {
        const int folder = (int)(strrchr(path, '/') - path);

        if ((size_t)snprintf(from, sizeof from, "%.*s/%s", folder, path, s->external) >= sizeof from ||
            (size_t)snprintf(to, sizeof to, "%.*s%s", slash == NULL ? 0 : (int)(slash - s->output) + 1, s->output,
                             s->external) >= sizeof to)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the path of the external file is too long");
        INLAY_TRY(move(from, to, out_bytes, diag));
    }
    status = move(path, s->output, out_bytes, diag);
done:
    return status;
}

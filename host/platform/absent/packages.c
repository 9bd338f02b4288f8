/* Model packages and folders of models are not read. */
#include "base/model_folder.h"
#include "session/package.h"

bool package_is(const char *path)
{
    (void)path;
    return false;
}

inlay_status package_read(const char *path, model_package *out, inlay_diag *diag)
{
    *out = (model_package){ .count = 0 };
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: this build reads no packages", path);
}

void package_deinit(model_package *package)
{
    (void)package;
}

inlay_status package_find(const model_package *package, const char *path, const char *name, const package_variant **out,
                          inlay_diag *diag)
{
    (void)package, (void)name;
    *out = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: this build reads no packages", path);
}

inlay_status package_session(const char *path, const inlay_options *options, inlay_session **out_session,
                             inlay_diag *diag)
{
    (void)options;
    *out_session = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: this build reads no packages", path);
}

inlay_status model_folder_find(const char *path, const char *variant, char out_path[PATH_MAX], inlay_diag *diag)
{
    (void)variant;
    out_path[0] = '\0';
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: this build reads no folders of models; name a file", path);
}

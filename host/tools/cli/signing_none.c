/* shared/signing.h where GnuTLS is not installed: nothing can be signed or verified. */
#include "shared/signing.h"
#include <sys/stat.h>

bool signing_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static inlay_status missing(const char *path, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "%.300s: this program was built without GnuTLS, which signatures need: build it again with the "
                      "package libgnutls28-dev",
                      path);
}

inlay_status signing_write(const char *path, const char *const *others, uint32_t other_count, const char *key,
                           const char *output, signing_report *out_report, inlay_diag *diag)
{
    (void)others;
    (void)other_count;
    (void)key;
    (void)output;
    *out_report = (signing_report){ 0 };
    return missing(path, diag);
}

inlay_status signing_check(const char *path, const char *signature, const char *keys, signing_report *out_report,
                           inlay_diag *diag)
{
    (void)signature;
    (void)keys;
    *out_report = (signing_report){ 0 };
    return missing(path, diag);
}

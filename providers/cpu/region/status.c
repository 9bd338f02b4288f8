/* What a library answers, as a status of the host's with a sentence. */
#include "region/region.h"

inlay_status rg_check(dn_status code, inlay_diag *diag, const char *what, const char *name)
{
    inlay_status status = code == DN_OUT_OF_MEMORY       ? INLAY_OUT_OF_MEMORY
                          : code == DN_UNIMPLEMENTED     ? INLAY_UNSUPPORTED
                          : code == DN_INVALID_ARGUMENTS ? INLAY_UNSUPPORTED
                                                         : INLAY_INTERNAL;

    if (code == DN_SUCCESS)
        return INLAY_OK;
    return inlay_fail(diag, status, "node '%s': %s can't %s (%s)", name, dn_in_use->title, what,
                      code == DN_OUT_OF_MEMORY       ? "out of memory"
                      : code == DN_UNIMPLEMENTED     ? "not implemented"
                      : code == DN_INVALID_ARGUMENTS ? "invalid arguments"
                                                     : "runtime error");
}

/* Converts a library's status to an inlay_status with a message. */
#include "cpu/region/region.h"

inlay_status cpu_check(library_status code, inlay_diag *diag, const char *what, const char *name)
{
    inlay_status status = code == LIBRARY_OUT_OF_MEMORY       ? INLAY_OUT_OF_MEMORY
                          : code == LIBRARY_UNIMPLEMENTED     ? INLAY_UNSUPPORTED
                          : code == LIBRARY_INVALID_ARGUMENTS ? INLAY_UNSUPPORTED
                                                              : INLAY_INTERNAL;

    if (code == LIBRARY_SUCCESS)
        return INLAY_OK;
    return inlay_fail(diag, status, "node '%s': %s can't %s (%s)", name, library_in_use->title, what,
                      code == LIBRARY_OUT_OF_MEMORY       ? "out of memory"
                      : code == LIBRARY_UNIMPLEMENTED     ? "not implemented"
                      : code == LIBRARY_INVALID_ARGUMENTS ? "invalid arguments"
                                                          : "runtime error");
}

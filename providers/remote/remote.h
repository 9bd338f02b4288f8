/* remote/remote.h - opens a plug-in in a process of its own: library_parts.open_isolated (base/parts.h). */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H
#include "inlay/plugin.h"

/* Implements isolate_open() of plugin/isolate.h. */
INLAY_NODISCARD inlay_status remote_open(const char *helper, const char *path, int fd, const inlay_plugin **out_plugin,
                                         inlay_diag *diag);
#endif

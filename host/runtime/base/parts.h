/* base/parts.h - the parts of inlay above the runtime.
 *
 * The runtime includes no header of these parts and calls none of their functions by name: it reads this table, which
 * host/library/parts.c defines for each library and program. A part that a build leaves out is NULL there; what needs
 * it then fails with INLAY_UNSUPPORTED and a message that names it. */
#ifndef BASE_PARTS_H
#define BASE_PARTS_H
#include "inlay/status.h"

/* The end of such messages. */
#define PARTS_LEFT_OUT "is not in this build of inlay; use a complete build"

struct inlay_plugin;
struct insight_part;
struct model_format;
struct watchdog_part;

struct library_parts {
    /* host/formats (model/format.h); ends with NULL. */
    const struct model_format *const *formats;
    /* providers/remote: starts a process for a plug-in; see isolate_open() in plugin/isolate.h. */
    inlay_status (*open_isolated)(const char *helper, const char *path, int fd, const struct inlay_plugin **out_plugin,
                                  inlay_diag *diag);
    /* host/insight (session/insight.h). */
    const struct insight_part *insight;
    const struct watchdog_part *watchdog;
};

extern const struct library_parts library_parts;
#endif

/* base/boundary.h - normalises the status and diagnostics that plugins return.
 *
 * A plugin's status may be a number that this host does not know. Its diag may have a message without a code, a code
 * that differs from the returned one, or unterminated text. After these functions they are consistent: diag->code is
 * the status, error_class matches it, all texts are terminated and have one line, and every failure has a message. */
#ifndef BASE_BOUNDARY_H
#define BASE_BOUNDARY_H
#include "inlay/status.h"
#include <stdbool.h>

/* The plugin that was called. */
typedef struct boundary_call {
    const char *provider; /* NULL = the plugin itself */
    const char *plugin;   /* NULL = unknown */
} boundary_call;

/* Returns status, or INLAY_INTERNAL for numbers that this host does not know. */
inlay_status boundary_status(inlay_status status);

/* Makes *own, which a plugin wrote, consistent with status, so that the host can use it. Returns boundary_status(). */
inlay_status boundary_finish_status(inlay_status status, inlay_diag *own);

/* Copies the failure in own into diag (may be NULL), prefixed with the names of the provider and the plugin unless the
 * message begins with them. INLAY_OK leaves diag unchanged. Returns boundary_status(status). */
inlay_status forward_plugin_error(const boundary_call *call, inlay_status status, inlay_diag *own, inlay_diag *diag);
#endif

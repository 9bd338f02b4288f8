/* base/boundary.h - what plugins return, put into the order that the host relies on.
 *
 * A plugin's status may be a number that this host does not know, its diag may hold a sentence without a code, a code
 * that is not the one returned, or text without an end. Behind the boundary they agree: diag->code is the status, the
 * class belongs to it, all texts end and are one line, and a failure without a sentence has one. */
#ifndef BASE_BOUNDARY_H
#define BASE_BOUNDARY_H
#include "inlay/plugin.h"
#include <stdbool.h>

/* Whose call it was. */
typedef struct boundary_call {
    const char *provider; /* NULL = the plugin itself */
    const char *plugin;   /* NULL = not known */
} boundary_call;

/* A status that this host knows: unknown numbers are INLAY_INTERNAL. */
inlay_status boundary_status(inlay_status status);

/* For diags that a plugin wrote and that become the host's: makes *own agree with status. Returns boundary_status(). */
inlay_status boundary_finish_status(inlay_status status, inlay_diag *own);

/* Copies what a failing call left in own into diag (may be NULL), with the names of provider and plugin in front where
 * the sentence does not begin with them. A status of INLAY_OK leaves diag alone. Returns boundary_status(status). */
inlay_status forward_plugin_error(const boundary_call *call, inlay_status status, inlay_diag *own, inlay_diag *diag);
#endif

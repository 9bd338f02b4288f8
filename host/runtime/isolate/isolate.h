/* isolate/isolate.h - plug-ins whose code runs in a separate process, see README.md.
 *
 * The host uses an isolated plug-in like any other one: by a description (inlay_plugin) whose functions make calls in
 * the process. */
#ifndef ISOLATE_H
#define ISOLATE_H
#include "inlay/plugin.h"
#include <stdbool.h>

/* Starts a process of the helper (inlay-probe) that loads the file, and gets the plug-in's description, which lives
 * until its shutdown has returned. Texts are copied. fd is a descriptor of the file; it is duplicated. */
INLAY_NODISCARD inlay_status isolate_open(const char *helper, const char *path, int fd, const inlay_plugin **out_plugin,
                                          inlay_diag *diag);
/* Limits the time of calls of an open provider of such a plug-in; state is the one that create returned. 0 = no
 * limit. */
void isolate_set_limit(void *state, uint64_t limit_ms);
/* After INLAY_DEVICE_LOST: may the provider's process be started again? Its next call then starts it. */
bool isolate_may_restart(void *state);
#endif

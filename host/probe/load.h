/* probe/load.h - loads the plugin of this process. */
#ifndef PROBE_LOAD_H
#define PROBE_LOAD_H
#include "plugin/module.h"

/* fd: of the file at path, -1 if it could not be opened; stays open. The result is not freed. */
INLAY_NODISCARD inlay_status load_plugin(int fd, const char *path, plugin_module **out_module, inlay_diag *diag);
#endif

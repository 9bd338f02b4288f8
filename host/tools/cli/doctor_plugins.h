/* cli/doctor_plugins.h - findings about plugins that crashed or hung. */
#ifndef CLI_DOCTOR_PLUGINS_H
#define CLI_DOCTOR_PLUGINS_H
#include "cli/cli.h"
#include "modelkit/doctor.h"

/* Adds a finding for each plugin that sessions of doctor->model do not use because it crashed or hung, and for each
 * that crashed with other models. */
INLAY_NODISCARD inlay_status doctor_plugins_find(struct doctor *doctor, const cli_common *common, inlay_diag *diag);
#endif

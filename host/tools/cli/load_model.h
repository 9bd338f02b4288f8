/* cli/load_model.h - loads a model file and infers types, without creating a session. */
#ifndef CLI_LOAD_MODEL_H
#define CLI_LOAD_MODEL_H
#include "cli/cli.h"
#include "model/model.h"

/* Loads the model, binds its operators (also those of plugins) and infers types. Functions are inlined; nothing is
 * optimised. With load->collect, errors become findings of the model, and only errors that prevent further analysis are
 * returned; *out_model may be set even then. The caller destroys it. load NULL: as a session with the same options. */
INLAY_NODISCARD inlay_status cli_load_model(const cli_common *common, const char *path, const model_load_options *load,
                                            graph_model **out_model, inlay_diag *diag);
/* Is an option or another file the reason of such a failure, and not the model? */
bool cli_is_misuse(inlay_status status);
#endif

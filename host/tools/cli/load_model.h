/* cli/look.h - a model as it stands in its file, with all that is known of it without running it. */
#ifndef CLI_LOAD_MODEL_H
#define CLI_LOAD_MODEL_H
#include "cli/cli.h"
#include "model/model.h"

/* Loads, binds to the operators (those of plugins too) and infers types; functions are inlined, nothing is optimised.
 * With load->collect what is wrong becomes findings of the model, and a failure is what leaves nothing to look at
 * further: *out_model may be there all the same. The caller destroys it; load->out_fault may be NULL. */
INLAY_NODISCARD inlay_status cli_load_model(const cli_common *common, const char *path, const model_load_options *load,
                                            graph_model **out_model, inlay_diag *diag);
#endif

/* cli/graph_page.h - the graphs of model files, for pages. */
#ifndef CLI_GRAPH_PAGE_H
#define CLI_GRAPH_PAGE_H
#include "cli/cli.h"
#include "model/model.h"
#include <jansson.h>

/* Loads the model in the file once more, and infers its types. NULL if that is not possible: the page then shows the
 * types of the file. The caller destroys it. */
graph_model *graph_page_types(const cli_common *common, const char *path);

/* The JSON of a model that was loaded from the file `path`, for page_inspect; the caller owns it. */
INLAY_NODISCARD inlay_status graph_page_json(const cli_common *common, const char *path, graph_model *model,
                                             json_t **out, inlay_diag *diag);
#endif

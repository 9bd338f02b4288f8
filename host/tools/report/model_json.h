/* report/model_json.h - a model file as JSON for the page of graphs, in the format of `inlay explain --json` as far as
 * there is no session: nodes, values, bodies, and a summary of each constant. */
#ifndef REPORT_MODEL_JSON_H
#define REPORT_MODEL_JSON_H
#include "graph/graph.h"
#include <jansson.h>

/* Creates {"model", "nodes", "left_out", "main"}; the caller owns it. typed: as for dot_write(). Texts are shortened,
 * and nodes left out, so that it has at most some tens of megabytes; "left_out" counts these nodes.
 * INLAY_OUT_OF_MEMORY is the only failure. */
INLAY_NODISCARD inlay_status model_json(graph_model *model, const graph_model *typed, const char *path, json_t **out,
                                        inlay_diag *diag);
#endif

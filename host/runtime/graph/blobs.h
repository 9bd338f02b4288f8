/* graph/blobs.h - memory of a model that is freed before the model. */
#ifndef GRAPH_BLOBS_H
#define GRAPH_BLOBS_H
#include "graph/graph.h"

/* Frees a block of graph_blob_alloc() that nothing refers to any more. Blocks in files stay until the model is
 * freed. */
void graph_blob_free(graph_model *model, const void *data);
#endif

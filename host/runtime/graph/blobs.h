/* graph/blobs.h - memory of a model that is freed before the model. */
#ifndef GRAPH_BLOBS_H
#define GRAPH_BLOBS_H
#include "graph/graph.h"

/* Frees a block of graph_blob_alloc() that nothing refers to any more. Blocks in files stay until the model is
 * freed. */
void graph_blob_free(graph_model *model, const void *data);
/* Gives the pages of a block of graph_blob_alloc() back. Its elements are lost, and cannot be accessed until
 * graph_blob_reclaim(). False: the block is in a file, or the system does not support it. */
bool graph_blob_discard(graph_model *model, const void *data);
void graph_blob_reclaim(graph_model *model, const void *data);
#endif

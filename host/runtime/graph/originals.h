/* graph/originals.h - weights that a translation has made (model/format.h) leave the memory when providers have packed
 * them.
 *
 * Their pages return to the system and cannot be accessed until the file is translated again. So whoever reads
 * constants of a model whose session exists calls graph_restore() first; runs do not, as providers have copies. */
#ifndef GRAPH_ORIGINALS_H
#define GRAPH_ORIGINALS_H
#include "graph/graph.h"

/* First character of the location of such weights, which a number follows. It is the path of no file. */
enum { GRAPH_MADE = '\1', GRAPH_LOCATION = 24 };

/* Gives back the weights of the main graph that regions have copied (graph_value.copied) and that nothing reads in
 * place. Called once, before the first run of the only program of the model. */
void graph_give_back(struct graph *graph);
/* Makes all constants of the model, and of those that it reads, accessible again. Cheap if they are. Any thread. */
INLAY_NODISCARD inlay_status graph_restore(const graph_model *model, inlay_diag *diag);
#endif

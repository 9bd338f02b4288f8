/* report/dot.h - a model in the DOT language of Graphviz, which lays it out and draws it. */
#ifndef REPORT_DOT_H
#define REPORT_DOT_H
#include "graph/graph.h"
#include <stdio.h>

/* Writes the main graph and all bodies, each as a cluster. typed: the same model with inferred types, which label
 * the edges; NULL: those of the file. INLAY_OUT_OF_MEMORY is the only failure; the caller checks for write errors of
 * `to`. */
INLAY_NODISCARD inlay_status dot_write(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag);
#endif

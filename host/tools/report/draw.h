/* report/draw.h - draws a model: layers from inputs to outputs, bodies of Loop, If and Scan below. */
#ifndef REPORT_DRAW_H
#define REPORT_DRAW_H
#include "graph/graph.h"
#include <stdio.h>

/* Draw the main graph and all bodies. typed: the same model with inferred types, which label the edges; NULL: those of
 * the file. INLAY_OUT_OF_MEMORY is the only failure; the caller checks for write errors of `to`. */
INLAY_NODISCARD inlay_status draw_dot(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag);
INLAY_NODISCARD inlay_status draw_svg(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag);
/* The same drawing in a page, with attributes and types as tooltips. */
INLAY_NODISCARD inlay_status draw_html(FILE *to, graph_model *model, const graph_model *typed, const char *title,
                                       inlay_diag *diag);
#endif

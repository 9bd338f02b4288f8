/* report/draw.h - a model as a picture: layers from inputs to outputs, bodies of Loop, If and Scan below. */
#ifndef MODELKIT_DRAW_H
#define MODELKIT_DRAW_H
#include "graph/graph.h"
#include <stdio.h>

/* The main graph and all bodies. typed: the same model inferred, whose types of values by name are written beside the
 * edges; NULL: those of the file. INLAY_OUT_OF_MEMORY is the only failure; whether `to` took it all is the caller's to
 * ask. */
INLAY_NODISCARD inlay_status draw_dot(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag);
INLAY_NODISCARD inlay_status draw_svg(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag);
/* The same picture in a page, with a table of the operators. */
INLAY_NODISCARD inlay_status draw_html(FILE *to, graph_model *model, const graph_model *typed, const char *title,
                                       inlay_diag *diag);
#endif

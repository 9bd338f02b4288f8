/* quantize/metric.h - the metric by which an output of a model is compared unless the user names one. */
#ifndef QUANTIZE_METRIC_H
#define QUANTIZE_METRIC_H
#include "shared/agree.h"
#include "graph/graph.h"

/* The default metric of an output, an index into graph->outputs: equal for integers and booleans; top1 if Softmax makes
 * the output, or if Softmax, ArgMax or TopK reads it, along its rows; iou after Sigmoid; otherwise relative. */
agree_metric agree_metric_of(const struct graph *graph, uint32_t output);
/* May the output hold rows of a CTC decoder: scores of a matrix multiplication, or those of agree_metric_of() top1? */
bool agree_may_be_text(const struct graph *graph, uint32_t output);
#endif

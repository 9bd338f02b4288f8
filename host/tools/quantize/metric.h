/* quantize/metric.h - the metric by which an output of a model is compared unless the user names one. */
#ifndef QUANTIZE_METRIC_H
#define QUANTIZE_METRIC_H
#include "shared/agree.h"
#include "graph/graph.h"

/* The default metric of an output: top1 after Softmax or a matrix multiplication with weights, iou after Sigmoid,
 * otherwise cosine. output is an index into graph->outputs. */
agree_metric agree_metric_of(const struct graph *graph, uint32_t output);
#endif

/* cli/inspect_quant.h - `inlay inspect --quantization`: what a file loses by the way it was quantized, and what to do.
 */
#ifndef CLI_INSPECT_QUANT_H
#define CLI_INSPECT_QUANT_H
#include "model/model.h"
#include <jansson.h>

enum { QUANT_DYNAMIC, QUANT_HALVES, QUANT_DEAD, QUANT_UNUSED, QUANT_SCALE, QUANT_OVERFLOW, QUANT_KINDS };

/* DequantizeLinear of a QuantizeLinear that no kernel on integers reads. */
typedef struct quant_unused {
    const char *node,
        *by; /* names of the model; by: the operator that reads it, NULL where it is the pair's own fault */
    const char *reason;
} quant_unused;

/* What was found of each kind; zero it first, and release it. */
typedef struct quant_report {
    struct {
        uint64_t count, bytes;
        const char *first; /* the model's: the first node or value that has it */
    } found[QUANT_KINDS];
    quant_unused *unused; /* [unused_count] */
    uint32_t unused_count;
} quant_report;

/* Looks at all graphs of a model as it was loaded. false: no memory. */
INLAY_NODISCARD bool quant_look(const graph_model *model, quant_report *out);
/* The pairs of one graph (inspect_pairs.c); what was found is kept in any case. */
INLAY_NODISCARD bool quant_inspect_pairs(const struct graph *graph, quant_report *report);
void quant_release(quant_report *report);
void quant_print(const quant_report *report);
json_t *quant_to_json(const quant_report *report);
#endif

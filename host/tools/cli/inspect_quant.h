/* cli/inspect_quant.h - `inlay inspect --quantization`: losses caused by the quantization of a model, and remedies. */
#ifndef CLI_INSPECT_QUANT_H
#define CLI_INSPECT_QUANT_H
#include "model/model.h"
#include <jansson.h>

enum { QUANT_DYNAMIC, QUANT_HALVES, QUANT_DEAD, QUANT_UNUSED, QUANT_SCALE, QUANT_OVERFLOW, QUANT_KINDS };

/* A DequantizeLinear after a QuantizeLinear whose output no integer kernel consumes. */
typedef struct quant_unused {
    const char *node; /* name, owned by the model */
    const char *by;   /* operator that consumes it; NULL: the fault is in the pair itself */
    const char *reason;
} quant_unused;

/* The findings of each kind. Initialise with zeros; end with quant_release(). */
typedef struct quant_report {
    struct {
        uint64_t count, bytes;
        const char *first; /* name of the first node or value with the finding, owned by the model */
    } found[QUANT_KINDS];
    quant_unused *unused; /* [unused_count] */
    uint32_t unused_count;
} quant_report;

/* Inspects all graphs of a model as it was loaded. false: no memory. */
INLAY_NODISCARD bool quant_inspect(const graph_model *model, quant_report *out);
/* Inspects the pairs of one graph (inspect_pairs.c). The findings so far stay valid after a failure. */
INLAY_NODISCARD bool quant_inspect_pairs(const struct graph *graph, quant_report *report);
void quant_release(quant_report *report);
void quant_print(const quant_report *report);
json_t *quant_to_json(const quant_report *report);
#endif

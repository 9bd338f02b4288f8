/* quantize/qdq.h - activations and weights as integers: QuantizeLinear and DequantizeLinear around what is to be
 * computed with them, which every runtime reads as it is and some as operators on integers. */
#ifndef QUANTIZE_QDQ_H
#define QUANTIZE_QDQ_H
#include "quantize/calibrate.h"
#include "quantize/narrow.h"

/* Where values become bytes. */
typedef enum qdq_placement {
    QDQ_INPUTS, /* what layers read; what else reads the value gets floats */
    QDQ_LAYERS, /* what layers read and make */
    QDQ_ALL,    /* also what stands between layers: sums, products, activations, pools */
    QDQ_PLACEMENTS
} qdq_placement;

/* What a value becomes: bytes from 0 to 255 that mean (byte - zero) * scale. */
typedef struct qdq_range {
    const char *name;
    float low, high;
    const char *kept;    /* why it stays float, or NULL */
    const double *means; /* [channels] of what a layer reads, or NULL: its bias makes good what its weights lose */
    int64_t channels;
} qdq_range;

typedef struct qdq_how {
    qdq_placement placement;
    const qdq_range *ranges; /* [range_count], of all values that qdq_values() names */
    uint32_t range_count;
    bool corrects;     /* the bias of a layer makes good what rounding takes from the mean of its outputs */
    const bool *stays; /* [list->count] layers that stay float besides those that are kept; or NULL */
} qdq_how;

/* The values that may become bytes, in the order in which they are made; memory is a's. The model's values must be
 * declared (model_save_options.with_inferred_shapes). */
INLAY_NODISCARD inlay_status qdq_values(const struct graph *graph, const layer_list *list, struct arena *arena,
                                        calibrate_value **out_values, uint32_t *out_count, inlay_diag *diag);
/* Rewrites the main graph; forms is [list->count]. A layer whose bits are 8 computes with integers. */
INLAY_NODISCARD inlay_status qdq_model(graph_model *model, const layer_list *list, const qdq_how *how,
                                       layer_form *forms, inlay_diag *diag);
#endif

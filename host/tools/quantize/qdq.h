/* quantize/qdq.h - Q/DQ format: puts QuantizeLinear and DequantizeLinear around the operators that compute with
 * integers. Every runtime can run this form; many fuse it into integer kernels. */
#ifndef QUANTIZE_QDQ_H
#define QUANTIZE_QDQ_H
#include "quantize/calibrate.h"
#include "quantize/low_bit.h"

/* Which values are quantized. */
typedef enum qdq_placement {
    QDQ_INPUTS, /* inputs of layers; other readers of the value get floats */
    QDQ_LAYERS, /* inputs and outputs of layers */
    QDQ_ALL,    /* also values between layers: sums, products, activations, pools */
    QDQ_PLACEMENTS
} qdq_placement;

/* The range of a value: codes from 0 to 255 that mean (code - zero) * scale. */
typedef struct qdq_range {
    const char *name;
    float low, high;
    const char *reason;  /* why the value stays float, or NULL */
    const double *means; /* [channels] means of a layer's input, for bias correction; or NULL */
    int64_t channels;
} qdq_range;

typedef struct qdq_options {
    qdq_placement placement;
    const qdq_range *ranges; /* [range_count], for all values that qdq_values() lists */
    uint32_t range_count;
    bool corrects_bias;      /* apply bias correction, see bias.h */
    const bool *stays_float; /* [list->count] additional layers that stay float; or NULL */
} qdq_options;

/* Lists the values that may be quantized, in execution order; memory is the arena's. The model's values must have
 * declared types (model_save_options.with_inferred_shapes). */
INLAY_NODISCARD inlay_status qdq_values(const struct graph *graph, const layer_list *list, struct arena *arena,
                                        calibrate_value **out_values, uint32_t *out_count, inlay_diag *diag);
/* Rewrites the main graph; forms is [list->count]. A layer whose bits are 8 computes with integers. */
INLAY_NODISCARD inlay_status qdq_model(graph_model *model, const layer_list *list, const qdq_options *how,
                                       layer_form *forms, inlay_diag *diag);
#endif

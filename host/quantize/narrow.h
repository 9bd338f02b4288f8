/* quantize/narrow.h - weights of a model in fewer bits; activations stay floats. */
#ifndef QUANTIZE_NARROW_H
#define QUANTIZE_NARROW_H
#include "quantize/edit.h"
#include "quantize/layers.h"

enum { NARROW_LEAST_WEIGHTS = 1024 }; /* smaller ones are not worth a node */
enum { NARROW_EXACT = 1 }; /* float16 where that loses nothing */

/* What is known of the inputs of a layer, by layer; for 4 bits. */
typedef struct layer_moments {
    float *importance; /* [depth] mean squares */
    float *factor;     /* see weights_nibbles_compensated(); NULL: there is none */
} layer_moments;

typedef struct narrow_how {
    uint32_t bits;     /* 4, 8, 16 (float16) or NARROW_EXACT */
    uint32_t block;    /* weights that share a scale, of 4 bits: 16, 32, 64, 128 or 256 */
    bool nbits;        /* com.microsoft's MatMulNBits instead of DequantizeLinear, of 4 bits */
    const layer_moments *moments; /* [list.count], or NULL */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *progress_user;
} narrow_how;

/* What became of each layer. */
typedef struct layer_form {
    uint32_t bits;  /* 32: it stays */
    uint64_t bytes; /* of the weights in the file, scales included */
    const char *kept; /* why it stays, or has more bits than asked for; or NULL */
} layer_form;

/* The weights as signed bytes with a DequantizeLinear: what that makes, or INLAY_NONE without memory. *out_scales are
 * those of the channels, the model's. */
uint32_t narrow_bytes(editor *e, const layer *l, const float *weights, const float **out_scales, layer_form *form);
/* The opset that the model must import for that. */
int64_t narrow_opset(const narrow_how *how);
/* Rewrites the layers of the list that are not kept; forms is [list->count]. The model is finished again. */
INLAY_NODISCARD inlay_status narrow_model(graph_model *model, const layer_list *list, const narrow_how *how,
                                          layer_form *forms, inlay_diag *diag);
#endif

/* quantize/low_bit.h - stores the weights of a model in fewer bits; activations stay floats. */
#ifndef QUANTIZE_LOW_BIT_H
#define QUANTIZE_LOW_BIT_H
#include "modelkit/edit.h"
#include "quantize/layers.h"
#include "quantize/weights.h"

enum { LOW_BIT_MIN_WEIGHTS = 1024 }; /* smaller weights are not worth an extra node */
/* Values of quantize_args.bits that are not numbers of bits. */
enum {
    LOW_BIT_EXACT = 1, /* float16 where that loses nothing */
    LOW_BIT_MIXED = 2  /* 4 or 8 bits, chosen layer by layer (mixed.h); low_bit_options.bits is then 4 */
};

/* The 4-bit codes of a layer's weights, [rows, depth], with a scale and a zero point for each block. */
struct nibbles {
    weight_rows rows; /* rows.weights is NULL */
    uint8_t *codes, *zeros;
    float *scales;
    double loss, energy; /* squared error of the layer's outputs, and squared outputs; 0 = unknown */
};
void nibbles_free(struct nibbles *nibbles);

typedef struct low_bit_options {
    uint32_t bits;               /* 4, 8, 16 (float16) or LOW_BIT_EXACT */
    const uint8_t *bits_of;      /* [list.count] overrides bits for each layer, 32: stays float; or NULL */
    struct nibbles *known;       /* [list.count] cache of codes, filled on first use; or NULL */
    uint32_t block;              /* weights that share a scale, with 4 bits: 16, 32, 64, 128 or 256 */
    bool nbits;                  /* with 4 bits: MatMulNBits of com.microsoft instead of DequantizeLinear */
    const weight_inputs *inputs; /* [list.count] input statistics of the layers, for 4 bits; or NULL */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *progress_user;
} low_bit_options;

/* The result for one layer. */
typedef struct layer_form {
    uint32_t bits;      /* 32: unchanged float */
    uint64_t bytes;     /* of the weights in the file, scales included */
    const char *reason; /* why the layer stays float, or has more bits than requested; or NULL */
} layer_form;

/* int8 weights; memory is the model's. */
typedef struct int8_weights {
    const int8_t *codes;
    const float *scales; /* [channels] */
} int8_weights;

/* Adds int8 weights and a DequantizeLinear; returns its output, or INLAY_NONE when out of memory. */
uint32_t low_bit_int8(struct editor *editor, const struct layer *layer, const float *weights, int8_weights *out_bytes,
                      layer_form *form);
/* Is the weight the matrix of a MatMul or Gemm, as 4 bits require? */
bool low_bit_is_matrix(const struct layer *layer);
/* The opset that the rewritten model must import. */
int64_t low_bit_opset(const low_bit_options *how);
/* Rewrites the layers of the list that are not excluded; forms is [list->count]. The model is consistent again
 * afterwards. */
INLAY_NODISCARD inlay_status low_bit_model(graph_model *model, const layer_list *list, const low_bit_options *how,
                                           layer_form *forms, inlay_diag *diag);
#endif

/* quantize/narrow.h - weights of a model in fewer bits; activations stay floats. */
#ifndef QUANTIZE_NARROW_H
#define QUANTIZE_NARROW_H
#include "modelkit/edit.h"
#include "quantize/layers.h"
#include "quantize/weights.h"

enum { NARROW_LEAST_WEIGHTS = 1024 }; /* smaller ones are not worth a node */
enum {
    NARROW_EXACT = 1, /* float16 where that loses nothing */
    NARROW_MIXED = 2
}; /* 4 bits or 8, layer by layer (mixed.h); narrow_how.bits is 4 then */

/* The codes of a layer's weights in 4 bits, [rows, depth], with a scale and a zero point for each block. */
struct nibbles {
    weight_rows rows; /* m.w is gone */
    uint8_t *codes, *zeros;
    float *scales;
    double loss, energy; /* squares by which the layer's outputs are off, and of the outputs; 0 = not known */
};
void nibbles_free(struct nibbles *nibbles);

typedef struct narrow_how {
    uint32_t bits;               /* 4, 8, 16 (float16) or NARROW_EXACT */
    const uint8_t *bits_of;      /* [list.count] instead, 32 for a layer that stays; or NULL */
    struct nibbles *known;       /* [list.count] codes that were found before, kept for the next time; or NULL */
    uint32_t block;              /* weights that share a scale, of 4 bits: 16, 32, 64, 128 or 256 */
    bool nbits;                  /* com.microsoft's MatMulNBits instead of DequantizeLinear, of 4 bits */
    const weight_inputs *inputs; /* [list.count] what is known of what layers read, for 4 bits; or NULL */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *progress_user;
} narrow_how;

/* What became of each layer. */
typedef struct layer_form {
    uint32_t bits;    /* 32: it stays */
    uint64_t bytes;   /* of the weights in the file, scales included */
    const char *kept; /* why it stays, or has more bits than asked for; or NULL */
} layer_form;

/* Weights as signed bytes; memory is the model's. */
typedef struct narrowed_bytes {
    const int8_t *codes;
    const float *scales; /* of the channels */
} narrowed_bytes;

/* The weights as signed bytes with a DequantizeLinear: what that makes, or INLAY_NONE without memory. */
uint32_t narrow_bytes(struct editor *editor, const struct layer *layer, const float *weights, narrowed_bytes *out_bytes,
                      layer_form *form);
/* Is it a matrix that MatMul or Gemm multiplies by, as 4 bits need it? */
bool narrow_is_matrix(const struct layer *layer);
/* The opset that the model must import for that. */
int64_t narrow_opset(const narrow_how *how);
/* Rewrites the layers of the list that are not kept; forms is [list->count]. The model is finished again. */
INLAY_NODISCARD inlay_status narrow_model(graph_model *model, const layer_list *list, const narrow_how *how,
                                          layer_form *forms, inlay_diag *diag);
#endif

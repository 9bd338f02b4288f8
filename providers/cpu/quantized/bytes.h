/* bytes.h - int8 convolutions and GEMMs by built-in kernels (byte_set.h): tiled convolutions (quant_tiles.c), GEMMs
 * (quant_rows.c) and depthwise convolutions (quant_depthwise.c).
 *
 * Integer sums never saturate, so results have the same bits with every instruction set, and QLinearConv equals ONNX to
 * the last bit. (vpmaddubsw, which other runtimes use without VNNI, saturates.) */
#ifndef CPU_BYTES_H
#define CPU_BYTES_H
#include "cpu/quantized/byte_set.h"
#include "cpu/choice/kernels.h"
#include "cpu/quantized/quantize.h"
#include "cpu/convolution/tiles.h"

/* Returns the kernel of matrix tiles, if this process may use it and it is faster than the kernel of the byte_set for
 * these numbers of rows, taps, quads and columns; otherwise NULL. */
const byte_tiles *bytes_tiles_for(int64_t rows, int64_t taps, int64_t quads, int64_t columns);
/* The operations of a product of `rows` rows above which several threads share it. */
double bytes_alone_flops(double rows);
/* The text of `inlay explain` on a kernel: `text`, or why this process may not use the tiles that the CPU has. */
const char *bytes_why(const char *text);

/* Can a built-in kernel run this convolution with constant weights? Called by the parser; sets the reason if not. */
bool bytes_offers_conv(const kit_node *node, const cpu_op *op, kit_refusal *why);
/* Lowers the QLinearConv or ConvInteger being lowered to built-in kernels. *out_done = false: there is no kernel for
 * it, and nothing was emitted. */
inlay_status bytes_lower_conv(cpu_build *build, const cpu_group *group, bool *out_done);
/* bytes_runs_conv: does a built-in kernel support the op? bytes_takes_posts: does the kernel's epilogue support all
 * posts of the group (quant_floats.c)? */
bool bytes_runs_conv(const cpu_build *build, const cpu_op *op);
bool bytes_takes_posts(const cpu_build *build, const cpu_group *group);

/* GEMM of bytes [m, k] by a matrix [k, n], read as int8 (quant_rows.c). A constant one is packed once, a computed one
 * in each run. */
typedef struct bytes_product {
    const byte_set *set;
    const byte_tiles *tiles; /* used instead of set->multiply; NULL: not */
    int64_t m, k, n, quads;
    int64_t room;             /* elements of the arrays of a byte_ending: n, rounded up */
    int64_t row_tiles, block; /* tiles of rows, and of a unit */
    int64_t panels, chunk;    /* panels of columns, and of a unit */
    bool is_signed;
    int64_t packed_bytes; /* of the packed matrix, which ends with the sums */
    int32_t offset;       /* what the kernel adds to the bytes */
} bytes_product;

/* Takes over the results of columns [column, + count) of a row, at most BYTES_MOST_RESULTS; may change them. */
typedef void bytes_row_fn(const void *user, int64_t row, int64_t column, int64_t count, void *results);
enum { BYTES_MOST_RESULTS = 256 };

/* The results of a run: BYTE_FLOATS or BYTE_SUMS. finish gets them; NULL: they are stored in output[m][n]. */
typedef struct bytes_results {
    byte_ending ending;
    void *output;
    bytes_row_fn *finish;
    const void *user;
} bytes_results;

/* bytes_offer_product: can the kernel run the node with this matrix? bytes_init_product: of the instance being built; a
 * step has the place and *out_weights among its arguments, and passes them to bytes_run_product as x and w.
 * *out_weights is the packed constant, or the computed matrix, row-major; w then is memory of packed_bytes that
 * bytes_pack_matrix wrote. */
bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why);
inlay_status bytes_init_product(cpu_build *build, const cpu_place *place, uint32_t weights, int64_t m, int64_t k,
                                int64_t n, cpu_place *out_weights, bytes_product *out);
inlay_status bytes_run_product(const bytes_product *product, const cpu_state *state, inlay_run *run, uint32_t threads,
                               const void *x, const void *w, const bytes_results *results);
/* Packs panels [first, past) of a matrix, and the sums of their columns. is_unsigned: 128 is subtracted. */
void bytes_pack_matrix(const bytes_product *product, const void *matrix, bool is_unsigned, int64_t first, int64_t past,
                       void *packed);
/* The sums of the columns of a packed matrix: [room]. */
const int32_t *bytes_matrix_sums(const bytes_product *product, const void *packed);

enum {
    BYTES_X,
    BYTES_W,
    BYTES_Y,
    BYTES_OTHERS
}; /* arguments of steps; from BYTES_OTHERS on: operands of the epilogue */

/* The epilogue of sums that become floats. */
typedef struct bytes_floats {
    tile_epilogue epilogue;
    uint32_t operand_count;
    const tile_set *set;
    const sgemm_kernel *kernel;
    bool quantizes, y_signed;
    float y_scale, y_zero;
} bytes_floats;

/* Must the kernel write to a temporary buffer, because an epilogue follows? */
static inline bool bytes_has_more(const bytes_floats *floats)
{
    return floats->epilogue.post_count > 0 || floats->quantizes;
}

/* An int8 convolution during lowering. */
typedef struct bytes_case {
    kernel_conv_shape window;
    byte_kind kind;
    uint32_t w_value;      /* the weights */
    tensor_layout weights; /* layout of the original with an axis for groups, as int8 */
    cpu_place input;
    float *scale, *shift; /* [out] of BYTE_FLOATS */
    bytes_floats floats;
    cpu_place others[CPU_MAX_POSTS];
    uint32_t posts;      /* BYTE_FLOATS: the number of following operators (posts) that the step also computes */
    uint8_t border;      /* the padding of the image, as stored */
    int32_t x_zero;      /* the zero point of x */
    int32_t x_offset;    /* what the kernel adds to x */
    bool computes_zero;  /* the zero point is computed in the run: `zero`, as stored; border and x_zero are 0 */
    bool computes_first; /* the initial values of sums are computed in the run: `first`, [channels] */
    cpu_place zero, first;
    const cpu_group *group;
} bytes_case;

/* The inputs of byte_ending for all channels. scales and biases point into the model's constants, which are not
 * aligned. */
typedef struct bytes_ends {
    const char *scales, *biases; /* biases NULL: no bias */
    int64_t scale_step;          /* bytes between scales; 0: one for all channels */
    double factor;               /* multiplies each scale */
    const float *scale, *shift;  /* BYTE_FLOATS: used instead of the above */
    byte_kind kind;
    uint32_t x_zero;
} bytes_ends;
/* Are all scales of sums below 1? With larger ones, sums might leave the range of int32. */
bool bytes_scales_fit(const cpu_op *op, const char *scales, int64_t count);
inlay_status bytes_ends_of(cpu_build *build, const bytes_case *layer, bytes_ends *out);
/* Computes the elements of byte_ending for one channel. sum: of the weights of its filter. */
void bytes_end_channel(const bytes_ends *ends, int64_t channel, int32_t sum, int32_t *out_first, float *out_scale,
                       float *out_shift);
/* bytes_read_posts reads scale, shift and posts into layer; bytes_result allocates the step's result; bytes_emit emits
 * the step. */
inlay_status bytes_read_posts(cpu_build *build, bytes_case *layer);
inlay_status bytes_result(cpu_build *build, const bytes_case *layer, cpu_place *out);
inlay_status bytes_emit(cpu_build *build, const bytes_case *layer, const cpu_place *weights, const cpu_place *output,
                        cpu_native *native);
/* Applies the epilogue to c[rows][columns], the block of pixels [pixel, + rows) and channels [column, + columns), and
 * stores the result in output, whose rows are y_pixel elements apart. */
void bytes_finish(const bytes_floats *floats, void *const *args, float *c, int64_t pixel, int64_t rows, int64_t column,
                  int64_t columns, void *output, int64_t y_pixel);
/* Sets the members of byte_ending that are the same for all channels: zero point, bounds, sign. */
void bytes_end(const cpu_build *build, const bytes_case *layer, byte_ending *out);
/* The index of the argument with layer->first. */
static inline uint32_t bytes_first_arg(const bytes_case *layer)
{
    return BYTES_OTHERS + layer->floats.operand_count;
}
/* Emits a step that computes layer->first, `room` elements for each group of the convolution, from the zero point, the
 * sums of the filters, and the bias. sums: as many for each group, sum_step apart; they must outlive the instance. */
inlay_status bytes_emit_first(cpu_build *build, bytes_case *layer, const int32_t *sums, int64_t sum_step, int64_t room);
/* Replaces layer->input by a padded copy: channels last, their number rounded up to a multiple of 4. layer->window gets
 * the size of the copy (quant_border.c). */
inlay_status bytes_add_border(cpu_build *build, bytes_case *layer);
static inline int64_t bytes_in_fours(int64_t channels)
{
    return (channels + 3) / 4 * 4;
}
/* Depthwise convolutions (quant_depthwise.c). */
bool bytes_depthwise_runs(const byte_set *set, const kernel_conv_shape *window);
inlay_status bytes_lower_depthwise(cpu_build *build, const bytes_case *layer);
/* The kernels for tiles by the constant `value`. plain: its dims [out, in, ...] and strides, without groups. Weights
 * are checked once (quant_pairs.c). */
const byte_set *bytes_set_for(const cpu_build *build, uint32_t value, const tensor_layout *plain);
/* The packed layout of weights [out, in of a group, ...] for tiles: for each group, for each panel of its output
 * channels (the last may have fewer vectors), for each tap of the window, for each four input channels:
 * [lines * lanes][4], or [2][lines * lanes][2] if inputs are widened; then the sum of each filter of the group. It has
 * six axes, unlike all layouts of convolution weights; the first dim is the number of groups, the fourth identifies the
 * kernel. false: too large. */
bool bytes_tiles_layout(const byte_set *set, const tensor_layout *weights, int64_t groups, tensor_layout *layout);
/* The sums of the first group. */
const int32_t *bytes_tiles_sums(const tensor_layout *layout, const void *packed);
/* Packers (packs.h) for the layouts of tiled and depthwise convolutions. */
bool bytes_pack_tiles(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target);
bool bytes_pack_depthwise(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target);
#endif

/* tiles.h - convolutions of our own, for images whose channels lie next to each other (channels last).
 *
 * A convolution is a product of pixels by channels. The product is made of tiles: up to TILE_ROWS pixels by up to
 * TILE_WIDTH output channels, whose sums stay in registers. What a library of primitives can't do, tiles can: they read
 * and write images whose pixels are further apart than they are wide (parts of a concatenation), they add a residual
 * that lies elsewhere, fetch the weights of the next tile while they multiply, and need no code to be generated.
 *
 * The loops over vectors are kernels (tile_set.h); tiles_direct.c has convolutions as they are written,
 * tiles_winograd.c those of 3x3 by Winograd's algorithm, and tiles_error.c how far that is off. Where there are no
 * kernels for the CPU, oneDNN's convolutions are all there are. */
#ifndef CPU_TILES_H
#define CPU_TILES_H
#include "choice/kernels.h"
#include "choice/winograd_accuracy.h"
#include "matrix/sgemm.h"
#include "convolution/tile_set.h"

/* A function that is applied to what was made. */
typedef struct tile_post {
    sgemm_post post;
    uint32_t arg; /* which argument of the step is the other operand; INLAY_NONE */
} tile_post;

/* NULL: this CPU has none that are faster than the library's. */
const tile_set *tiles_of_cpu(void);

/* How an image lies: floats between images, rows and pixels. */
typedef struct tile_image {
    int64_t image, row, pixel;
} tile_image;

/* What both kinds of convolution do with their results, as numbers of arguments of the step; INLAY_NONE: none. */
typedef struct tile_ending {
    uint32_t bias, add;
    int64_t add_pixel;
    bool clamp; /* into [low, high], ahead of the posts */
    float low, high;
    uint32_t post_count;
    tile_post posts[CPU_MAX_POSTS];
} tile_ending;

/* Applies the posts to rows of pixels from number `pixel` on, columns [column, column + columns). */
void tiles_end(const tile_set *set, const sgemm_kernel *kernel, const tile_ending *ending, void *const *args, float *c,
               int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column, int64_t columns);

/* Weights of Winograd's: [points^2][panels][channels][TILE_WIDTH], as layout and from the original. */
bool tiles_window_layout(int64_t points, int64_t in, int64_t out, memory_desc *md);
/* Is md such a layout for weights that lie as `plain` says? Then they are made here. */
bool tiles_window_weights(const cpu_state *state, inlay_run *run, const memory_desc *plain, const void *source,
                          const memory_desc *md, void *target);

/* Lowers the convolution of the group: as it is written, as one of single channels, as one product of matrices (in
 * pairs, pairs.h), or by Winograd's algorithm with so many points. What each is for is for the caller to know
 * (kernels.c). */
enum { TILES_PAIRS = -2, TILES_GEMM = -1, TILES_WRITTEN = 0, TILES_DEPTHWISE = 1 };
inlay_status tiles_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, int64_t points);

/* Of a core with AVX-512, in nanoseconds: a tile, and each row of weights in it. */
#define TILE_NS 20.0
#define DEPTH_NS 3.66

/* How the tiles of a convolution, rows of pixels by panels of weights, are cut into units for threads. */
typedef struct tiles_cut {
    int64_t block, chunk; /* tiles and panels of a unit */
    double ns;            /* expected, until the last thread is done */
} tiles_cut;
/* tile_bytes: what a tile reads of the image; depth: rows of weights in a panel. */
void tiles_find_cut(int64_t tiles, int64_t tile_bytes, int64_t panels, int64_t depth, uint32_t threads, tiles_cut *out);

/* A product of an image by one factor for each channel, read by nothing but a pointwise convolution: *out_done, and the
 * convolution multiplies its weights instead, if there are fewer of them. */
inlay_status tiles_take_scale(cpu_build *build, const cpu_group *group, bool *out_done);
/* The part of a concatenation that the value will be; *out_found is false: it will be none, or it is copied. */
inlay_status tiles_home(cpu_build *build, uint32_t value, cpu_place *out, bool *out_found);
bool tiles_has_home(const cpu_build *build, uint32_t value);
/* A concatenation some of whose parts are at home already; *out_done is false where none is. */
inlay_status tiles_concat(cpu_build *build, const cpu_group *group, bool *out_done);
/* Weights in panels times the factors; *weights becomes the product. */
inlay_status tiles_scale_weights(cpu_build *build, uint32_t scale, int64_t in, cpu_place *weights);
/* The ending of a group that has nothing but functions of one operand behind it, without its bias; false: it has. */
bool tiles_functions(const cpu_group *group, tile_ending *out);
/* Is it Relu or Clip, which right behind the sums are done in registers? *out then clamps. */
bool tiles_clamps(const cpu_eltwise *eltwise, tile_ending *out);
/* Weights in panels: [out / TILE_WIDTH][window][in][TILE_WIDTH]. */
bool tiles_panel_layout(const memory_desc *weights, memory_desc *md);
/* Convolutions of single channels (depthwise.c): can they run, may their input be made on the way, and the step.
 * places: x, none yet, y, the ending's, and room for DEPTHWISE_PLACES more. */
enum { DEPTHWISE_PLACES = 3 };
bool depthwise_makes(const kernel_conv_shape *window);
bool depthwise_runs(const cpu_build *build, const kernel_layer *layer);
inlay_status depthwise_emit(cpu_build *build, const kernel_layer *layer, const tile_ending *ending,
                            const cpu_place **places, uint32_t count);
/* The same of images that lie row by row, where nobody wants them otherwise (planes.c). */
bool planes_run(const cpu_build *build, const kernel_layer *layer);
inlay_status planes_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* Any groups but such, as products of weights and windows (conv_rows.c). */
bool conv_rows_run(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
inlay_status conv_rows_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* As it is written (tiles_direct.c): places are x, none yet, y, the ending's, and room for one more. */
enum { TILES_X, TILES_W, TILES_Y, TILES_OTHERS };
inlay_status tiles_lower_direct(cpu_build *build, const cpu_op *op, const kernel_layer *layer,
                                const tile_ending *ending, const cpu_place **places, uint32_t count);
/* Winograd's with this many points (4, 6). input: channels last. */
inlay_status tiles_lower_window(cpu_build *build, const cpu_op *op, int64_t points, const cpu_place *input,
                                const memory_desc *weights, const tile_ending *ending, const cpu_place *const *operands,
                                uint32_t operand_count, const cpu_place *output);
/* A product (tiles_gemm.c), as written or in pairs. x: as tiles_lie_well says, any number of axes. */
/* The share of the window's rows that it multiplies by: those that meet the image for none of a block of pixels are
 * left out. */
double tiles_gemm_share(const kernel_conv_shape *window);
inlay_status tiles_lower_gemm(cpu_build *build, const kernel_layer *layer, bool paired, const cpu_place *input,
                              const tile_ending *ending, const cpu_place *const *operands, uint32_t operand_count,
                              const cpu_place *output);
#endif

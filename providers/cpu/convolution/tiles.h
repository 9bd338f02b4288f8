/* tiles.h - convolutions of channels-last images.
 *
 * A convolution is a GEMM of pixels by channels, computed in register-blocked tiles: up to TILE_ROWS pixels by up to
 * TILE_WIDTH output channels, whose sums stay in registers. Tiled kernels read and write images
 * with gaps between pixels (slices of a concatenation), add a residual from another buffer, and prefetch the weights of
 * the next tile.
 *
 * The loops over vectors are in tile_set.h; tiles_direct.c has direct convolutions, tiles_winograd.c those of 3x3 by
 * Winograd's algorithm, and tiles_error.c the measurement of its error. */
#ifndef CPU_TILES_H
#define CPU_TILES_H
#include "cpu/choice/kernels.h"
#include "cpu/weights/winograd_accuracy.h"
#include "cpu/matrix/terms.h"
#include "cpu/convolution/tile_set.h"

/* A post-op of the epilogue. */
typedef struct tile_post {
    sgemm_post post;
    uint32_t arg; /* the step's argument with the other operand; INLAY_NONE: none */
} tile_post;

/* The kernels for this CPU; NULL: left out of a program of `inlay bundle`. */
const tile_set *tiles_of_cpu(void);

/* Layout of an image: floats between images, rows and pixels. */
typedef struct tile_image {
    int64_t image, row, pixel;
} tile_image;

/* The epilogue of a tiled convolution. bias and add are numbers of the step's arguments; INLAY_NONE: none. */
typedef struct tile_epilogue {
    uint32_t bias, add;
    int64_t add_pixel;
    bool clamp; /* into [low, high], before the posts */
    float low, high;
    uint32_t post_count;
    tile_post posts[CPU_MAX_POSTS];
} tile_epilogue;

/* Applies the post-ops to rows of pixels from number `pixel` on, columns [column, column + columns). */
void tiles_apply_epilogue(const tile_set *set, const sgemm_kernel *kernel, const tile_epilogue *epilogue,
                          void *const *args, float *c, int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column,
                          int64_t columns);

/* Layout of Winograd weights: [points^2][panels][channels][TILE_WIDTH]. false: the layout is impossible. */
bool tiles_winograd_layout(int64_t points, int64_t in, int64_t out, tensor_layout *layout);
/* Transforms weights of layout `plain` if layout is a layout of Winograd weights; otherwise returns false. */
bool tiles_winograd_weights(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                            const tensor_layout *layout, void *target);

/* Lowers the convolution of the group: directly, as depthwise convolution, as one GEMM, or by Winograd's algorithm with
 * this many points. The caller must know which of these can run (kernels/table.c). */
enum { TILES_TERMS = -2, TILES_GEMM = -1, TILES_DIRECT = 0, TILES_DEPTHWISE = 1 };
inlay_status tiles_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, int64_t points);

/* On a core with AVX-512, in nanoseconds: for a tile, and for each row of weights in it. */
#define TILE_NS 20.0
#define DEPTH_NS 3.66

/* Division of a convolution's tiles (rows of pixels by panels of weights) into units for threads. */
typedef struct tiles_cut {
    int64_t block, chunk; /* tiles and panels of a unit */
    double ns;            /* expected time until the last thread ends */
} tiles_cut;
/* tile_bytes: bytes of the image that a tile reads; panels: a last one that is not full may count as a part of one;
 * depth: rows of weights in a panel. */
void tiles_find_cut(int64_t tiles, int64_t tile_bytes, double panels, int64_t depth, uint32_t threads, tiles_cut *out);

/* cpu_family.defer_scale of convolutions: pointwise ones scale their weights. */
inlay_status tiles_defer_scale(cpu_build *build, const cpu_group *group, uint32_t reader, bool *out_done);
/* Finds the slice of a concatenation that the value will be written into. *out_found is false if there is none, or if
 * the value must be copied. */
inlay_status tiles_concat_slice(cpu_build *build, uint32_t value, cpu_place *out, bool *out_found);
bool tiles_is_concat_slice(const cpu_build *build, uint32_t value);
/* Lowers a concatenation if some of its inputs were written in place; *out_done is false otherwise. */
inlay_status tiles_concat(cpu_build *build, const cpu_group *group, bool *out_done);
/* Multiplies packed weights by the factors of the input channels; *weights becomes the product. */
inlay_status tiles_scale_weights(cpu_build *build, uint32_t factors, int64_t in, cpu_place *weights);
/* The epilogue of the group's first post-ops, as many as have one operand and can be fused, without its bias. Returns
 * their number. */
uint32_t tiles_fuse_unary(const cpu_group *group, tile_epilogue *out);
/* The epilogue of a group whose post-ops have one operand only, without its bias. false: other post-ops. */
bool tiles_unary_epilogue(const cpu_group *group, tile_epilogue *out);
/* True for Relu and Clip, which are applied in registers if they come first. Sets the clamp of *out. */
bool tiles_fuse_clamp(const cpu_unary *unary, tile_epilogue *out);
/* Layout of weights in panels: [out / TILE_WIDTH][window][in][TILE_WIDTH]. */
bool tiles_panel_layout(const tensor_layout *weights, tensor_layout *layout);
/* Depthwise convolutions (lower_depthwise.c): whether they can run, whether they support a deferred producer, and the
 * step. places: x, unset, y, the epilogue's, and space for DEPTHWISE_PLACES more. */
enum { DEPTHWISE_PLACES = 3 };
bool depthwise_supports_producer(const kernel_conv_shape *window);
bool depthwise_fits(const cpu_state *state, const kernel_conv_shape *window);
/* True for other convolutions with few channels in a group, which the same step computes. */
bool depthwise_fits_groups(const cpu_state *state, const kernel_conv_shape *window);
/* Time of a vector of outputs. */
double depthwise_vector_ns(const kernel_conv_shape *window, const struct kernel_machine *machine);
/* Time of a depthwise convolution with its deferred producer, `first`, without their activations. */
double kernel_fused_depthwise_ns(const kernel_conv_shape *first, const kernel_conv_shape *depthwise,
                                 const struct kernel_machine *machine, double threads);
inlay_status depthwise_emit(cpu_build *build, const kernel_layer *layer, const tile_epilogue *epilogue,
                            const cpu_place **places, uint32_t count);
/* A grouped convolution (groups.c). *out_done = false: the CPU has no such kernels. */
inlay_status cpu_lower_groups(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
/* Depthwise convolutions of row-major images (lower_planes.c). planes_is_long: whether the kernel has so
 * many taps that another loop computes it, also for a single channel. */
bool planes_is_long(const kernel_conv_shape *window);
/* Whether it reads single pixels, in place, for groups of few weights. */
bool planes_is_single(const kernel_conv_shape *window);
bool planes_fit(const cpu_state *state, const kernel_conv_shape *window);
bool planes_run(const cpu_build *build, const kernel_layer *layer);
inlay_status planes_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* Convolutions of row-major images by the fast Fourier transform (lower_fft.c). */
typedef struct fft_cut {
    int64_t rows, columns;   /* of a block; the samples of one dimension are rows * columns */
    int64_t valid[2];        /* rows and columns of results of a block */
    int64_t across;          /* blocks along a row of the image */
    int64_t blocks, pairs;   /* of an image; a pair is one complex block */
    int64_t slice, slices;   /* pairs that share the transform of a filter; slices of an image */
    int64_t inputs, filters; /* channels, and output channels, that are multiplied at once */
    int64_t kept;            /* pairs whose sums are kept until all channels are added */
    bool alone;              /* groups of one input channel: threads share the slices, not the steps within */
} fft_cut;
/* Chooses the fastest blocks. Returns the time on one core in nanoseconds; infinity: there are none. */
double fft_find_cut(const kernel_conv_shape *window, fft_cut *out);
/* Whether the convolution can be computed by FFT: stride 1, no dilation, pads of at most half the kernel. */
bool fft_applies(const kernel_conv_shape *window);
bool fft_runs(const cpu_build *build, const kernel_layer *layer, const char **out_why);
inlay_status fft_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* Measures the error of the FFT with FFT_POINTS (fft_error.c); a winograd_measure. plain: the layout that
 * kernel_filters() writes. */
bool fft_measure_accuracy(const cpu_state *state, const tensor_layout *plain, const void *source, int64_t points,
                          winograd_accuracy *out);
/* Other convolutions of row-major images with any number of groups, as GEMM (conv_rows.c). */
bool conv_rows_fit(const cpu_state *state, const kernel_conv_shape *window);
bool conv_rows_run(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* True if it reads the image in place: for single pixels without border and stride. */
bool conv_rows_reads_in_place(const kernel_conv_shape *window);
inlay_status conv_rows_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* Direct convolution (tiles_direct.c). places: x, unset, y, the epilogue's, and space for one more. */
enum { TILES_X, TILES_W, TILES_Y, TILES_OPERANDS };
inlay_status tiles_lower_direct(cpu_build *build, const cpu_op *op, const kernel_layer *layer,
                                const tile_epilogue *epilogue, const cpu_place **places, uint32_t count);
/* Replaces the input by a channels-last copy with a border of zeros; *window gets the size of the copy. */
inlay_status tiles_add_border(cpu_build *build, kernel_conv_shape *window, cpu_place *input);
/* A direct convolution that reads no pixel outside of its input. Offsets and steps count floats of the input. The
 * weights are panels [channels / TILE_WIDTH][tap_rows][tap_columns][depth][TILE_WIDTH]. */
typedef struct tiles_window {
    int64_t images, rows, columns, channels; /* of the output */
    tile_image in, out;                      /* in: for one step of the output */
    int64_t depth, tap_rows, tap_columns;    /* depth: contiguous floats of a tap */
    int64_t first_tap, tap_row, tap_column;  /* offset of the first tap; steps to the next tap, may be negative */
    bool low_bit;                            /* the weights are low-bit ones, packed by low_bit_read_pack */
} tiles_window;
inlay_status tiles_emit_direct(cpu_build *build, const tiles_window *window, const tile_epilogue *epilogue,
                               const cpu_place **places, uint32_t count);
/* Winograd's algorithm with this many points (4, 6). input: channels-last. */
inlay_status tiles_lower_winograd(cpu_build *build, const cpu_op *op, int64_t points, const cpu_place *input,
                                  const tensor_layout *weights, const tile_epilogue *epilogue,
                                  const cpu_place *const *operands, uint32_t operand_count, const cpu_place *output);
/* Measures the error of Winograd's algorithm (tiles_error.c); a winograd_measure. */
bool winograd_measure_accuracy(const cpu_state *state, const tensor_layout *plain, const void *source, int64_t points,
                               winograd_accuracy *out);
/* The share of the kernel's rows that the GEMM multiplies: rows that are outside the image for a whole block of pixels
 * are skipped. */
double tiles_gemm_share(const kernel_conv_shape *window);
/* One GEMM (tiles_gemm.c). terms: by matrix tiles (terms.h); NULL: of floats. input: of tileable layout
 * (tiles_accept_layout), with any number of axes. */
inlay_status tiles_lower_gemm(cpu_build *build, const kernel_layer *layer, const terms_set *terms,
                              const cpu_place *input, const tile_epilogue *epilogue, const cpu_place *const *operands,
                              uint32_t operand_count, const cpu_place *output);
#endif

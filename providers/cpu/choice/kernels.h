/* kernels.h - choice of the kernel that runs a convolution or a matrix multiplication.
 *
 * Most layers can run by several kernels. The table (kernels/table.c) holds for each kernel its name, its condition,
 * a model of its time and its lowering. The choice follows the model, or the times that `inlay tune` measured within
 * the region (extension inlay.kernels/1, compile/tune.c). The instance keeps the chosen kernel and the runners-up for
 * `inlay explain --kernels`. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H
#include "cpu/region/build.h"
#include "cpu/weights/winograd_accuracy.h"

/* Shape of a convolution. A convolution of one spatial dimension is treated as an image of height 1. For three
 * dimensions only images, in, out, group, share, flops and padded are valid. */
typedef struct kernel_conv_shape {
    bool flat;   /* one or two spatial dimensions, or single pixels of a volume: all members are valid */
    bool spread; /* the pixels of a volume are read at a stride, and have to be gathered (kernel_gather_pixels()) */
    bool padded;
    bool in_concat; /* the result is written into its slice of a concatenation */
    int64_t images, in, out, group, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    double share; /* share of the kernel taps that lie inside the image, averaged over the output */
    double flops; /* 2 * multiplications, without the taps outside the image */
} kernel_conv_shape;

/* The shape of a convolution [N, C, spatial...] to [N, M, spatial...], whose groups have `depth` input channels. */
void kernel_conv_shape_at(const cpu_op *op, const int64_t *input, const int64_t *output, int64_t depth,
                          kernel_conv_shape *window);
void kernel_conv_shape_of(const cpu_build *build, const cpu_op *op, kernel_conv_shape *window);

/* The same convolution without the kernel taps that lie outside the image for every output pixel, which a strongly
 * dilated kernel may have. The remaining taps stay contiguous in weights of layout [kernel..][in]. A pad of the result
 * may be negative: then it counts input pixels that no tap reads. *out_first: index of the first remaining tap. */
kernel_conv_shape kernel_trim_conv(const kernel_conv_shape *window, int64_t *out_first);

/* A convolution of single pixels at a stride becomes one of the pixels that it reads, without a stride, if its image is
 * row-major or a volume. false: it is no such convolution. */
bool kernel_gather_pixels(kernel_conv_shape *window, bool row_major);

/* The layout of plain weights of the convolution as [out][in of a group][taps], without the axis of groups that layers
 * may have. */
void kernel_filters(const kernel_conv_shape *window, tensor_layout *out);

/* Shape of a matrix multiplication: `batch` times [m, k] by [k, n]. */
typedef struct kernel_gemm_shape {
    bool packed;     /* the second operand is a constant matrix (cpu_is_packed) */
    bool transposed; /* the second operand is stored column by column */
    uint32_t rank;   /* of the result */
    int64_t batch, m, n, k;
} kernel_gemm_shape;

/* The names of kernels, not these numbers, are part of the keys of timings: the order may change. */
typedef enum kernel_id {
    KERNEL_TILES,
    KERNEL_WINOGRAD_4,
    KERNEL_WINOGRAD_2,
    KERNEL_DEPTHWISE,
    KERNEL_PLANES,
    KERNEL_ROWS,
    KERNEL_FFT,
    KERNEL_GROUPS,
    KERNEL_GEMM,
    KERNEL_GEMM_TERMS, /* the same by matrix tiles of bfloat16 (terms.h) */
    KERNEL_PACKED,     /* from here on: matrix multiplications */
    KERNEL_TERMS,      /* the same by matrix tiles of bfloat16 (terms.h) */
    KERNEL_SPARSE,
    KERNEL_BATCHED,
    /* low-bit weights, by mode of nbits_mode; assigned by their lowering, never chosen among others */
    KERNEL_BITS_EXACT,
    KERNEL_BITS_BYTE,
    KERNEL_BITS_FINE,
    KERNEL_BYTES_TILES, /* int8 weights; assigned likewise */
    KERNEL_BYTES_CHANNELS,

    KERNEL_BYTES_ROWS,
    KERNEL_COUNT
} kernel_id;

struct kernel_machine; /* machine.h */

/* A layer to be lowered: a matrix multiplication (gemm) or a convolution (window and the rest). */
typedef struct kernel_layer {
    bool product;
    kernel_gemm_shape gemm;
    kernel_conv_shape window;
    tensor_layout weights, bias; /* descriptors of the original constants */
    uint32_t bias_value;         /* INLAY_NONE: none */
    cpu_place input;             /* buffer and layout of the input */
    bool gathered;               /* the input is a copy of the pixels that the convolution reads */
} kernel_layer;

/* A tiled 1x1 convolution that is deferred to its only consumer, a depthwise convolution. The consumer computes it
 * row by row, so that the intermediate rows stay in the nearest caches. */
typedef struct deferred_producer {
    const cpu_group *group;
    kernel_layer layer;
} deferred_producer;

typedef struct kernel_entry {
    const char *name; /* in keys and explanations */
    int64_t points;   /* Winograd kernels: transform points along an axis; FFT_POINTS; 0: any other kernel */
    /* Convolutions: true if the kernel supports this shape; NULL: its price is not that of a shape alone. */
    bool (*fits)(const cpu_state *state, const kernel_conv_shape *window);
    /* True if the kernel can run the layer. Otherwise *out_why may be set to the reason. */
    bool (*runs)(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
    /* Models of time on `threads` threads: of a convolution without its weights (kernels/model.c), or of a layer whose
     * weights matter. */
    double (*conv_ns)(const kernel_conv_shape *window, const struct kernel_machine *machine, double threads);
    double (*ns)(const cpu_build *build, const kernel_layer *layer, const struct kernel_machine *machine,
                 double threads);
    /* Emits the steps. *out_done is false, and nothing was emitted, if the kernel cannot run the layer after all. */
    inlay_status (*lower)(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
    double gate_ns;            /* time of a fused Sigmoid or Swish for GATE_ELEMENTS elements */
    bool is_strict;            /* adds no more terms in a row than `precision` `strict` allows (sgemm_chain) */
    winograd_measure *measure; /* Winograd and FFT: measures their error; NULL: any other kernel */
    /* Defers the layer to its only consumer if that is expected to be faster; NULL: never. *out_waits: the layer was
     * stored in build->ahead, and nothing was emitted. */
    inlay_status (*defer)(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits);
} kernel_entry;
extern const kernel_entry kernel_table[KERNEL_COUNT];
/* Returns KERNEL_COUNT if no kernel has that name. */
uint32_t kernel_find(const char *name);

/* The candidates for a group in the order of preference. The first one is used. */
enum { KERNEL_BY_MODEL, KERNEL_BY_TIME, KERNEL_BY_OPTION, KERNEL_ONLY };
struct kernel_choice {
    uint32_t op;     /* first op of the group */
    uint32_t count;  /* kernels that can run */
    uint32_t source; /* KERNEL_BY_MODEL ... */
    uint8_t kernel[KERNEL_COUNT];
    /* What the order compares: the predicted mean of one thread and KERNEL_THREADS; by time, what was measured. */
    double ns[KERNEL_COUNT];
    double expected_ns[KERNEL_COUNT]; /* by kernel: predicted for the threads of the instance; 0: unknown */
    /* By kernel: the error of Winograd kernels as measured with the weights; NULL: not measured. */
    const struct winograd_accuracy *accuracies[KERNEL_COUNT];
    const char *why; /* static text, for instance why Winograd was rejected; NULL: none */
    bool moved;      /* the first kernel was put there by a kernel_attempt */
    uint64_t key[2]; /* the layer's part of the keys of timings (kernel_key) */
};
typedef struct kernel_key_words {
    uint64_t word[2];
} kernel_key_words;
/* Hashes everything that influences the relative speed of a layer's kernels: kernel size, shapes, epilogue, layouts
 * of the operands, threads. */
void kernel_layer_key(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, uint64_t out[2]);
/* The key under which the time of a kernel of this layer is stored. */
void kernel_key(const kernel_choice *choice, uint32_t kernel, uint64_t out[2]);
/* A build for tuning. With `find`, each layer takes the best kernel by the times that `find` returns. Without, each
 * layer takes the kernel at position `order` of the model's ranking, unless the model predicts KERNEL_PLAUSIBLE or more
 * times the time of the first kernel. */
typedef struct kernel_attempt {
    uint32_t order;
    double (*find)(void *ctx, const uint64_t key[2]); /* returns nanoseconds, negative: unknown; may be NULL */
    void *ctx;
} kernel_attempt;
#define KERNEL_PLAUSIBLE 3.0
/* Ranks the kernels that can run the layer by their time, measured if it is known, otherwise by the model. The first
 * one is accurate enough. */
inlay_status kernel_rank(cpu_build *build, const cpu_group *group, const kernel_layer *layer,
                         kernel_choice *out_choice);
/* Lowers the layer by the first candidate that succeeds. */
inlay_status kernel_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);

/* Is it a GEMM with a constant matrix, which is packed? */
bool cpu_is_packed(const cpu_build *build, const cpu_op *op);
void kernel_gemm_shape_of(const cpu_build *build, kernel_gemm_shape *product);
/* True if the weights of build->op are low-bit weights that each run expands to float (low_bit.h). */
bool kernel_weights_are_low_bit(const cpu_build *build);
/* True if the input needs no preparation: no deferred channel scales and no deferred producer. */
bool kernel_input_is_ready(const cpu_build *build);
/* Remembers, by content hash, the kernel that the weights of a session were packed for (kernels_packs.c).
 * Thread-safe. */
typedef struct pack_registry pack_registry;
pack_registry *pack_registry_create(void); /* NULL: out of memory */
void pack_registry_destroy(pack_registry *packs);
/* The kernel that the weights of build->op were first packed for. KERNEL_COUNT: none yet, or the weights are small. */
uint32_t kernel_packs_find(const cpu_build *build);
void kernel_packs_note(const cpu_build *build, uint8_t kernel);
/* Appends the choice to the instance. */
inlay_status kernel_remember(cpu_build *build, const kernel_choice *choice);

/* Models of time (kernels_price.c, kernels/model.c), in nanoseconds. The choice must not depend on the number of
 * threads of the instance, because the kernel determines the order of additions, and results are bit-identical for any
 * number of threads. So it is made by the mean of the times on one thread and on KERNEL_THREADS. */
enum { KERNEL_THREADS = 2, GATE_ELEMENTS = 16 };
/* The time of a layer by a kernel. Of a convolution, with fused functions (kernel_entry.gate_ns) and changes of layout:
 * of a row-major input and of a row-major result, for kernels that need channels-last. */
double kernel_layer_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel,
                       const struct kernel_machine *machine, double threads);
double kernel_layer_mean_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel,
                            const struct kernel_machine *machine);

#endif

/* kernels.h - which kernel a convolution, or a product of matrices, runs by.
 *
 * Several can run most of them: the table (kernels/table.c) has each with what it is called, where it runs, what it is
 * expected to take, and how it is lowered. The choice is by that expectation, or by what `inlay tune` measured in the
 * region itself (extension inlay.kernels/1, kernels/tune.c). What was chosen, and what the next best would have taken,
 * stays with the instance, for `inlay explain --kernels`. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H
#include "region/build.h"

/* The convolution in hand. Spatial axes are two; of one dimension, it is a row. Of three dimensions only is_flat is
 * set. */
typedef struct kernel_conv_shape {
    bool flat; /* one or two dimensions: all below holds */
    bool padded;
    bool home; /* its result is a part of a concatenation */
    int64_t images, in, out, group, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    double share; /* of the taps that lie in the image */
    double flops; /* of those, as the sum is written */
} kernel_conv_shape;

void kernel_measure(const cpu_build *build, const cpu_op *op, kernel_conv_shape *out);

/* The same convolution without the taps that lie outside the image for every pixel, as those at the ends of a window
 * with wide gaps may; only so many are left out that the rest follow one another in weights, [kernel..][in]. Pads may
 * become negative: pixels that no window begins or ends with. *out_first: the first tap that is left. */
kernel_conv_shape kernel_trimmed(const kernel_conv_shape *window, int64_t *out_first);

/* The product in hand: `batch` of [m, k] by [k, n]. */
typedef struct kernel_gemm_shape {
    bool packed;   /* by a constant matrix (cpu_is_packed) */
    bool turned;   /* the second operand lies column by column */
    uint32_t rank; /* of the result */
    int64_t batch, m, n, k;
} kernel_gemm_shape;

/* Names of kernels are in keys of what was measured: an order, or a number, may change. */
typedef enum kernel_id {
    KERNEL_TILES,
    KERNEL_WINOGRAD_4,
    KERNEL_WINOGRAD_2,
    KERNEL_DEPTHWISE,
    KERNEL_PLANES,
    KERNEL_ROWS,
    KERNEL_GROUPS,
    KERNEL_LIBRARY,
    KERNEL_BLOCKS,
    KERNEL_LIBRARY_WINOGRAD,
    KERNEL_GEMM,
    KERNEL_PAIRS,
    KERNEL_PACKED, /* from here on: products */
    KERNEL_PAIRED,
    KERNEL_SPARSE,
    KERNEL_INNER,
    KERNEL_PLAIN,
    KERNEL_BATCHED,
    KERNEL_MATMUL,
    KERNEL_BITS_EXACT, /* by weights of a few bits, in the order of nbits_mode; never chosen among others */
    KERNEL_BITS_BYTE,
    KERNEL_BITS_FINE,
    KERNEL_BYTES_TILES, /* of bytes; likewise */
    KERNEL_BYTES_CHANNELS,
    KERNEL_BYTES_LIBRARY,
    KERNEL_BYTES_ROWS,
    KERNEL_COUNT
} kernel_id;

/* What is to be lowered: a product (p), or a convolution (the rest). */
typedef struct kernel_layer {
    bool product;
    kernel_gemm_shape p;
    kernel_conv_shape window;
    memory_desc weights, bias; /* as oneDNN numbers the axes of the original; the bias' */
    library_dims w_dims;
    uint32_t w_rank;
    uint32_t bias_value; /* INLAY_NONE */
    cpu_place input;     /* where the input lies */
} kernel_layer;

/* A convolution by tiles that waits for its only reader, a convolution of single channels, to make its result row by
 * row: what lies between the two never leaves the nearest caches. */
typedef struct kernel_ahead {
    const cpu_group *group;
    kernel_layer layer;
} kernel_ahead;
/* Does it wait? Then it is in build->ahead, and nothing was emitted (kernels/wait.c). */
inlay_status kernel_wait(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_waits);

typedef struct kernel_kernel {
    const char *name; /* in keys and explanations */
    int64_t points;   /* Winograd's: those along an axis, by which its error is known; 0: the sum as written */
    /* Can it run here? *out_why may say why not. */
    bool (*runs)(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
    double (*ns)(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
    /* Emits it; *out_done is false, and nothing was emitted, where it can't after all. */
    inlay_status (*lower)(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
    double gate_ns; /* what Sigmoid or Swish takes behind it, for 16 elements */
    bool is_strict; /* its sums are made in chains of as few terms as precision strict wants (sgemm_chain) */
} kernel_kernel;
extern const kernel_kernel kernel_kernels[KERNEL_COUNT];
/* KERNEL_COUNT: there is none of that name. */
uint32_t kernel_find(const char *name);
/* Options of how numbers are computed (options.c). *out_reduced: products of bfloat16 are asked for. */
void cpu_read_options(cpu_state *state, const inlay_create_args *args, bool *out_reduced);

/* What was chosen for a group, in the order of preference. */
enum { KERNEL_BY_MODEL, KERNEL_BY_TIME, KERNEL_BY_OPTION, KERNEL_ONLY };
struct kernel_choice {
    uint32_t op;     /* the group's first */
    uint32_t count;  /* of those that can run */
    uint32_t source; /* KERNEL_BY_MODEL ... */
    uint8_t kernel[KERNEL_COUNT];
    double ns[KERNEL_COUNT]; /* predicted, or measured */
    const struct tile_trust
        *trusts[KERNEL_COUNT]; /* by kernel, Winograd's: measured with the weights; NULL: not asked */
    const char *why;           /* static text, why not Winograd's for instance; NULL */
    bool moved;                /* the first is what an attempt wants */
    uint64_t key[2];           /* of the layer, without a kernel */
};
typedef struct kernel_key_words {
    uint64_t word[2];
} kernel_key_words;
/* Everything that decides how long the kernels of a layer take beside each other: the window, sizes, what is done
 * behind it, how operands lie, threads. */
void kernel_layer_key(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, uint64_t out[2]);
/* What a kernel of the layer is timed under. */
void kernel_key(const kernel_choice *choice, uint32_t kernel, uint64_t out[2]);
/* What a build that is for timing takes: of each layer the kernel so far down in the model's order, where it is not
 * expected to take KERNEL_PLAUSIBLE times the first; or the best by figures of its own. */
typedef struct kernel_attempt {
    uint32_t order;
    double (*find)(void *ctx, const uint64_t key[2]); /* NULL; nanoseconds, negative: none */
    void *ctx;
} kernel_attempt;
#define KERNEL_PLAUSIBLE 3.0
/* Lowers it by the best kernel that does. */
inlay_status kernel_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer);

/* Would oneDNN's convolutions save less in some runs than making them takes (kernels/start.c)? build->groups are there.
 */
bool kernel_skips_onednn_startup(cpu_build *build);

/* Are there tiles for it? Is its input as it says, without factors that wait or a maker? */
bool kernel_has_tiles(const cpu_build *build, const kernel_layer *layer);
bool kernel_is_whole(const cpu_build *build);
/* Which kernel the weights of a session are packed for (kernels_packs.c), by their content. Any thread. */
typedef struct kernel_packs kernel_packs;
kernel_packs *kernel_packs_create(void); /* NULL: no memory */
void kernel_packs_destroy(kernel_packs *packs);
/* The one that the weights of the op in hand were first packed for; KERNEL_COUNT: none yet, or they are small. */
uint32_t kernel_packs_find(const cpu_build *build);
void kernel_packs_note(const cpu_build *build, uint8_t kernel);
/* The choice stays with the instance. */
inlay_status kernel_remember(cpu_build *build, const kernel_choice *choice);

/* Extension inlay.kernels/1 (kernels/tune.c). */
inlay_status kernel_list(void *state, inlay_compiled *compiled, inlay_instance *instance,
                         inlay_status (*kernel)(void *ctx, const inlay_kernel *k), void *ctx);
inlay_status kernel_time(void *state, inlay_compiled *compiled, const inlay_kernel_trial *how, inlay_diag *diag);

/* Models (kernels/model.c): nanoseconds on KERNEL_THREADS threads, whatever the instance has: a kernel decides in which
 * order terms are added, and results are the same bits on any number of threads. */
enum { KERNEL_THREADS = 2 };
/* How many times as long as its model says a kernel of ours takes beside those of oneDNN at this level of instructions.
 */
double kernel_pace(kernel_id kernel);
double kernel_tiles_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_windows_ns(const kernel_layer *layer, int64_t points);
double kernel_gates_ns(const cpu_build *build, const cpu_group *group, double vector_ns);
/* d with layer ahead of it, functions left out (depthwise.c). b->op is that of d. */
double kernel_waiting_ns(const kernel_layer *layer, const kernel_layer *d);
double kernel_depthwise_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_planes_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_rows_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* Of an image that lies row by row, and of a result that leaves so, to kernels that have channels last. */
double kernel_turns_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel);
double kernel_library_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_blocks_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_library_winograd_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_gemm_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_pairs_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
/* The product itself, in pairs, on one thread. */
double kernel_pairs_work_ns(const cpu_build *build, double rows, int64_t k, int64_t n);

/* Products (kernels/products.c; the lowerings are in product.c). */
void kernel_measure_product(const cpu_build *build, kernel_gemm_shape *out);
bool kernel_packed_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
/* Are the weights of the op in hand floats that each run makes (narrow.h)? */
bool kernel_is_narrow(const cpu_build *build);
/* Are products in pairs wanted at all? Beside the other conditions of such a kernel. */
bool kernel_pairs_wanted(const cpu_build *build, const char **out_why);
bool kernel_paired_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_sparse_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_inner_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_plain_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_batched_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
bool kernel_matmul_runs(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const char **out_why);
double kernel_packed_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_paired_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_sparse_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_inner_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_plain_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_batched_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
double kernel_matmul_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer);
inlay_status kernel_packed(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_paired(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_sparse(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_inner(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_plain(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_batched(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
inlay_status kernel_matmul(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done);
#endif

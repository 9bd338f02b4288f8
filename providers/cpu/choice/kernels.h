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
typedef struct kn_window {
    bool flat; /* one or two dimensions: all below holds */
    bool padded;
    bool home; /* its result is a part of a concatenation */
    int64_t images, in, out, group, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    double share; /* of the taps that lie in the image */
    double flops; /* of those, as the sum is written */
} kn_window;

void kn_measure(const rg_build *build, const rg_op *op, kn_window *out);

/* The same convolution without the taps that lie outside the image for every pixel, as those at the ends of a window
 * with wide gaps may; only so many are left out that the rest follow one another in weights, [kernel..][in]. Pads may
 * become negative: pixels that no window begins or ends with. *out_first: the first tap that is left. */
kn_window kn_trimmed(const kn_window *window, int64_t *out_first);

/* The product in hand: `batch` of [m, k] by [k, n]. */
typedef struct kn_product {
    bool packed;   /* by a constant matrix (rg_is_packed) */
    bool turned;   /* the second operand lies column by column */
    uint32_t rank; /* of the result */
    int64_t batch, m, n, k;
} kn_product;

/* Names of kernels are in keys of what was measured: an order, or a number, may change. */
typedef enum kn_id {
    KN_TILES,
    KN_WINOGRAD_4,
    KN_WINOGRAD_2,
    KN_DEPTHWISE,
    KN_PLANES,
    KN_ROWS,
    KN_GROUPS,
    KN_LIBRARY,
    KN_BLOCKS,
    KN_LIBRARY_WINOGRAD,
    KN_GEMM,
    KN_PAIRS,
    KN_PACKED, /* from here on: products */
    KN_PAIRED,
    KN_SPARSE,
    KN_INNER,
    KN_PLAIN,
    KN_BATCHED,
    KN_MATMUL,
    KN_BITS_EXACT, /* by weights of a few bits, in the order of nb_mode; never chosen among others */
    KN_BITS_BYTE,
    KN_BITS_FINE,
    KN_BYTES_TILES, /* of bytes; likewise */
    KN_BYTES_CHANNELS,
    KN_BYTES_LIBRARY,
    KN_BYTES_ROWS,
    KN_COUNT
} kn_id;

/* What is to be lowered: a product (p), or a convolution (the rest). */
typedef struct kn_case {
    bool product;
    kn_product p;
    kn_window window;
    rg_md weights, bias; /* as oneDNN numbers the axes of the original; the bias' */
    dn_dims w_dims;
    uint32_t w_rank;
    uint32_t bias_value; /* INLAY_NONE */
    rg_place input;      /* where the input lies */
} kn_case;

/* A convolution by tiles that waits for its only reader, a convolution of single channels, to make its result row by
 * row: what lies between the two never leaves the nearest caches. */
typedef struct kn_ahead {
    const rg_group *group;
    kn_case layer;
} kn_ahead;
/* Does it wait? Then it is in build->ahead, and nothing was emitted (kernels/wait.c). */
inlay_status kn_wait(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_waits);

typedef struct kn_kernel {
    const char *name; /* in keys and explanations */
    int64_t points;   /* Winograd's: those along an axis, by which its error is known; 0: the sum as written */
    /* Can it run here? *out_why may say why not. */
    bool (*runs)(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
    double (*ns)(const rg_build *build, const rg_group *group, const kn_case *layer);
    /* Emits it; *out_done is false, and nothing was emitted, where it can't after all. */
    inlay_status (*lower)(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
    double gate_ns; /* what Sigmoid or Swish takes behind it, for 16 elements */
    bool is_strict; /* its sums are made in chains of as few terms as precision strict wants (sg_chain) */
} kn_kernel;
extern const kn_kernel kn_kernels[KN_COUNT];
/* KN_COUNT: there is none of that name. */
uint32_t kn_find(const char *name);
/* Options of how numbers are computed (options.c). *out_reduced: products of bfloat16 are asked for. */
void rg_read_options(rg_state *state, const inlay_create_args *args, bool *out_reduced);

/* What was chosen for a group, in the order of preference. */
enum { KN_BY_MODEL, KN_BY_TIME, KN_BY_OPTION, KN_ONLY };
struct kn_choice {
    uint32_t op;     /* the group's first */
    uint32_t count;  /* of those that can run */
    uint32_t source; /* KN_BY_MODEL ... */
    uint8_t kernel[KN_COUNT];
    double ns[KN_COUNT];                       /* predicted, or measured */
    const struct tile_trust *trusts[KN_COUNT]; /* by kernel, Winograd's: measured with the weights; NULL: not asked */
    const char *why;                           /* static text, why not Winograd's for instance; NULL */
    bool moved;                                /* the first is what an attempt wants */
    uint64_t key[2];                           /* of the layer, without a kernel */
};
typedef struct kn_key_words {
    uint64_t word[2];
} kn_key_words;
/* Everything that decides how long the kernels of a layer take beside each other: the window, sizes, what is done
 * behind it, how operands lie, threads. */
void kn_layer_key(const rg_build *build, const rg_group *group, const kn_case *layer, uint64_t out[2]);
/* What a kernel of the layer is timed under. */
void kn_key(const kn_choice *choice, uint32_t kernel, uint64_t out[2]);
/* What a build that is for timing takes: of each layer the kernel so far down in the model's order, where it is not
 * expected to take KN_PLAUSIBLE times the first; or the best by figures of its own. */
typedef struct kn_attempt {
    uint32_t order;
    double (*find)(void *ctx, const uint64_t key[2]); /* NULL; nanoseconds, negative: none */
    void *ctx;
} kn_attempt;
#define KN_PLAUSIBLE 3.0
/* Lowers it by the best kernel that does. */
inlay_status kn_lower(rg_build *build, const rg_group *group, const kn_case *layer);

/* Would oneDNN's convolutions save less in some runs than making them takes (kernels/start.c)? build->groups are there.
 */
bool kn_spares_library(rg_build *build);

/* Are there tiles for it? Is its input as it says, without factors that wait or a maker? */
bool kn_has_tiles(const rg_build *build, const kn_case *layer);
bool kn_is_whole(const rg_build *build);
/* Which kernel the weights of a session are packed for (kernels_packs.c), by their content. Any thread. */
typedef struct kn_packs kn_packs;
kn_packs *kn_packs_create(void); /* NULL: no memory */
void kn_packs_destroy(kn_packs *packs);
/* The one that the weights of the op in hand were first packed for; KN_COUNT: none yet, or they are small. */
uint32_t kn_packs_find(const rg_build *build);
void kn_packs_note(const rg_build *build, uint8_t kernel);
/* The choice stays with the instance. */
inlay_status kn_remember(rg_build *build, const kn_choice *choice);

/* Extension inlay.kernels/1 (kernels/tune.c). */
inlay_status kn_list(void *state, inlay_compiled *compiled, inlay_instance *instance,
                     inlay_status (*kernel)(void *ctx, const inlay_kernel *k), void *ctx);
inlay_status kn_time(void *state, inlay_compiled *compiled, const inlay_kernel_trial *how, inlay_diag *diag);

/* Models (kernels/model.c): nanoseconds on KN_THREADS threads, whatever the instance has: a kernel decides in which
 * order terms are added, and results are the same bits on any number of threads. */
enum { KN_THREADS = 2 };
/* How many times as long as its model says a kernel of ours takes beside those of oneDNN at this level of instructions.
 */
double kn_pace(kn_id kernel);
double kn_tiles_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_windows_ns(const kn_case *layer, int64_t points);
double kn_gates_ns(const rg_build *build, const rg_group *group, double vector_ns);
/* d with layer ahead of it, functions left out (depthwise.c). b->op is that of d. */
double kn_waiting_ns(const kn_case *layer, const kn_case *d);
double kn_depthwise_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_planes_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_rows_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
/* Of an image that lies row by row, and of a result that leaves so, to kernels that have channels last. */
double kn_turns_ns(const rg_build *build, const rg_group *group, const kn_case *layer, kn_id kernel);
double kn_library_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_blocks_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_library_winograd_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_gemm_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_pairs_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
/* The product itself, in pairs, on one thread. */
double kn_pairs_work_ns(const rg_build *build, double rows, int64_t k, int64_t n);

/* Products (kernels/products.c; the lowerings are in product.c). */
void kn_measure_product(const rg_build *build, kn_product *out);
bool kn_packed_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
/* Are the weights of the op in hand floats that each run makes (narrow.h)? */
bool kn_is_narrow(const rg_build *build);
/* Are products in pairs wanted at all? Beside the other conditions of such a kernel. */
bool kn_pairs_wanted(const rg_build *build, const char **out_why);
bool kn_paired_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
bool kn_sparse_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
bool kn_inner_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
bool kn_plain_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
bool kn_batched_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
bool kn_matmul_runs(rg_build *build, const rg_group *group, const kn_case *layer, const char **out_why);
double kn_packed_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_paired_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_sparse_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_inner_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_plain_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_batched_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
double kn_matmul_ns(const rg_build *build, const rg_group *group, const kn_case *layer);
inlay_status kn_packed(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_paired(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_sparse(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_inner(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_plain(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_batched(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
inlay_status kn_matmul(rg_build *build, const rg_group *group, const kn_case *layer, bool *out_done);
#endif

/* region.h - what a region is to this provider: parsed operators and values, known once per session.
 *
 *     operators.def     which ONNX operators, which versions, which family reads and lowers them
 *     parse.c           a node's row; the parser of its family refuses it or fills an cpu_op  (assess and compile)
 *     compile/          a region of the host -> struct inlay_compiled: ops, values, constants (compile.c)
 *                       shapes -> groups -> steps -> an instance                              (instance.c)
 *                       what an op takes                                                      (cost.c)
 *     fuse.c            which ops run as one primitive at concrete shapes                     (specialize)
 *     build.c, posts.c  what lowering writes into: places, buffers, steps
 *     scratch.c         memory of builds
 *     memo.c            descriptors of oneDNN's kernels, each made once in a build
 *     plan.c            buffers -> one workspace
 *     execute.c         the run
 *
 * Nothing here points into the host's graph after compile, save constants that are answered BORROWED for. */
#ifndef CPU_REGION_H
#define CPU_REGION_H
#include "inlay/extensions.h"
#include "inlay/kit.h"
#include "library/library.h"
#include "resize_table.h"
#include "sparse/sparse.h"
#include <pthread.h>
#include <stdlib.h>

enum {
    CPU_MAX_RANK = 8,      /* of anything that is offered */
    CPU_MAX_PAD_RANK = 6,  /* of what Pad takes: begins and ends are in one list */
    CPU_SMALL_BYTES = 4096 /* constants up to this size are copied, whatever they are for */
};

typedef struct cpu_scratch cpu_scratch;

/* The provider itself; immutable after create. */
typedef struct cpu_state {
    const inlay_host *host;
    library_engine engine;
    const inlay_ext_constants *constants; /* NULL: a host that has it not */
    const inlay_ext_packs *packs;         /* likewise */
    const inlay_ext_timings *timings;     /* likewise */
    const inlay_ext_steps *steps;         /* likewise */
    const inlay_ext_team *team;           /* likewise */
    uint32_t budget;                      /* threads of the process */
    bool winograd;                        /* convolutions may be Winograd's, */
    double pack_price;                    /* whose weights save so many nanoseconds for each byte */
    const struct sgemm_kernel *sgemm;     /* our own products by constants; NULL: oneDNN's */
    const struct sgemm_kernel *attend;    /* our own attention, likewise */
    bool bf16;                            /* products of bfloat16 */
    const struct tile_set *tiles;         /* NULL: this CPU has none */
    const struct move_set *moves;         /* copies between layouts (moves.h), likewise */
    const struct byte_set *bytes;         /* convolutions of bytes (bytes.h), likewise */
    bool pairs;                           /* products may be in pairs (pairs.h), */
    bool fast_pairs;                      /* for which this CPU has units */
    const struct nbits_kernel *nbits;     /* products by weights of a few bits (nbits.h); NULL: they are unfolded */
    uint32_t limbs;                       /* of the activations of those: nbits_mode */
    bool by_model;                        /* and models may ask for fewer bits */
    bool strict;                          /* precision strict */
    bool reproducible;                /* kernels by their kind alone, and rows summed alike however many there are */
    bool alone;                       /* there is no library: kernels of our own alone */
    bool library_alone;               /* there are no kernels of our own beside the library's */
    bool fast;                        /* precision fast: kernels whose error has no bound may run */
    uint32_t kernel;                  /* KN_*: that convolutions run by where it can; KERNEL_COUNT: the best */
    struct pack_registry *packed_for; /* kernels.h; locks itself */
    struct cpu_scratch **scratch;     /* atomic: memory that no build is using, or NULL */
} cpu_state;

/* ------------------------------------------------------------------ operators */

/* One of up to two functions that an elementwise operator is: y = alg(x; alpha, beta). */
typedef struct cpu_eltwise {
    library_alg alg;
    float alpha, beta;
} cpu_eltwise;

/* A function of two tensors that is none of oneDNN's binary ones: x where it is not negative, otherwise x times the
 * other. */
#define CPU_PRELU ((library_alg)0x7f0001)

/* Functions of one tensor that are none of oneDNN's; y = f(x; alpha, beta). */
enum {
    CPU_FIRST_FUNCTION = 0x7f0010,
    CPU_ERF = CPU_FIRST_FUNCTION,
    CPU_RECIPROCAL,
    CPU_FLOOR,
    CPU_CEIL,
    CPU_ROUND, /* halves to even */
    CPU_SIGN,
    CPU_SOFTSIGN,
    CPU_SELU, /* beta: gamma */
    CPU_CELU,
    CPU_THRESHOLD, /* x above alpha, otherwise 0 */
    CPU_SHRINK,    /* alpha: lambd, beta: bias */
    CPU_SQUARE,
    CPU_CUBE,
    CPU_ROOT /* the power 1/2 */
};

typedef struct cpu_op cpu_op;
typedef struct cpu_build cpu_build;
typedef struct cpu_group cpu_group;

/* A family of operators. */
typedef struct cpu_family {
    const char *name;
    /* Reads attributes and checks that the node means what oneDNN computes: fills op (kind and parameters), or says why
     * not. Called for assess as well as for compile; op->in and op->out are not set yet. */
    bool (*parse)(const kit_node *node, cpu_op *op, kit_refusal *why);
    /* Emits the primitives of a group whose first op is of this family. */
    inlay_status (*lower)(cpu_build *build, const cpu_group *group);
} cpu_family;

/* A row of operators.def, or of integers.def. */
typedef struct cpu_operator {
    const char *op_type;
    uint32_t since_min, since_max;
    const cpu_family *family;
    /* NULL, or: is this node the row's? Rows of the same operator that follow are for the other nodes. */
    bool (*takes)(const kit_node *node);
} cpu_operator;

enum { CPU_PAD_EXPLICIT = 0, CPU_PAD_SAME_UPPER = 1, CPU_PAD_SAME_LOWER = 2, CPU_PAD_VALID = 3 };

enum { CPU_NO = 1, CPU_YES = 2 };

/* Weights of 2, 4 or 8 bits, as DequantizeLinear or MatMulNBits has them: w(k, n) of a product by them
 * (nbits_weights.h). */
typedef struct cpu_nbits {
    uint32_t q, scale, zero; /* numbers of inputs; zero: INLAY_NONE = all zero points are `all` */
    uint8_t bits;
    bool is_signed;
    bool packed_zeros; /* a byte begins with each column */
    float all;         /* as packed weights have it: unsigned */
    int64_t k, n, block;
    int64_t q_steps[2], scale_steps[2], zero_steps[2]; /* elements from one k, or block of k, to the next; and for n */
} cpu_nbits;

/* A window that slides over an image: convolutions, pooling. */
typedef struct cpu_window {
    uint32_t spatial;                              /* dimensions */
    library_dims kernel, strides, dilations, pads; /* begins, then ends */
    library_dims output_padding;                   /* transposed convolutions */
    int64_t group;
    uint32_t auto_pad; /* RG_PAD_* */
    bool ceil_mode;
    bool global;     /* the window is the image */
    bool sized;      /* transposed convolutions: output_shape is stated */
    uint8_t unfolds; /* CPU_YES, CPU_NO: what oneDNN's convolution does, once it was asked; under compiled->lock */
} cpu_window;

/* A parsed node. What is named by a family of operators holds for that family alone. */
struct cpu_op {
    const cpu_operator *row;
    uint32_t node;      /* of the host's graph */
    uint32_t *in, *out; /* numbers in inlay_compiled.values, INLAY_NONE = omitted */
    uint32_t in_count, out_count;
    bool silent;   /* others do what it stands for: nothing is emitted */
    bool appends;  /* the host may have it append in place (append.c) */
    char name[96]; /* of the node, for diagnostics */

    /* What several families have. */
    library_alg alg; /* binary, pooling, softmax, reduction, resampling */
    int64_t axis;    /* not negative */
    int64_t size;
    float alpha, beta;
    cpu_eltwise eltwise[2]; /* elementwise functions, also what Clip, HardSigmoid and the like become */
    uint32_t eltwise_count;

    cpu_window window;
    cpu_nbits nbits;
    int32_t perm[CPU_MAX_RANK]; /* transposes */
    struct {
        bool trans_a, trans_b;
    } product;
    struct {
        float scale;  /* of the input, or of the result */
        int32_t zero; /* its zero point */
    } quantized;
    struct {
        bool own;     /* ai.inlay's, not ONNX's */
        bool guarded; /* see ops/inlay/attention.c */
        bool causal;
    } attention;
    struct {
        int64_t heads;
        bool interleaved;
    } rotary;
    struct {
        float epsilon, bias;
    } normalization;
    struct {
        bool flattened; /* all axes from `axis` on are one */
    } softmax;
    struct {
        uint32_t axes; /* bit a = axis a */
        bool keepdims;
    } reduction;
    struct {
        library_dims starts, steps;
    } slice;
    struct {
        library_dims amounts; /* begins, and from CPU_MAX_PAD_RANK on ends */
        uint32_t mode;        /* pad.c's */
    } pad;
    struct {
        resize_rule rule;
        bool scaled; /* by factors, not by the sizes of the output */
        float scales[CPU_MAX_RANK];
    } resize;
    struct {
        const kit_kernel *layer; /* runs them */
        void *prepared;          /* its state, the op's own */
        uint32_t dropped;        /* bit i = `prepared` has packed constant input i */
    } recurrent;
};

/* The row of a float operator that there is for sure. */
const cpu_operator *cpu_row(const char *op_type);
enum { CPU_SKIP_SUM = 3 }; /* SkipLayerNormalization: the output that is the sum */
/* The row for a node; NULL: none, and *why says so. Fills *op on success. */
const cpu_operator *cpu_parse(const kit_node *node, cpu_op *op, kit_refusal *why);

/* What parsers ask. */
/* Are that many elements within the int that oneDNN counts with? dims[rank]; no negative ones. */
bool cpu_counts(const int64_t *dims, uint32_t rank);
bool cpu_known_rank(const inlay_value_info *value, uint32_t low, uint32_t high, const char *what, kit_refusal *why);
/* Elements of a tensor whose dims are all fixed; -1: they are not. */
int64_t cpu_known_count(const inlay_value_info *value);
/* Elements of an integer constant or of a value that is known before the run; false: not known, or more than max. */
bool cpu_known_ints(const inlay_value_info *value, int64_t *out, uint32_t max, uint32_t *out_count);
/* The element of a float scalar constant. */
bool cpu_known_scalar(const inlay_value_info *value, float *out);
/* axis within [0, rank), from one that may be negative. */
bool cpu_axis(int64_t axis, uint32_t rank, int64_t *out);
/* Is the output worth a primitive? */
bool cpu_is_large(const kit_node *node, kit_refusal *why);
/* Are both dims certainly the same size? */
bool cpu_same_dim(const inlay_dim *a, const inlay_dim *b);

extern const cpu_family cpu_conv, cpu_conv_transpose, cpu_conv_computed, cpu_product, cpu_eltwise_family, cpu_binary,
    cpu_pool, cpu_normalize, cpu_concat, cpu_softmax, cpu_layer_norm, cpu_rms_norm, cpu_skip_norm, cpu_reduce, cpu_view,
    cpu_transpose, cpu_lrn, cpu_attention, cpu_quantize, cpu_dequantize, cpu_dynamic, cpu_int8_conv, cpu_int8_product,
    cpu_int_cast, cpu_byte_clip, cpu_weights, cpu_narrow, cpu_nbits_product, cpu_sparse, cpu_halves;
extern const cpu_family cpu_resize, cpu_split, cpu_slice, cpu_pad, cpu_recurrent, cpu_scatter, cpu_rotary;
/* The first output that is not omitted; all ops but recurrent layers have output 0. */
uint32_t cpu_first_out(const cpu_op *op);
/* The row of a convolution whose weights or bias are computed; any other row itself (conv.c). */
const cpu_operator *cpu_conv_row(const kit_node *node, const cpu_operator *row);
/* The row of the same convolution by weights that are computed. */
const cpu_operator *cpu_computed_row(const cpu_operator *row);
/* Packs the constant weights of a recurrent layer, whose op is otherwise complete; only in compile. */
inlay_status cpu_recurrent_prepare(inlay_compiled *compiled, const inlay_compile_request *request,
                                   const inlay_node_info *info, cpu_op *op, inlay_diag *diag);
void cpu_recurrent_release(cpu_op *op);
/* Adds what a recurrent layer takes. */
void cpu_recurrent_cost(const cpu_state *state, const inlay_cost_request *request, const inlay_node_info *info,
                        inlay_cost *cost);

/* Which nodes the rows of integers.def are for (quant.c). */
bool cpu_takes_any(const kit_node *node);
bool cpu_takes_bytes(const kit_node *node);                                     /* the first input has 8 bits */
bool cpu_is_dynamic_scale(const kit_node *node, const inlay_value_info *value); /* made by DynamicQuantizeLinear */
bool cpu_takes_weights(const kit_node *node); /* constant weights of a few bits that products alone read */
bool cpu_takes_narrow(const kit_node *node);  /* constants of few bits (narrow.c) */
bool cpu_takes_halves(const kit_node *node);  /* Cast of constants of 16 bits to float (halves.c) */
bool cpu_takes_own(const kit_node *node);     /* of ai.inlay */
bool cpu_takes_product(const kit_node *node); /* Cast to float of what MatMulInteger or ConvInteger makes */

/* How much faster than a direct convolution Winograd's is, as measured: by the size of the output, since the transforms
 * of a small one fill few tiles, and by channels. 0: it is not for this window, or slower. */
double cpu_winograd_gain(const cpu_op *op, int64_t in, int64_t out, int64_t height, int64_t width);

/* ------------------------------------------------------------------ a compiled region */

/* A constant in a layout of its own. */
typedef struct cpu_pack {
    struct cpu_pack *next;
    memory_desc plain; /* how the original's elements were read */
    memory_desc md;    /* how they lie here */
    void *data;
    bool hosts; /* data is the host's: a pack that it keeps between sessions */
    bool trial; /* made for the timing of kernels alone: it goes with that */
} cpu_pack;

/* Read through weights.c only. */
typedef struct cpu_constant {
    uint32_t value;   /* of the snapshot */
    const void *data; /* the original, or our copy of it; NULL once it is dropped */
    void *copy;       /* ours */
    uint64_t bytes;
    uint64_t content_hash;
    struct narrow
        *narrow; /* it is made of one of few bits in each run (narrow.h), and bytes are those of its floats; NULL */
    cpu_pack *packs;
    bool plain_used;        /* something reads the original as it lies */
    uint32_t given_up;      /* ops that have packed it themselves (recurrent.c) */
    bool shifted;           /* packs hold int8, 128 less than the original's uint8 */
    int32_t *sums;          /* integer products: of the columns of a matrix */
    sparse_entries entries; /* count > 0: it was never dense (sparse_weights.c); data is NULL */
    uint32_t sources[2];    /* the values of the snapshot that entries, or halves, lie in */
    const void *halves;     /* of half_type: floats are made for each pack (halves.h); data is NULL */
    inlay_dtype half_type;
    bool sparse_turned; /* how sparse_blocks were counted: of a matrix [n, k] */
    bool sparse_fours;  /* sparse_blocks are -1, but of each four k at most two are not zero (fours.h) */
    int64_t
        sparse_blocks; /* of a matrix of floats (sparse.h), one more; 0: not counted yet, -1: too many are not zero */
    struct winograd_accuracy *trusts[2]; /* Winograd's with 4 and 6 points (tiles.h); NULL: not measured yet */
} cpu_constant;

typedef struct cpu_value {
    uint32_t snapshot;      /* index in the host's graph */
    uint32_t input, output; /* number among the region's, INLAY_NONE */
    uint32_t constant;      /* index in constants, INLAY_NONE */
    uint32_t uses;          /* reads by ops of the region */
    uint32_t weights;       /* the op of weights of a few bits that it stands for, for a product; INLAY_NONE */
    bool turned;            /* transposed */
    library_type type;      /* undef: none that oneDNN knows */
    uint32_t rank;          /* of constants */
    int64_t dims[CPU_MAX_RANK];
} cpu_value;

struct inlay_compiled {
    const cpu_state *state;
    cpu_op *ops; /* in the order of the nodes */
    cpu_value *values;
    cpu_constant *constants;
    uint32_t op_count, value_count, constant_count;
    uint32_t input_count, output_count;                   /* of the region */
    uint32_t *numbers;                                    /* storage of cpu_op.in and out */
    pthread_mutex_t lock;                                 /* of constants and ready */
    void *compiling;                                      /* the request's handle, during compile */
    const void *timings;                                  /* of kernels; NULL: none were kept */
    uint32_t builds;                                      /* instances made so far */
    uint32_t step_hint, arg_hint, slot_hint, buffer_hint; /* how many the last instance had */
    bool as_written;       /* DynamicQuantizeLinear rounds floats here: one bit less is another integer */
    cpu_scratch *spare;    /* atomic: memory of an instance that has gone, or NULL */
    bool trying;           /* an instance is built for the timing of kernels (kernels/tune.c) */
    inlay_instance *ready; /* made by compile for the shapes it was told to expect; its key says which */
    inlay_instance *last;  /* made for the last shapes that were new: the region's may be the same while others grow */
};

inlay_status cpu_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                         inlay_diag *diag);
void cpu_release_compiled(void *state, inlay_compiled *compiled);
inlay_status cpu_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                            inlay_instance **out_instance, inlay_diag *diag);
void cpu_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status cpu_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args);
/* See inlay_ext_branches.may. */
uint32_t cpu_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance);
uint32_t cpu_appends(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis);
uint32_t cpu_reads(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis);
inlay_status cpu_assess(void *state, const inlay_graph *graph, const uint8_t *candidates, const inlay_assess_sink *sink,
                        inlay_diag *diag);
inlay_status cpu_cost(void *state, const inlay_cost_request *request, inlay_cost *cost);

/* Adds what an operator of integers.def takes. */
void cpu_quant_cost(const cpu_op *op, const inlay_cost_request *request, const inlay_node_info *info, inlay_cost *cost);

/* Holds the OpenMP pool, which libdnnl shares with the host, to a number of threads for what this thread calls. Returns
 * the number before, to be set again. */
int cpu_threads_set(uint32_t threads);
void cpu_threads_restore(int before);
/* May what this thread calls use several? */
bool cpu_threads_many(void);

/* INLAY_OK, or the status that fits with a sentence. */
inlay_status cpu_check(library_status code, inlay_diag *diag, const char *what, const char *name);
#endif

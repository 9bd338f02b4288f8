/* region.h - a compiled region: parsed operators, values and constants, which are the same for all shapes.
 *
 *     operators.def     ONNX operators: name, versions, and the family that parses and lowers them
 *     parse.c           finds the row of a node; the family's parser fills a cpu_op or refuses the node
 *     fuse.c            groups: ops that run as one step at concrete shapes
 *     build.c, copies.c helpers of lowering: places, buffers, steps
 *     window.c          kernel windows; states.c: states that are updated in place
 *     scratch.c         memory of builds and instances, reused by the next one
 *     plan.c            assigns buffers to one workspace
 *     execute.c         the run
 *     weights/          constants, and reads of values (weights/read.h)
 *     elementwise/      fused epilogues and the steps for functions that are not fused
 *     compile/          a region of the host -> struct inlay_compiled: ops, values, constants (compile.c)
 *                       shapes -> groups -> steps -> an instance                              (instance.c)
 *                       cost of an op                                                         (cost.c)
 *
 * After compile, only borrowed constants (INLAY_CONST_BORROWED) point into the host's graph.
 *
 * To add an operator: add a row to operators.def, which also declares its family; write a parser, which refuses nodes
 * that the kernel would compute differently from ONNX; write a lowering, which reads its inputs with cpu_read*
 * (weights/read.h), emits a step with cpu_emit_step or cpu_emit_native, and ends with cpu_set_place or
 * cpu_finish. */
#ifndef CPU_REGION_H
#define CPU_REGION_H
#include "inlay/check.h"
#include "inlay/kit_table.h"
#include "kit/blocks.h"
#include "cpu/layout/functions.h"
#include "cpu/layout/layout.h"
#include "cpu/matrix/sgemm.h"
#include "common/resize_table.h"
#include "cpu/sparse/sparse.h"
#include <pthread.h>
#include <stdlib.h>

struct inlay_exec_args;
struct inlay_ext_constants;
struct inlay_ext_packs;
struct inlay_ext_steps;
struct inlay_ext_timings;
struct inlay_host;
struct inlay_value_info;
/* A compiled region, and a region at concrete shapes, of the plug-in ABI (inlay/execution.h). */
typedef struct inlay_compiled inlay_compiled;
typedef struct inlay_instance inlay_instance;

enum {
    CPU_MAX_PAD_RANK = 6,  /* of Pad's input: begins and ends share one array of dims */
    CPU_SMALL_BYTES = 4096 /* originals of constants up to this size are not dropped */
};

typedef struct cpu_scratch cpu_scratch;

/* The provider. Immutable after create, but for what `scratch`, `packed_for` and `regions` point to. */
typedef struct cpu_state {
    const struct inlay_host *host;
    const struct inlay_ext_constants *constants; /* NULL: the host does not have this extension */
    const struct inlay_ext_packs *packs;         /* likewise */
    const struct inlay_ext_timings *timings;     /* likewise */
    const struct inlay_ext_steps *steps;         /* likewise */
    uint32_t budget;                             /* threads that the process may use */
    bool winograd;                               /* option winograd: convolutions may use Winograd's algorithm */
    double pack_bytes;                           /* option pack_bytes (kernels/pack_limit.c) */
    bool pack_bytes_set;                         /* not its default */
    const struct sgemm_kernel *sgemm;            /* GEMM; NULL: left out of a program of `inlay bundle` */
    const struct tile_set *tiles;                /* tiled convolutions; NULL: likewise */
    const struct move_set *moves;                /* copies between layouts (moves.h) */
    const struct byte_set *bytes;                /* int8 convolutions and GEMMs (bytes.h); NULL: none for this CPU */
    const struct nbits_kernel *nbits; /* GEMMs by n-bit weights (nbits.h); NULL: weights are unpacked to floats */
    uint32_t limbs;                   /* nbits_mode: the activations' precision in these GEMMs */
    bool model_sets_limbs;            /* a model may lower `limbs` (accuracy_level of MatMulNBits) */
    bool strict;                      /* precision strict */
    bool reproducible;                /* option reproducible: the kernel and the order of sums do not depend on sizes */
    bool fast;                        /* precision fast: kernels without an error bound may run */
    uint32_t kernel;                  /* option kernel: KERNEL_* to prefer; KERNEL_COUNT: the fastest */
    struct pack_registry *packed_for; /* kernels.h; has its own lock */
    struct cpu_scratch **scratch;     /* atomic: memory that no build uses now, or NULL */
    struct inlay_compiled *
        *regions; /* all compiled regions (compile/trim.c); NULL in bundles: a region has one instance */
} cpu_state;

/* An elementwise function y = function(x; alpha, beta). An elementwise operator is one or two of them. */
typedef struct cpu_unary {
    element_function function;
    float alpha, beta;
} cpu_unary;

typedef struct cpu_op cpu_op;
typedef struct cpu_build cpu_build;
typedef struct cpu_group cpu_group;

typedef struct cpu_operator cpu_operator;

/* The families that other files than their own distinguish. A kind, since files of lower folders do not see the
 * symbols of higher ones. */
typedef enum cpu_family_kind {
    CPU_FAMILY_OTHER, /* all others */
    CPU_FAMILY_ATTENTION,
    CPU_FAMILY_BINARY,
    CPU_FAMILY_BLOCKS,
    CPU_FAMILY_BYTE_CLIP,
    CPU_FAMILY_CONCAT,
    CPU_FAMILY_CONV,
    CPU_FAMILY_CONV_TRANSPOSE,
    CPU_FAMILY_DEQUANTIZE,
    CPU_FAMILY_DEQUANTIZE_ROWS,
    CPU_FAMILY_DYNAMIC,
    CPU_FAMILY_EXPERTS,
    CPU_FAMILY_HALVES,
    CPU_FAMILY_INT8_CONV,
    CPU_FAMILY_INT8_PRODUCT,
    CPU_FAMILY_INT_BIAS,
    CPU_FAMILY_INT_CAST,
    CPU_FAMILY_LAYER_NORM,
    CPU_FAMILY_NARROW,
    CPU_FAMILY_NBITS_PRODUCT,
    CPU_FAMILY_NORMALIZE,
    CPU_FAMILY_PAD,
    CPU_FAMILY_POOL,
    CPU_FAMILY_PRODUCT,
    CPU_FAMILY_QUANTIZE,
    CPU_FAMILY_RECURRENT,
    CPU_FAMILY_REDUCE,
    CPU_FAMILY_RESIZE,
    CPU_FAMILY_RMS_NORM,
    CPU_FAMILY_ROTARY,
    CPU_FAMILY_SCATTER,
    CPU_FAMILY_SKIP_NORM,
    CPU_FAMILY_SLICE,
    CPU_FAMILY_SOFTMAX,
    CPU_FAMILY_SPARSE,
    CPU_FAMILY_SPLIT,
    CPU_FAMILY_TRANSPOSE,
    CPU_FAMILY_UNARY,
    CPU_FAMILY_VIEW,
    CPU_FAMILY_WEIGHTS
} cpu_family_kind;

/* A family of operators, as the code below the families (region, weights) sees it. */
typedef struct cpu_family {
    cpu_family_kind kind;
    const char *name;
    /* Reads the attributes and fills the parameters of op. Returns false, with the reason in *why, if no kernel
     * computes the node as ONNX defines it. Called by assess and by compile; op->in and op->out are not set yet. */
    bool (*parse)(const kit_node *node, cpu_op *op, kit_refusal *why);
    /* Emits the steps of a group whose first op belongs to this family. */
    inlay_status (*lower)(cpu_build *build, const cpu_group *group);

    /* The other members are false or NULL for families that do not need them. */
    bool takes_posts; /* a group may have functions after the first op (cpu_post), if its output is float ... */
    bool takes_bias;  /* ... and, before them, a bias: one element per output channel */
    /* Forms groups of the family's ops and of ops before them; cpu_fuse forms all other groups afterwards. Only one
     * family may have this function. Called once for a build with such an op. taken: [op_count], set for ops that are
     * in a group. at: [op_count], indexed by the group's last op. */
    inlay_status (*group)(cpu_build *build, uint8_t *taken, cpu_group *at);
    /* Moves op `next`, the only reader of the group's output, into a group whose first op belongs to this family, if
     * the kernel can do its work: before (fuse) and after (fuse_last) the functions that follow the first op. */
    void (*fuse)(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
    void (*fuse_last)(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
    /* For op `reader` of this family, the only reader of a product by one factor for each channel: lets the reader
     * multiply its weights instead, if there are fewer. group: the product's, which is being lowered. *out_done:
     * nothing is left to lower. */
    inlay_status (*defer_scale)(cpu_build *build, const cpu_group *group, uint32_t reader, bool *out_done);
} cpu_family;

/* A row of operators.def or integers.def. */
struct cpu_operator {
    const char *op_type;
    uint32_t since_min, since_max;
    const cpu_family *family;
    /* Does the row apply to this node? If not, the next row with the same op_type is tried. NULL: it always applies. */
    bool (*takes)(const kit_node *node);
    uint32_t floats; /* number of leading inputs that must be float, if `takes` is NULL; otherwise the parser checks */
};
/* All rows, in the order in which they are tried (compile/operators.c). */
extern const cpu_operator cpu_operator_rows[];
extern const uint32_t cpu_operator_count;

enum { CPU_PAD_EXPLICIT = 0, CPU_PAD_SAME_UPPER = 1, CPU_PAD_SAME_LOWER = 2, CPU_PAD_VALID = 3 };

/* Weights w(k, n) of 2, 4 or 8 bits, as DequantizeLinear or MatMulNBits stores them (nbits_weights.h); bits are those
 * of the pack, which may be 5 or 6. */
typedef struct cpu_nbits {
    uint32_t q, scale, zero; /* indexes of inputs; zero: INLAY_NONE = all zero points are `all` */
    uint8_t bits;
    bool is_signed;
    bool e2m1;         /* of the type float4e2m1, and packed as nbits_source.e2m1 says */
    bool packed_zeros; /* zero points are packed; each column begins with a new byte */
    bool float_zeros;  /* zero points are floats */
    float all;         /* the zero point of all weights, unsigned as in packed weights; valid if zero is INLAY_NONE */
    const uint8_t *table; /* see nbits_shape */
    bool joint;           /* likewise */
    int64_t k, n, block;
    int64_t q_steps[2], scale_steps[2], zero_steps[2]; /* elements from one k, or block of k, to the next; and for n */
} cpu_nbits;

/* The sliding window of a convolution or pooling operator. */
typedef struct cpu_window {
    uint32_t spatial;                             /* dimensions */
    tensor_dims kernel, strides, dilations, pads; /* begins, then ends */
    tensor_dims output_padding;                   /* transposed convolutions */
    int64_t group;
    uint32_t auto_pad; /* CPU_PAD_* */
    bool ceil_mode;
    bool global; /* the window covers the whole image */
    bool sized;  /* transposed convolutions: output_shape is given */
} cpu_window;

/* A parsed node. A member that is named after a family of operators is valid for that family only. */
struct cpu_op {
    const cpu_operator *row;
    uint32_t node;      /* index in the host's graph */
    uint32_t *in, *out; /* indexes in inlay_compiled.values, INLAY_NONE = omitted */
    uint32_t in_count, out_count;
    bool silent;   /* emits no step: its consumers do its work */
    bool appends;  /* the host may let it append to a state in place (append.c) */
    char name[96]; /* of the node, for diagnostics */

    /* Shared by several families. */
    element_function function; /* binary functions and pools */
    int64_t axis;              /* not negative */
    int64_t size;
    float alpha, beta;
    cpu_unary unary[2]; /* elementwise functions, including Clip and HardSigmoid */
    uint32_t unary_count;

    cpu_window window;
    cpu_nbits nbits;
    kit_blocks blocks;          /* UnpackBlocks */
    int32_t perm[CPU_MAX_RANK]; /* transposes */
    struct {
        bool trans_a, trans_b;
        bool many_rows; /* more than SGEMM_FEW_HALVES in each run */
    } product;
    struct {
        float scale;    /* of the input, or of the result */
        int32_t zero;   /* zero point of the same tensor */
        uint8_t w_zero; /* of the weights of a convolution: subtracted from uint8 weights while they are packed */
    } quantized;
    struct {
        bool own;          /* domain ai.inlay, not ai.onnx */
        sgemm_blank blank; /* the results of queries that may attend to no key */
        bool causal;
        float softcap;      /* 0: none */
        int32_t value_bits; /* as code_bits, of the values */
    } attention;
    int32_t code_bits; /* of keys, or of the rows of a cache; 0: they are floats */
    struct {
        int64_t heads;
        bool interleaved;
    } rotary;
    struct {
        float epsilon, bias;
    } normalization;
    struct { /* weights/experts.h */
        int64_t count, k, block;
        float limit;
        uint8_t bits; /* 0: floats */
        uint8_t activation, fusion;
        bool gated, normalizes;
        bool merged[3]; /* by layer: all zero points are `zero` */
        float zero[3];
    } experts;
    struct {
        bool flattened; /* all axes from `axis` on are one */
        bool is_log;
    } softmax;
    struct {
        uint32_t axes; /* bit d = axis d */
        bool keepdims;
    } reduction;
    struct {
        tensor_dims starts, steps;
    } slice;
    struct {
        tensor_dims amounts; /* begins at [0], ends at [CPU_MAX_PAD_RANK] */
        uint32_t mode;       /* see images/pad.c */
    } pad;
    struct {
        resize_rule rule;
        bool scaled; /* the node gives factors, not the sizes of the output */
        float scales[CPU_MAX_RANK];
    } resize;
    struct {
        const kit_kernel *layer; /* the kernel of operators/recurrent/recurrent.h */
        void *prepared;          /* prepared state of the op, owned by it */
        uint32_t dropped;        /* bit i = `prepared` holds constant input i packed */
        float *projection;       /* W as terms (recurrent/projection.h), owned by the op; NULL: none */
    } recurrent;
};

bool cpu_takes_inlay_domain(const kit_node *node); /* cpu_operator.takes: domain ai.inlay */
/* The row of a float operator, which must exist. */
const cpu_operator *cpu_row(const char *op_type);
enum { CPU_SKIP_SUM = 3 }; /* SkipLayerNormalization: the index of the output that holds the sum */
/* The row for a node; fills *op. NULL: no row takes the node, and *why holds the reason. */
const cpu_operator *cpu_parse(const kit_node *node, cpu_op *op, kit_refusal *why);

/* Helpers of parsers. */
/* Is the number of elements at most 2^31 - 1? dims[rank], none negative. */
bool cpu_count_fits(const int64_t *dims, uint32_t rank);
/* Is the rank known and within [low, high]? `what` names the value in the reason. */
bool cpu_known_rank(const struct inlay_value_info *value, uint32_t low, uint32_t high, const char *what,
                    kit_refusal *why);
/* The number of elements if all dims are fixed, otherwise -1. */
int64_t cpu_known_count(const struct inlay_value_info *value);
/* The elements of an int64 constant or of a value known before the run. false: not known, or more than max. */
bool cpu_known_ints(const struct inlay_value_info *value, int64_t *out, uint32_t max, uint32_t *out_count);
/* The element of a float scalar constant. */
bool cpu_known_scalar(const struct inlay_value_info *value, float *out);
/* Maps an axis in [-rank, rank) to [0, rank). */
bool cpu_axis(int64_t axis, uint32_t rank, int64_t *out);
/* Does the output have at least two axes, or is an input a scale of DynamicQuantizeLinear? If not, the host may compute
 * the node ahead, as shape arithmetic. */
bool cpu_is_large(const kit_node *node, kit_refusal *why);
/* Does an operator of this type compute `value`? */
bool cpu_is_made_by(const kit_node *node, const struct inlay_value_info *value, const char *op_type);
/* Does DynamicQuantizeLinear compute `value`? */
bool cpu_is_dynamic_scale(const kit_node *node, const struct inlay_value_info *value);
/* Is the value computed, by a few nodes, from the scale of a DynamicQuantizeLinear? */
bool cpu_follows_dynamic_scale(const kit_node *node, const struct inlay_value_info *value);
/* Are both dims known to have the same size? */
bool cpu_same_dim(const inlay_dim *a, const inlay_dim *b);

/* The families of all rows. */
#define X(op, first, last, family, rest) extern const cpu_family family;
#include "cpu/region/integers.def"
#include "cpu/region/operators.def"
#undef X
/* The first output that is not omitted; all ops but recurrent layers have output 0. */
uint32_t cpu_first_out(const cpu_op *op);

/* A packed copy of a constant. */
typedef struct cpu_pack {
    struct cpu_pack *next;
    tensor_layout plain;  /* the layout in which the original was read */
    tensor_layout layout; /* the layout of data */
    void *data;
    uint64_t bytes; /* of data */
    uint32_t users; /* atomic: instances that read it, once for each use */
    bool hosts;     /* the host owns data, and keeps it between sessions */
    bool late;      /* made after compile, so that the constant can be packed again */
    bool trial;     /* made for the timing of kernels only, and freed after it */
} cpu_pack;

/* The form in which the model has a constant; weights/weights.c has a row for each. */
typedef enum constant_kind {
    CONSTANT_PLAIN,   /* the elements */
    CONSTANT_SPARSE,  /* the nonzero elements of a matrix, and their places (sparse_weights.c) */
    CONSTANT_HALVES,  /* float16 or bfloat16, converted for each pack (halves.h) */
    CONSTANT_BLOCKS,  /* blocks of a quantized type, of which it is one part (blocks.h) */
    CONSTANT_LOW_BIT, /* a DequantizeLinear, whose floats are made in each run (low_bit.h) */
    CONSTANT_KINDS
} constant_kind;

/* A constant of the region. Only weights/weights.c reads and writes the packs. The kind is set when the region is
 * parsed, and says which member of `stored` is valid. `data`, or that of halves or blocks, is NULL once it is dropped
 * (cpu_constant_is_dropped): the elements are then in a pack. */
typedef struct cpu_constant {
    constant_kind kind;
    uint32_t value;   /* index in the host's graph */
    const void *data; /* CONSTANT_PLAIN: the elements; NULL for other kinds */
    union {
        sparse_entries entries;
        struct {
            const void *data;
            inlay_dtype type;
        } halves;
        struct {
            const void *data;
            kit_blocks of;
            uint8_t part; /* output of the UnpackBlocks */
        } blocks;
        struct low_bit_constant *low_bit; /* owned */
    } stored;
    uint32_t sources[2]; /* values of the host's graph that hold entries, halves or blocks */
    uint64_t bytes;      /* of the plain elements: of floats, for low-bit constants */
    uint64_t content_hash;
    cpu_pack *packs;
    bool plain_used;         /* a step reads the original unpacked */
    uint32_t repacked_ops;   /* ops that have packed it themselves (recurrent.c) */
    int8_t pairs;            /* 1: weights of bytes_set_for() fit, -1: they do not; 0: not known yet */
    uint8_t shift;           /* not 0: packs hold int8, the original's uint8 minus this */
    bool sparse_turned;      /* sparse_blocks were counted for a matrix [n, k] */
    int64_t sparse_blocks;   /* 1 + nonzero blocks of a float matrix (sparse.h); 0: not counted yet, -1: too many */
    uint32_t refused_points; /* bits 1 << points: Winograd packs that are too large (kernels/pack_limit.c) */
    struct winograd_accuracy
        *trusts[3]; /* of Winograd with 4 and 6 points, and FFT (tiles.h); NULL: not measured yet */
} cpu_constant;

/* Whether the memory of the host that held its elements is no longer read. */
static inline bool cpu_constant_is_dropped(const cpu_constant *constant)
{
    return (constant->kind == CONSTANT_PLAIN && constant->data == NULL) ||
           (constant->kind == CONSTANT_HALVES && constant->stored.halves.data == NULL) ||
           (constant->kind == CONSTANT_BLOCKS && constant->stored.blocks.data == NULL);
}

typedef struct cpu_value {
    uint32_t snapshot;      /* index in the host's graph */
    uint32_t input, output; /* index among the region's inputs and outputs, INLAY_NONE */
    uint32_t constant;      /* index in constants, INLAY_NONE */
    uint32_t uses;          /* reads by ops of the region */
    uint32_t readers[2];    /* the ops of the first two reads, INLAY_NONE */
    uint32_t weights;       /* the op (a DequantizeLinear) whose n-bit weights a GEMM reads here; INLAY_NONE */
    bool turned;            /* with `weights`: the GEMM reads them transposed */
    element_type type;      /* ELEMENT_OTHER: any other type */
    uint32_t rank;          /* of constants */
    int64_t dims[CPU_MAX_RANK];
} cpu_value;

struct inlay_compiled {
    const cpu_state *state;
    inlay_compiled *next, **link; /* in cpu_state.regions, and the pointer to this region there (compile/trim.c) */
    cpu_op *ops;                  /* in the order of the host's nodes */
    cpu_value *values;
    cpu_constant *constants;
    uint32_t op_count, value_count, constant_count;
    uint32_t input_count, output_count; /* of the region */
    uint32_t *numbers;                  /* storage of cpu_op.in and out */
    pthread_mutex_t lock;               /* guards constants, ready and last */
    void *compiling;                    /* the request's handle, during compile */
    const void *timings;                /* measured times of kernels, or NULL */
    uint32_t builds;                    /* instances made so far */
    uint64_t pack_share;                /* bytes that packs may take in addition to the weights */
    double graph_weights;               /* bytes of all weights of the graph */
    struct {
        uint32_t steps, args, buffers, choices;
    } last_counts; /* of the last instance */
    struct {
        struct span *spans; /* [count] placement of the last instance's buffers in its workspace, in their order */
        uint32_t count;
        uint64_t bytes; /* workspace of these spans */
    } placed;
    bool keep_last_bit;    /* DynamicQuantizeLinear rounds floats here: an error in the last bit changes integers */
    cpu_scratch *spare;    /* atomic: memory of a destroyed instance, or NULL */
    bool trying;           /* an instance is being built for the timing of kernels (compile/tune.c) */
    inlay_instance *ready; /* made by compile for the expected shapes, which are its key */
    inlay_instance *last;  /* the newest instance, for requests with equal shapes, while those of other regions grow */
};

/* The only op that reads the value, which does not leave the region; INLAY_NONE: there are other reads, or none. */
static inline uint32_t cpu_only_reader(const inlay_compiled *compiled, uint32_t value)
{
    const cpu_value *read = &compiled->values[value];

    return read->output == INLAY_NONE && read->uses == 1 ? read->readers[0] : INLAY_NONE;
}

struct inlay_assess_request;
inlay_status cpu_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                         const struct inlay_exec_args *args);
/* See inlay_ext_branches.may. */
uint32_t cpu_may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status cpu_assess(void *state, const struct inlay_assess_request *request, inlay_diag *diag);
#endif

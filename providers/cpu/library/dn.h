/* dn.h - what the region compiler asks of a library of kernels: a table of functions (dn_library).
 *
 * Layouts, operations and what is fused behind them are plain values of our own (rg_md, dn_op, dn_attr). The provider
 * cpu has the empty table of region/no_library.c; the provider onednn has one that makes the descriptors of oneDNN 2 or
 * 3 of them (onednn/dn_v2.c, onednn/dn_v3.c). No header of a library is needed here. */
#ifndef CPU_DN_H
#define CPU_DN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ terms */

typedef enum dn_status {
    DN_SUCCESS,
    DN_OUT_OF_MEMORY,
    DN_INVALID_ARGUMENTS,
    DN_UNIMPLEMENTED
} dn_status; /* or a higher number of the library's */

enum { DN_MAX_NDIMS = 12 };
typedef int64_t dn_dims[DN_MAX_NDIMS];

typedef enum dn_type { DN_TYPE_UNDEFINED, DN_F16, DN_BF16, DN_F32, DN_S32, DN_S8, DN_U8 } dn_type;

/* Algorithms: NAME here, and in the library with dnnl_ before it. */
#define DN_ALGS(X)                                                                                                     \
    X(CONVOLUTION_DIRECT, convolution_direct)                                                                          \
    X(CONVOLUTION_WINOGRAD, convolution_winograd)                                                                      \
    X(DECONVOLUTION_DIRECT, deconvolution_direct)                                                                      \
    X(BINARY_ADD, binary_add)                                                                                          \
    X(BINARY_SUB, binary_sub)                                                                                          \
    X(BINARY_MUL, binary_mul)                                                                                          \
    X(BINARY_DIV, binary_div)                                                                                          \
    X(BINARY_MAX, binary_max)                                                                                          \
    X(BINARY_MIN, binary_min)                                                                                          \
    X(ELTWISE_ABS, eltwise_abs)                                                                                        \
    X(ELTWISE_CLIP_V2, eltwise_clip_v2)                                                                                \
    X(ELTWISE_ELU, eltwise_elu)                                                                                        \
    X(ELTWISE_EXP, eltwise_exp)                                                                                        \
    X(ELTWISE_GELU_ERF, eltwise_gelu_erf)                                                                              \
    X(ELTWISE_GELU_TANH, eltwise_gelu_tanh)                                                                            \
    X(ELTWISE_HARDSWISH, eltwise_hardswish)                                                                            \
    X(ELTWISE_LINEAR, eltwise_linear)                                                                                  \
    X(ELTWISE_LOG, eltwise_log)                                                                                        \
    X(ELTWISE_LOGISTIC, eltwise_logistic)                                                                              \
    X(ELTWISE_MISH, eltwise_mish)                                                                                      \
    X(ELTWISE_RELU, eltwise_relu)                                                                                      \
    X(ELTWISE_SOFT_RELU, eltwise_soft_relu)                                                                            \
    X(ELTWISE_SQRT, eltwise_sqrt)                                                                                      \
    X(ELTWISE_SWISH, eltwise_swish)                                                                                    \
    X(ELTWISE_TANH, eltwise_tanh)                                                                                      \
    X(POOLING_MAX, pooling_max)                                                                                        \
    X(POOLING_AVG_INCLUDE_PADDING, pooling_avg_include_padding)                                                        \
    X(POOLING_AVG_EXCLUDE_PADDING, pooling_avg_exclude_padding)                                                        \
    X(SOFTMAX_ACCURATE, softmax_accurate)                                                                              \
    X(SOFTMAX_LOG, softmax_log)

typedef enum dn_alg {
    DN_ALG_UNDEFINED,
#define DN_ALG(name, theirs) DN_##name,
    DN_ALGS(DN_ALG)
#undef DN_ALG
} dn_alg;

/* Operands of a kernel. The library numbers some of them otherwise: dn_operand_number(). */
enum {
    DN_ARG_SRC = 1,
    DN_ARG_SRC_0 = DN_ARG_SRC,
    DN_ARG_FROM = DN_ARG_SRC,
    DN_ARG_SRC_1 = 2,
    DN_ARG_DST = 17,
    DN_ARG_TO = DN_ARG_DST,
    DN_ARG_WEIGHTS = 33,
    DN_ARG_BIAS = 41,
    DN_ARG_MEAN = 49,
    DN_ARG_VARIANCE = 50,
    DN_ARG_SCALE = 51,
    DN_ARG_SHIFT = 52,
    DN_ARG_SCRATCHPAD = 80,
    DN_ARG_MULTIPLE_SRC = 1024,
    DN_ARG_ATTR_ZERO_POINTS = 4096,
    DN_ARG_ZERO = DN_ARG_ATTR_ZERO_POINTS | DN_ARG_SRC
};
/* The operand of the post operation with this index. */
#define DN_ARG_POST(index) (16384 * ((index) + 1))
#define DN_ARG_SCALES (DN_ARG_POST(0) | DN_ARG_SRC_1)

/* Operands that a kernel tells the layouts of. */
typedef enum dn_operand { DN_OPERAND_SRC, DN_OPERAND_WEIGHTS, DN_OPERAND_DST, DN_OPERAND_SCRATCHPAD } dn_operand;

typedef enum dn_isa { DN_ISA_AVX512_VNNI, DN_ISA_AVX512_BF16 } dn_isa;

/* Flags of DN_BATCH_NORM. */
enum { DN_USE_GLOBAL_STATS = 1, DN_FUSE_RELU = 2, DN_USE_SCALE = 4, DN_USE_SHIFT = 8 };

/* Objects of the library. */
typedef struct dnnl_engine *dn_engine;
typedef struct dnnl_stream *dn_stream;
typedef struct dnnl_primitive *dn_primitive;
typedef struct dnnl_memory *dn_memory;
typedef struct dnnl_primitive_desc *dn_description;
typedef const struct dnnl_primitive_desc *dn_const_description;

typedef struct dn_arg {
    int id; /* dn_operand_number() of a DN_ARG_* */
    dn_memory memory;
} dn_arg;

/* ------------------------------------------------------------------ layouts */

/* ANY: the library chooses. OPAQUE: elements lie as the library alone knows. */
typedef enum rg_layout { RG_UNDEFINED, RG_ANY, RG_BLOCKED, RG_OPAQUE } rg_layout;

enum { RG_MAX_BLOCKS = 4 };

/* How the elements of a tensor lie. All bytes count (memcmp): start from one that is cleared. */
typedef struct rg_md {
    int32_t ndims; /* 0: no tensor */
    dn_type data_type;
    rg_layout kind;
    int32_t inner_nblks;
    int64_t dims[DN_MAX_NDIMS];
    int64_t padded_dims[DN_MAX_NDIMS]; /* up to whole blocks */
    int64_t strides[DN_MAX_NDIMS];     /* of blocks, in elements */
    int64_t inner_blks[RG_MAX_BLOCKS]; /* sizes, from the outermost */
    int64_t inner_idxs[RG_MAX_BLOCKS]; /* axes */
    uint64_t opaque_bytes;
    uint32_t opaque; /* which one: equal numbers are equal layouts */
    uint32_t reserved;
} rg_md;

/* ------------------------------------------------------------------ operations */

typedef enum dn_kind {
    DN_CONVOLUTION = 1,
    DN_DECONVOLUTION,
    DN_INNER_PRODUCT,
    DN_MATMUL,
    DN_BINARY,  /* y = alg(x, w) */
    DN_ELTWISE, /* y = alg(x; alpha, beta) */
    DN_POOLING,
    DN_BATCH_NORM, /* epsilon; flags: DN_USE_* */
    DN_LRN         /* across channels: size, alpha, beta, epsilon as k */
} dn_kind;

/* An operation on operands that lie so. Equal ones are equal bytes. */
typedef struct dn_op {
    dn_kind kind;
    dn_alg alg;
    rg_md input, desc, bias, output;                  /* bias.ndims 0: none */
    dn_dims kernel, strides, dilations, begins, ends; /* dilation 0: neighbours */
    float alpha, beta, epsilon;
    uint32_t flags;
    int64_t size;
} dn_op;

enum { DN_MAX_POSTS = 14 };
typedef enum dn_post_kind { DN_POST_ELTWISE, DN_POST_BINARY, DN_POST_SUM } dn_post_kind;

typedef struct dn_post {
    dn_post_kind kind;
    dn_alg alg;
    float alpha, beta;
    rg_md other; /* BINARY */
} dn_post;

/* What is done with the sums of an operation, in this order: scales, posts, zero point of y. Where there are scales, no
 * post is BINARY. */
typedef struct dn_attr {
    dn_post posts[DN_MAX_POSTS];
    uint32_t post_count;
    bool has_zero;       /* operand DN_ARG_ZERO: one int32, the zero point of x */
    const float *scales; /* of sums of integers, and operand DN_ARG_SCALES; NULL: none */
    rg_md scales_md;     /* [1, channels or 1, 1, ..] */
    int32_t y_zero;
} dn_attr;

/* ------------------------------------------------------------------ the library */

struct rg_state;

/* What a library can do. A provider that has none is handed dn_none, whose kernels are not there. */
typedef struct dn_library {
    const char *title; /* in sentences: "oneDNN" */

    /* Speed of its kernels relative to those of this folder (1: the same), for the price of an op (compile/cost.c): of
     * convolutions as plain sums, of grouped ones of few channels, and of products by constant matrices. */
    double convolution_speed, thin_speed, product_speed;

    /* The library's descriptor of the kernel that it likes best, with the scratchpad left to the caller; attr may be
     * NULL. The caller destroys it. */
    dn_status (*describe)(dn_engine engine, const dn_op *op, const dn_attr *attr, dn_description *out);
    dn_status (*describe_reorder)(dn_engine engine, const rg_md *from, const rg_md *to, dn_description *out);
    dn_status (*describe_concat)(dn_engine engine, const rg_md *output, int axis, const rg_md *xs, uint32_t count,
                                 dn_description *out);
    dn_status (*clone)(dn_description *out, dn_const_description pd);
    void (*destroy)(dn_description pd); /* NULL is a no-op */

    /* Can the library be told of this layout? */
    bool (*knows)(const rg_md *md);
    /* The layout of an operand, DN_OPERAND_*; returns out. ndims 0: it has no such operand. */
    const rg_md *(*layout)(dn_const_description pd, dn_operand which, rg_md *out);
    /* The kernel's name; "" when the library does not tell. */
    const char *(*name)(dn_const_description pd);

    dn_status (*engine_create)(dn_engine *out);
    void (*engine_destroy)(dn_engine engine);
    dn_status (*stream_create)(dn_engine engine, dn_stream *out);
    dn_status (*stream_wait)(dn_stream stream);
    void (*stream_destroy)(dn_stream stream);
    dn_status (*primitive_create)(dn_const_description pd, dn_primitive *out);
    /* The library's number of an operand, DN_ARG_*: dn_arg.id is that one. Versions number attributes differently. */
    int (*operand_number)(int id);
    dn_status (*primitive_execute)(dn_primitive primitive, dn_stream stream, uint32_t count, const dn_arg *args);
    void (*primitive_destroy)(dn_primitive primitive);
    dn_status (*memory_create)(dn_engine engine, const rg_md *md, void *data, dn_memory *out);
    /* Its elements lie there from now on. */
    dn_status (*memory_move)(dn_memory memory, void *data, dn_stream stream);
    void (*memory_destroy)(dn_memory memory);

    /* Copies elements now. dims and offsets: of a part of both tensors, NULL: all. */
    dn_status (*reorder)(dn_engine engine, const rg_md *from, const void *source, const rg_md *to, void *target,
                         const int64_t *dims, const int64_t *offsets);

    /* output[m][n] = a[m][k] * b[k][n] on the thread of the caller; an operand that is turned lies as [k][m], [n][k]. A
     * line is the elements from one row to the next as it lies. */
    dn_status (*sgemm)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                       const float *b, int64_t b_line, float *output, int64_t y_line);

    /* Instructions that the library may use. */
    bool (*has_isa)(dn_isa isa);
    /* major << 48 | minor << 32 | patch */
    uint64_t (*version)(void);
    /* Has this version Winograd's convolutions? */
    bool (*has_winograd)(void);
    /* What an opaque layout is, in words that hold from one process to the next; 0: it can't be said. */
    int (*opaque_words)(const rg_md *md, int64_t *out, int most);
    /* Packs weights of Winograd's convolutions in a layout of the library's; false: not in this one. */
    bool (*pack_winograd)(const struct rg_state *state, const rg_md *plain, const void *source, const rg_md *md,
                          void *target);
} dn_library;

extern const dn_library dn_none;
/* The library of this plugin; dn_none until its front says another. */
extern const dn_library *dn_in_use;

static inline dn_status dn_describe(dn_engine engine, const dn_op *op, const dn_attr *attr, dn_description *out)
{
    return dn_in_use->describe(engine, op, attr, out);
}

static inline dn_status dn_describe_reorder(dn_engine engine, const rg_md *from, const rg_md *to, dn_description *out)
{
    return dn_in_use->describe_reorder(engine, from, to, out);
}

static inline dn_status dn_describe_concat(dn_engine engine, const rg_md *output, int axis, const rg_md *xs,
                                           uint32_t count, dn_description *out)
{
    return dn_in_use->describe_concat(engine, output, axis, xs, count, out);
}

static inline dn_status dn_clone(dn_description *out, dn_const_description pd)
{
    return dn_in_use->clone(out, pd);
}

static inline void dn_destroy(dn_description pd)
{
    dn_in_use->destroy(pd);
}

static inline bool dn_knows(const rg_md *md)
{
    return dn_in_use->knows(md);
}

static inline const rg_md *dn_layout(dn_const_description pd, dn_operand which, rg_md *out)
{
    return dn_in_use->layout(pd, which, out);
}

static inline const char *dn_name(dn_const_description pd)
{
    return dn_in_use->name(pd);
}

static inline dn_status dn_engine_create(dn_engine *out)
{
    return dn_in_use->engine_create(out);
}

static inline void dn_engine_destroy(dn_engine engine)
{
    dn_in_use->engine_destroy(engine);
}

static inline dn_status dn_stream_create(dn_engine engine, dn_stream *out)
{
    return dn_in_use->stream_create(engine, out);
}

static inline dn_status dn_stream_wait(dn_stream stream)
{
    return dn_in_use->stream_wait(stream);
}

static inline void dn_stream_destroy(dn_stream stream)
{
    dn_in_use->stream_destroy(stream);
}

static inline dn_status dn_primitive_create(dn_const_description pd, dn_primitive *out)
{
    return dn_in_use->primitive_create(pd, out);
}

static inline int dn_operand_number(int id)
{
    return dn_in_use->operand_number(id);
}

static inline dn_status dn_primitive_execute(dn_primitive primitive, dn_stream stream, uint32_t count,
                                             const dn_arg *args)
{
    return dn_in_use->primitive_execute(primitive, stream, count, args);
}

static inline void dn_primitive_destroy(dn_primitive primitive)
{
    dn_in_use->primitive_destroy(primitive);
}

static inline dn_status dn_memory_create(dn_engine engine, const rg_md *md, void *data, dn_memory *out)
{
    return dn_in_use->memory_create(engine, md, data, out);
}

static inline dn_status dn_memory_move(dn_memory memory, void *data, dn_stream stream)
{
    return dn_in_use->memory_move(memory, data, stream);
}

static inline void dn_memory_destroy(dn_memory memory)
{
    dn_in_use->memory_destroy(memory);
}

static inline dn_status dn_reorder(dn_engine engine, const rg_md *from, const void *source, const rg_md *to,
                                   void *target, const int64_t *dims, const int64_t *offsets)
{
    return dn_in_use->reorder(engine, from, source, to, target, dims, offsets);
}

static inline dn_status dn_sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a,
                                 int64_t a_line, const float *b, int64_t b_line, float *output, int64_t y_line)
{
    return dn_in_use->sgemm(a_turned, b_turned, m, n, k, a, a_line, b, b_line, output, y_line);
}

static inline bool dn_has_isa(dn_isa isa)
{
    return dn_in_use->has_isa(isa);
}

static inline uint64_t dn_version(void)
{
    return dn_in_use->version();
}

static inline bool dn_has_winograd(void)
{
    return dn_in_use->has_winograd();
}

static inline int dn_opaque_words(const rg_md *md, int64_t *out, int most)
{
    return dn_in_use->opaque_words(md, out, most);
}

#endif

/* library.h - interface of the region compiler to an external kernel library: a table of functions (primitive_library).
 *
 * Layouts, operations and fused epilogues are plain structs (memory_desc, library_op, library_attr). Provider cpu uses
 * the empty table of region/no_library.c. Provider onednn has one table that translates the structs to descriptors of
 * oneDNN 2 (onednn/library_v2.c) and one for oneDNN 3 (onednn/library_v3.c). This header includes no header of a
 * library. */
#ifndef CPU_PRIMITIVE_LIBRARY_H
#define CPU_PRIMITIVE_LIBRARY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ terms */

typedef enum library_status {
    LIBRARY_SUCCESS,
    LIBRARY_OUT_OF_MEMORY,
    LIBRARY_INVALID_ARGUMENTS,
    LIBRARY_UNIMPLEMENTED
} library_status; /* other statuses of the library have higher numbers */

enum { LIBRARY_MAX_NDIMS = 12 };
typedef int64_t library_dims[LIBRARY_MAX_NDIMS];

typedef enum library_type {
    LIBRARY_TYPE_UNDEFINED,
    LIBRARY_F16,
    LIBRARY_BF16,
    LIBRARY_F32,
    LIBRARY_S32,
    LIBRARY_S8,
    LIBRARY_U8
} library_type;

/* Algorithms: X(suffix of LIBRARY_, oneDNN's name without dnnl_). */
#define LIBRARY_ALGS(X)                                                                                                \
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

typedef enum library_alg {
    LIBRARY_ALG_UNDEFINED,
#define LIBRARY_ALG(name, onednn_name) LIBRARY_##name,
    LIBRARY_ALGS(LIBRARY_ALG)
#undef LIBRARY_ALG
} library_alg;

/* Operands of a kernel. library_operand_number() translates them to the library's numbers. */
enum {
    LIBRARY_ARG_SRC = 1,
    LIBRARY_ARG_SRC_0 = LIBRARY_ARG_SRC,
    LIBRARY_ARG_FROM = LIBRARY_ARG_SRC,
    LIBRARY_ARG_SRC_1 = 2,
    LIBRARY_ARG_DST = 17,
    LIBRARY_ARG_TO = LIBRARY_ARG_DST,
    LIBRARY_ARG_WEIGHTS = 33,
    LIBRARY_ARG_BIAS = 41,
    LIBRARY_ARG_MEAN = 49,
    LIBRARY_ARG_VARIANCE = 50,
    LIBRARY_ARG_SCALE = 51,
    LIBRARY_ARG_SHIFT = 52,
    LIBRARY_ARG_SCRATCHPAD = 80,
    LIBRARY_ARG_MULTIPLE_SRC = 1024,
    LIBRARY_ARG_ATTR_ZERO_POINTS = 4096,
    LIBRARY_ARG_ZERO = LIBRARY_ARG_ATTR_ZERO_POINTS | LIBRARY_ARG_SRC
};
/* The second operand of the post-op with this index. */
#define LIBRARY_ARG_POST(index) (16384 * ((index) + 1))
#define LIBRARY_ARG_SCALES (LIBRARY_ARG_POST(0) | LIBRARY_ARG_SRC_1)

/* Operands whose layouts can be queried. */
typedef enum library_operand {
    LIBRARY_OPERAND_SRC,
    LIBRARY_OPERAND_WEIGHTS,
    LIBRARY_OPERAND_DST,
    LIBRARY_OPERAND_SCRATCHPAD
} library_operand;

typedef enum library_isa { LIBRARY_ISA_AVX512_VNNI, LIBRARY_ISA_AVX512_BF16 } library_isa;

/* Flags of LIBRARY_BATCH_NORM. */
enum { LIBRARY_USE_GLOBAL_STATS = 1, LIBRARY_FUSE_RELU = 2, LIBRARY_USE_SCALE = 4, LIBRARY_USE_SHIFT = 8 };

/* Objects of the library. */
typedef struct dnnl_engine *library_engine;
typedef struct dnnl_stream *library_stream;
typedef struct dnnl_primitive *library_primitive;
typedef struct dnnl_memory *library_memory;
typedef struct dnnl_primitive_desc *library_description;
typedef const struct dnnl_primitive_desc *library_const_description;

typedef struct library_arg {
    int id; /* library_operand_number() of a LIBRARY_ARG_* */
    library_memory memory;
} library_arg;

/* ------------------------------------------------------------------ layouts */

/* ANY: the library chooses the layout. OPAQUE: a layout that only the library can read. */
typedef enum cpu_layout { CPU_UNDEFINED, CPU_ANY, CPU_BLOCKED, CPU_OPAQUE } cpu_layout;

enum { CPU_MAX_BLOCKS = 4 };

/* The memory layout of a tensor. Descriptors are compared with memcmp(), so initialise all bytes with 0. */
typedef struct memory_desc {
    int32_t ndims; /* 0: no tensor */
    library_type data_type;
    cpu_layout kind;
    int32_t inner_nblks;
    int64_t dims[LIBRARY_MAX_NDIMS];
    int64_t padded_dims[LIBRARY_MAX_NDIMS]; /* dims rounded up to whole blocks */
    int64_t strides[LIBRARY_MAX_NDIMS];     /* of blocks, in elements */
    int64_t inner_blks[CPU_MAX_BLOCKS];     /* sizes of the blocks, outermost first */
    int64_t inner_idxs[CPU_MAX_BLOCKS];     /* axes of the blocks */
    uint64_t opaque_bytes;
    uint32_t opaque; /* identifier of an opaque layout: equal numbers are equal layouts */
    uint32_t reserved;
} memory_desc;

/* ------------------------------------------------------------------ operations */

typedef enum library_kind {
    LIBRARY_CONVOLUTION = 1,
    LIBRARY_DECONVOLUTION,
    LIBRARY_INNER_PRODUCT,
    LIBRARY_MATMUL,
    LIBRARY_BINARY,  /* y = alg(x, w) */
    LIBRARY_ELTWISE, /* y = alg(x; alpha, beta) */
    LIBRARY_POOLING,
    LIBRARY_BATCH_NORM, /* epsilon; flags: LIBRARY_USE_* */
    LIBRARY_LRN         /* across channels: size, alpha, beta; epsilon is k */
} library_kind;

/* An operation and the layouts of its operands. Compared with memcmp(). */
typedef struct library_op {
    library_kind kind;
    library_alg alg;
    memory_desc input, weights, bias, output;              /* bias.ndims 0: none */
    library_dims kernel, strides, dilations, begins, ends; /* dilation 0: adjacent taps */
    float alpha, beta, epsilon;
    uint32_t flags;
    int64_t size;
} library_op;

enum { LIBRARY_MAX_POSTS = 14 };
typedef enum library_post_kind { LIBRARY_POST_ELTWISE, LIBRARY_POST_BINARY, LIBRARY_POST_SUM } library_post_kind;

typedef struct library_post {
    library_post_kind kind;
    library_alg alg;
    float alpha, beta;
    memory_desc other; /* BINARY */
} library_post;

/* The fused epilogue of an operation, in this order: scales, posts, zero point of y. With scales, no post is BINARY. */
typedef struct library_attr {
    library_post posts[LIBRARY_MAX_POSTS];
    uint32_t post_count;
    bool has_zero;         /* operand LIBRARY_ARG_ZERO: one int32, the zero point of x */
    const float *scales;   /* factors of integer sums; oneDNN 3 reads operand LIBRARY_ARG_SCALES instead; NULL: none */
    memory_desc scales_md; /* [1, channels or 1, 1, ..] */
    int32_t y_zero;
} library_attr;

/* ------------------------------------------------------------------ the library */

struct cpu_state;

/* The functions of a library. Providers without one use library_none, which supports no kernel. */
typedef struct primitive_library {
    const char *title; /* for messages: "oneDNN" */

    /* Speed of the library's kernels relative to the built-in ones (1: the same), for the cost model (compile/cost.c):
     * convolutions as plain sums, grouped convolutions with few channels per group, and matrix multiplications with
     * constant weights. */
    double convolution_speed, thin_speed, product_speed;

    /* Creates the descriptor of the library's preferred kernel; the caller provides the scratchpad. attr may be NULL.
     * The caller destroys the descriptor. */
    library_status (*describe)(library_engine engine, const library_op *op, const library_attr *attr,
                               library_description *out);
    library_status (*describe_reorder)(library_engine engine, const memory_desc *from, const memory_desc *to,
                                       library_description *out);
    library_status (*describe_concat)(library_engine engine, const memory_desc *output, int axis, const memory_desc *xs,
                                      uint32_t count, library_description *out);
    library_status (*clone)(library_description *out, library_const_description pd);
    void (*destroy)(library_description pd); /* NULL is a no-op */

    /* Can the library represent this layout? */
    bool (*knows)(const memory_desc *md);
    /* Stores the layout of an operand and returns out. ndims 0: the kernel has no such operand. */
    const memory_desc *(*layout)(library_const_description pd, library_operand which, memory_desc *out);
    /* The kernel's name; "" if unknown. */
    const char *(*name)(library_const_description pd);

    library_status (*engine_create)(library_engine *out);
    void (*engine_destroy)(library_engine engine);
    library_status (*stream_create)(library_engine engine, library_stream *out);
    library_status (*stream_wait)(library_stream stream);
    void (*stream_destroy)(library_stream stream);
    library_status (*primitive_create)(library_const_description pd, library_primitive *out);
    /* The library's number of operand LIBRARY_ARG_*, for library_arg.id. Versions number attributes differently. */
    int (*operand_number)(int id);
    library_status (*primitive_execute)(library_primitive primitive, library_stream stream, uint32_t count,
                                        const library_arg *args);
    void (*primitive_destroy)(library_primitive primitive);
    library_status (*memory_create)(library_engine engine, const memory_desc *md, void *data, library_memory *out);
    /* Sets the address of the elements. */
    library_status (*memory_move)(library_memory memory, void *data, library_stream stream);
    void (*memory_destroy)(library_memory memory);

    /* Copies elements on the calling thread. dims and offsets: a part of both tensors; NULL: all elements. */
    library_status (*reorder)(library_engine engine, const memory_desc *from, const void *source, const memory_desc *to,
                              void *target, const int64_t *dims, const int64_t *offsets);

    /* output[m][n] = a[m][k] * b[k][n] on the calling thread. A transposed operand is stored as [k][m] or [n][k]. A
     * line is the number of elements from one stored row to the next. */
    library_status (*sgemm)(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float *a,
                            int64_t a_line, const float *b, int64_t b_line, float *output, int64_t y_line);

    /* May the library use these instructions? */
    bool (*has_isa)(library_isa isa);
    /* major << 48 | minor << 32 | patch */
    uint64_t (*version)(void);
    /* Does this version support Winograd convolutions? */
    bool (*has_winograd)(void);
    /* Describes an opaque layout by at most `most` integers that stay valid across processes. Returns their count; 0:
     * not possible. */
    int (*opaque_words)(const memory_desc *md, int64_t *out, int most);
    /* Packs weights of Winograd convolutions in an opaque layout of the library. false: the layout is not supported. */
    bool (*pack_winograd)(const struct cpu_state *state, const memory_desc *plain, const void *source,
                          const memory_desc *md, void *target);
} primitive_library;

extern const primitive_library library_none;
/* The library of this plugin; library_none until a provider with a library is created. */
extern const primitive_library *library_in_use;

static inline library_status library_describe(library_engine engine, const library_op *op, const library_attr *attr,
                                              library_description *out)
{
    return library_in_use->describe(engine, op, attr, out);
}

static inline library_status library_describe_reorder(library_engine engine, const memory_desc *from,
                                                      const memory_desc *to, library_description *out)
{
    return library_in_use->describe_reorder(engine, from, to, out);
}

static inline library_status library_describe_concat(library_engine engine, const memory_desc *output, int axis,
                                                     const memory_desc *xs, uint32_t count, library_description *out)
{
    return library_in_use->describe_concat(engine, output, axis, xs, count, out);
}

static inline library_status library_clone(library_description *out, library_const_description pd)
{
    return library_in_use->clone(out, pd);
}

static inline void library_destroy(library_description pd)
{
    library_in_use->destroy(pd);
}

static inline bool library_knows(const memory_desc *md)
{
    return library_in_use->knows(md);
}

static inline const memory_desc *library_layout(library_const_description pd, library_operand which, memory_desc *out)
{
    return library_in_use->layout(pd, which, out);
}

static inline const char *library_name(library_const_description pd)
{
    return library_in_use->name(pd);
}

static inline library_status library_engine_create(library_engine *out)
{
    return library_in_use->engine_create(out);
}

static inline void library_engine_destroy(library_engine engine)
{
    library_in_use->engine_destroy(engine);
}

static inline library_status library_stream_create(library_engine engine, library_stream *out)
{
    return library_in_use->stream_create(engine, out);
}

static inline library_status library_stream_wait(library_stream stream)
{
    return library_in_use->stream_wait(stream);
}

static inline void library_stream_destroy(library_stream stream)
{
    library_in_use->stream_destroy(stream);
}

static inline library_status library_primitive_create(library_const_description pd, library_primitive *out)
{
    return library_in_use->primitive_create(pd, out);
}

static inline int library_operand_number(int id)
{
    return library_in_use->operand_number(id);
}

static inline library_status library_primitive_execute(library_primitive primitive, library_stream stream,
                                                       uint32_t count, const library_arg *args)
{
    return library_in_use->primitive_execute(primitive, stream, count, args);
}

static inline void library_primitive_destroy(library_primitive primitive)
{
    library_in_use->primitive_destroy(primitive);
}

static inline library_status library_memory_create(library_engine engine, const memory_desc *md, void *data,
                                                   library_memory *out)
{
    return library_in_use->memory_create(engine, md, data, out);
}

static inline library_status library_memory_move(library_memory memory, void *data, library_stream stream)
{
    return library_in_use->memory_move(memory, data, stream);
}

static inline void library_memory_destroy(library_memory memory)
{
    library_in_use->memory_destroy(memory);
}

static inline library_status library_reorder(library_engine engine, const memory_desc *from, const void *source,
                                             const memory_desc *to, void *target, const int64_t *dims,
                                             const int64_t *offsets)
{
    return library_in_use->reorder(engine, from, source, to, target, dims, offsets);
}

static inline library_status library_sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                                           const float *a, int64_t a_line, const float *b, int64_t b_line,
                                           float *output, int64_t y_line)
{
    return library_in_use->sgemm(a_transposed, b_transposed, m, n, k, a, a_line, b, b_line, output, y_line);
}

static inline bool library_has_isa(library_isa isa)
{
    return library_in_use->has_isa(isa);
}

static inline uint64_t library_version(void)
{
    return library_in_use->version();
}

static inline bool library_has_winograd(void)
{
    return library_in_use->has_winograd();
}

static inline int library_opaque_words(const memory_desc *md, int64_t *out, int most)
{
    return library_in_use->opaque_words(md, out, most);
}

#endif

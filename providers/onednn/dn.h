/* dn.h - oneDNN as this provider uses it: one interface to versions 2 and 3 of the library.
 *
 * Layouts, operations and what is fused behind them are plain values of our own (rg_md, dn_op, dn_attr). dn_v2.c and
 * dn_v3.c make the library's descriptors of them; CMake builds the one that fits the installed headers. Nothing else in
 * this folder calls a function of oneDNN's, hence the header of types alone. late.c opens the library. */
#ifndef ONEDNN_DN_H
#define ONEDNN_DN_H
#include <oneapi/dnnl/dnnl_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ layouts */

/* ANY: the library chooses. OPAQUE: elements lie as the library alone knows. */
typedef enum rg_layout { RG_UNDEFINED, RG_ANY, RG_BLOCKED, RG_OPAQUE } rg_layout;

enum { RG_MAX_BLOCKS = 4 };

/* How the elements of a tensor lie. All bytes count (memcmp): start from one that is cleared. */
typedef struct rg_md {
    int32_t ndims; /* 0: no tensor */
    dnnl_data_type_t data_type;
    rg_layout kind;
    int32_t inner_nblks;
    int64_t dims[DNNL_MAX_NDIMS];
    int64_t padded_dims[DNNL_MAX_NDIMS]; /* up to whole blocks */
    int64_t strides[DNNL_MAX_NDIMS];     /* of blocks, in elements */
    int64_t inner_blks[RG_MAX_BLOCKS];   /* sizes, from the outermost */
    int64_t inner_idxs[RG_MAX_BLOCKS];   /* axes */
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
    DN_BATCH_NORM, /* epsilon; flags: dnnl_use_* */
    DN_LRN         /* across channels: size, alpha, beta, epsilon as k */
} dn_kind;

/* An operation on operands that lie so. Equal ones are equal bytes. */
typedef struct dn_op {
    dn_kind kind;
    dnnl_alg_kind_t alg;
    rg_md x, w, bias, y;                                  /* bias.ndims 0: none */
    dnnl_dims_t kernel, strides, dilations, begins, ends; /* dilation 0: neighbours */
    float alpha, beta, epsilon;
    uint32_t flags;
    int64_t size;
} dn_op;

enum { DN_MAX_POSTS = 14 };
typedef enum dn_post_kind { DN_POST_ELTWISE, DN_POST_BINARY, DN_POST_SUM } dn_post_kind;

typedef struct dn_post {
    dn_post_kind kind;
    dnnl_alg_kind_t alg;
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

#define DN_ARG_ZERO (DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC)
#define DN_ARG_SCALES (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)

/* The library's descriptor of the kernel that it likes best, with the scratchpad left to the caller; attr may be NULL.
 * The caller destroys it. */
dnnl_status_t dn_describe(dnnl_engine_t engine, const dn_op *op, const dn_attr *attr, dnnl_primitive_desc_t *out);
dnnl_status_t dn_describe_reorder(dnnl_engine_t engine, const rg_md *from, const rg_md *to, dnnl_primitive_desc_t *out);
dnnl_status_t dn_describe_concat(dnnl_engine_t engine, const rg_md *y, int axis, const rg_md *xs, uint32_t count,
                                 dnnl_primitive_desc_t *out);
dnnl_status_t dn_clone(dnnl_primitive_desc_t *out, const_dnnl_primitive_desc_t pd);
void dn_destroy(dnnl_primitive_desc_t pd); /* NULL is a no-op */

/* Can the library be told of this layout? */
bool dn_knows(const rg_md *md);
/* The layout of an operand, dnnl_query_*_md; returns out. ndims 0: it has no such operand. */
const rg_md *dn_layout(const_dnnl_primitive_desc_t pd, dnnl_query_t which, rg_md *out);
/* The kernel's name; "" when the library does not tell. */
const char *dn_name(const_dnnl_primitive_desc_t pd);

/* ------------------------------------------------------------------ running */

dnnl_status_t dn_engine_create(dnnl_engine_t *out);
void dn_engine_destroy(dnnl_engine_t engine);
dnnl_status_t dn_stream_create(dnnl_engine_t engine, dnnl_stream_t *out);
dnnl_status_t dn_stream_wait(dnnl_stream_t stream);
void dn_stream_destroy(dnnl_stream_t stream);
dnnl_status_t dn_primitive_create(const_dnnl_primitive_desc_t pd, dnnl_primitive_t *out);
dnnl_status_t dn_primitive_execute(dnnl_primitive_t primitive, dnnl_stream_t stream, uint32_t count,
                                   const dnnl_exec_arg_t *args);
void dn_primitive_destroy(dnnl_primitive_t primitive);
dnnl_status_t dn_memory_create(dnnl_engine_t engine, const rg_md *md, void *data, dnnl_memory_t *out);
/* Its elements lie there from now on. */
dnnl_status_t dn_memory_move(dnnl_memory_t memory, void *data, dnnl_stream_t stream);
void dn_memory_destroy(dnnl_memory_t memory);

/* Copies elements now. dims and offsets: of a part of both tensors, NULL: all. */
dnnl_status_t dn_reorder(dnnl_engine_t engine, const rg_md *from, const void *source, const rg_md *to, void *target,
                         const int64_t *dims, const int64_t *offsets);

/* y[m][n] = a[m][k] * b[k][n] on the thread of the caller; an operand that is turned lies as [k][m], [n][k]. A line is
 * the elements from one row to the next as it lies. */
dnnl_status_t dn_sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                       const float *b, int64_t b_line, float *y, int64_t y_line);

/* Instructions that the library may use. */
bool dn_has_isa(dnnl_cpu_isa_t isa);
/* major << 48 | minor << 32 | patch */
uint64_t dn_version(void);
/* Has this version Winograd's convolutions? */
bool dn_has_winograd(void);
/* What an opaque layout is, in words that hold from one process to the next; 0: it can't be said. */
int dn_opaque_words(const rg_md *md, int64_t *out, int most);
#endif

/* inlay/graph_view.h - a model as a plugin sees it: nodes, values, attributes, and the definitions of operators.
 *
 * Part of the plugin ABI: terms and rules of inlay/plugin.h apply. Code that only reads graphs includes this header. */
#ifndef INLAY_GRAPH_VIEW_H
#define INLAY_GRAPH_VIEW_H
#include "inlay/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The graph that a plugin sees.
 *
 * A flat, read-only snapshot of a graph: values, and nodes in topological order, both identified by index. It contains
 * no subgraphs: the host runs If, Loop and Scan, and each body is a separate graph, except for providers that request
 * them (INLAY_EXT_BODIES in extensions.h). The host fills in the default values of attributes that a node omits.
 * All memory is borrowed for the call that receives it, except constant data, see inlay_compile_request.constants.
 *
 * Operators that the model file does not contain. The optimiser inserts some operators, at the newest version that it
 * needs, independently of the opset that the model imports (Swish-24 in a model of opset 17); see
 * inlay_node_info.since_version. A provider need not support them: a rewrite whose result no provider supports is
 * undone. If one provider supports only the original form and another only the rewritten form, the host uses the
 * cheaper one. Besides the operators of the file, a provider may get these:
 *     of ai.onnx: Add, Attention, AveragePool, Cast, Clip, Concat, ConvInteger, DequantizeLinear, Div, Einsum, Expand,
 *     Gelu, Gemm, GlobalAveragePool, HardSigmoid, HardSwish, Identity, LayerNormalization, LeakyRelu, LogSoftmax,
 *     MatMul, MatMulInteger, Max, Min, Mish, Mul, Not, Or, QLinearConv, QuantizeLinear, RMSNormalization, ReduceMax,
 *     ReduceMean, ReduceMin, ReduceSum, Reshape, Round, SequenceConstruct, Shape, Sigmoid, Slice, Softmax, Split,
 *     Squeeze, Sub, Swish, Transpose, Unsqueeze, Where;
 *     of com.microsoft: SkipLayerNormalization, SkipSimplifiedLayerNormalization;
 *     of ai.inlay (inlay's own): Attention, CachedAttention, DequantizeRows, GatherMatMul, LowRank, QuantizeRows,
 *     SearchEnd, SearchStart, SearchStep, SparseToDense, UnpackBlocks.
 * The list grows with the ABI minor version. For a plugin built for an older minor, nodes of operators added since are
 * not candidates.
 *
 * Element types are added as well. A node is not a candidate for a plugin whose minor is older than the element type of
 * one of the node's inputs or outputs, or of a tensor attribute. So a plugin never computes with an element type that
 * it does not know. It may see such a type in the graph, as inlay_value_info.dtype of the values of other nodes.
 * Numbers below the INLAY_DTYPE_COUNT that the plugin was compiled with mean the same types as in its types.h. */

/* Kinds of attributes, with the numbers of ONNX's AttributeProto.AttributeType. */
enum {
    INLAY_ATTR_FLOAT = 1,
    INLAY_ATTR_INT = 2,
    INLAY_ATTR_STRING = 3,
    INLAY_ATTR_TENSOR = 4,
    INLAY_ATTR_FLOATS = 6,
    INLAY_ATTR_INTS = 7,
    INLAY_ATTR_STRINGS = 8
};

/* An attribute; kind selects the valid members. */
typedef struct inlay_attr_info {
    inlay_str name;
    uint32_t kind;  /* INLAY_ATTR_*; ignore attributes of other kinds, which are for the host */
    uint32_t count; /* elements of floats, ints, strings */
    int64_t i;      /* INT */
    double f;       /* FLOAT: the file's float, widened */
    inlay_str s;    /* STRING */
    const int64_t *ints;
    const float *floats;
    const inlay_str *strings;
    const inlay_tensor_view *tensor; /* TENSOR; the data may be misaligned */
} inlay_attr_info;

struct inlay_body;
/* A node. since_version is the version of the operator's schema, not the model's opset: Add in opset 15 is Add-14. */
typedef struct inlay_node_info {
    inlay_str name;    /* unique in the graph, never empty: the host names unnamed nodes */
    inlay_str domain;  /* "ai.onnx" for ONNX's own operators, never empty */
    inlay_str op_type; /* "Conv" */
    uint32_t since_version;
    uint32_t flags;          /* 0 in version 1 */
    const uint32_t *inputs;  /* [input_count] value indices; INLAY_NONE = omitted */
    const uint32_t *outputs; /* [output_count] value indices; INLAY_NONE = omitted */
    uint32_t input_count;
    uint32_t output_count;
    const inlay_attr_info *attrs;
    uint32_t attr_count;
    uint32_t attr_stride;            /* size of an element of attrs in bytes */
    const struct inlay_body *bodies; /* [body_count] of If, Loop and Scan, see INLAY_EXT_BODIES in extensions.h */
    uint32_t body_count;
    uint32_t body_stride;
} inlay_node_info;

/* Kinds of values. */
enum { INLAY_VALUE_TENSOR = 1, INLAY_VALUE_SEQUENCE = 2, INLAY_VALUE_OPTIONAL = 3, INLAY_VALUE_MAP = 4 };
/* Flags of values. */
enum {
    INLAY_VALUE_GRAPH_INPUT = 1u << 0,
    INLAY_VALUE_GRAPH_OUTPUT = 1u << 1,
    /* A constant: data holds the elements. They are the same in every graph that contains the value, but the pointer is
     * valid only as stated at inlay_compile_request.constants. */
    INLAY_VALUE_CONSTANT = 1u << 2
};

/* A value: an input, an output, a constant, or the result of a node. */
typedef struct inlay_value_info {
    inlay_str name;
    uint32_t kind;         /* INLAY_VALUE_TENSOR ...; inputs and outputs of candidates are TENSOR */
    uint32_t flags;        /* INLAY_VALUE_GRAPH_INPUT, _GRAPH_OUTPUT, _CONSTANT */
    inlay_dtype dtype;     /* INLAY_UNDEFINED if type inference could not determine it */
    uint32_t rank;         /* number of dims, or INLAY_RANK_UNKNOWN */
    const inlay_dim *dims; /* [rank]; meaningless if rank is INLAY_RANK_UNKNOWN */
    /* elements that are known before the run (constants and folded shape arithmetic), or NULL. The data comes directly
     * from the file and may be misaligned: read it with memcpy, or use inlay_host.align_constant */
    const void *data;
    uint64_t data_bytes; /* size of data */
    /* for small integer tensors whose elements are dimensions (outputs of Shape, Concat of dims): [element_count]
     * dimensions, row-major; otherwise NULL */
    const inlay_dim *elements;
    uint64_t element_count;
    /* hash of dtype, dims and data of a constant; otherwise 0. Not cryptographic; the same in every process, but
     * another version of the host may compute it differently */
    uint64_t content_hash;
    uint32_t producer; /* node index, INLAY_NONE for inputs and constants */
    uint32_t reserved;
} inlay_value_info;

/* A named dimension, with bounds if they are known. */
typedef struct inlay_symbol_info {
    inlay_str name; /* for messages: name in the model ("batch"), or an expression of such names ("(height/2)") */
    int64_t min;    /* at least 0 */
    int64_t max;    /* INT64_MAX = unknown */
} inlay_symbol_info;

/* A graph. Arrays are accessed through their strides, see inlay_graph_node() and inlay_graph_value(). */
typedef struct inlay_graph {
    uint64_t struct_size;
    inlay_str name;
    uint64_t content_hash;            /* of structure, attributes and constants, as inlay_value_info.content_hash */
    const inlay_node_info *nodes;     /* [node_count] */
    const inlay_value_info *values;   /* [value_count] */
    const inlay_symbol_info *symbols; /* [symbol_count]; index 0 stands for no symbol */
    const uint32_t *inputs;           /* [input_count] value indices */
    const uint32_t *outputs;          /* [output_count] value indices */
    uint32_t node_count, node_stride;
    uint32_t value_count, value_stride;
    uint32_t symbol_count, symbol_stride;
    uint32_t input_count, output_count;
    uint64_t constant_bytes; /* total size of the constants in bytes */
} inlay_graph;

/* Returns the node at an index, which must be below graph->node_count. */
static inline const inlay_node_info *inlay_graph_node(const inlay_graph *graph, uint32_t node)
{
    return INLAY_AT(inlay_node_info, graph->nodes, graph->node_stride, node);
}
/* Returns the value at an index, which must be below graph->value_count; NULL for INLAY_NONE. */
static inline const inlay_value_info *inlay_graph_value(const inlay_graph *graph, uint32_t value)
{
    return value == INLAY_NONE ? NULL : INLAY_AT(inlay_value_info, graph->values, graph->value_stride, value);
}

/* Operators.
 *
 * A plugin with custom operators states the schema of each in one line:
 *
 *     "X:T, scale:T, mask?:M -> Y:T; T=float|double, M=bool; axis:i=-1, mode:s='fast', pads:is"
 *
 * inputs -> outputs; type sets; attributes. `?` marks an optional input, `*` a variadic one (`*2` requires at least
 * two). `%` is `*` with inputs that may differ in type. Attribute kinds are i, f, s, t (tensor) and is, fs, ss; a
 * trailing `!` makes the attribute required, `=` states the default; "..." as the last attribute permits any others.
 * Types have the names of INLAY_DTYPE_LIST; seq(T), optional(T) and map(K,V) can be nested. */

/* Arguments of shape inference. Borrowed for the call, also the functions. It is called when the model is loaded, where
 * sizes may be symbols or unknown, and again whenever more sizes are known, up to the run itself; the same input must
 * give the same result. A failure ends the loading of the model, or the run. */
typedef struct inlay_infer {
    uint64_t struct_size;
    void *ctx; /* first argument of the functions below */
    const inlay_node_info *node;
    const inlay_value_info *const *inputs; /* [input_count]; NULL = omitted */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t node_bytes;  /* sizeof(inlay_node_info) of the host, for INLAY_STRIDE_HAS */
    uint32_t value_bytes; /* sizeof(inlay_value_info) of the host */
    /* Sets type and shape of an output; a second call for the same output replaces the first. dtype INLAY_UNDEFINED
     * keeps the type of the schema; rank INLAY_RANK_UNKNOWN: the shape is not known. dims are copied. Outputs that are
     * not set have the type of the schema, and the shape that the file states, if any. If set_output fails, infer
     * returns its status. */
    inlay_status (*set_output)(void *ctx, uint32_t output, inlay_dtype dtype, uint32_t rank, const inlay_dim *dims);
    /* Returns the symbol with this name or expression, which it creates if necessary when the model is loaded. 0: no
     * symbol, because memory ran out, or because infer is called after the load; a dimension with symbol 0 counts as
     * unknown */
    uint32_t (*symbol)(void *ctx, const char *name);
} inlay_infer;

/* An example that plugin-check and the tests run: inputs and expected outputs, dense host tensors. Optional inputs can
 * be omitted at the end. An example has at most 24 inputs, 16 outputs, 24 attributes and tensors of rank 8. */
typedef struct inlay_op_example {
    const char *name;
    const inlay_attr_info *attrs;     /* [attr_count] */
    const inlay_tensor_view *inputs;  /* [input_count] */
    const inlay_tensor_view *outputs; /* [output_count] */
    uint32_t attr_count, attr_stride;
    uint32_t input_count, output_count;
    double rtol, atol; /* |got - want| <= atol + rtol * |want| */
} inlay_op_example;

enum {
    INLAY_OPERATOR_RANDOM = 1u << 0 /* two runs may differ, or have side effects: never folded, never merged */
};

/* A custom operator. */
typedef struct inlay_operator {
    uint64_t struct_size;
    const char *domain;     /* "com.example"; the domains of ONNX are rejected */
    const char *op_type;    /* "Blur" */
    const char *signature;  /* the schema, as above */
    const char *doc;        /* optional: one paragraph */
    uint32_t since_version; /* from 1; a model uses the newest version that is not above the version that it imports */
    uint32_t flags;         /* INLAY_OPERATOR_* */
    void *ctx;              /* first argument of infer */
    /* optional; NULL: shapes are known only after execution */
    inlay_status (*infer)(void *ctx, inlay_infer *infer, inlay_diag *diag);
    const inlay_op_example *examples; /* [example_count]; optional */
    uint32_t example_count, example_stride;
} inlay_operator;

#ifdef __cplusplus
}
#endif
#endif

/* ops/schema.h - the schemas of ONNX's operators: every since_version as a const row.
 *
 * A row's signature says in one line what ONNX's documentation says in a table:
 *
 *     { "Gemm", 13, 0, "A:T, B:T, C?:T -> Y:T; T=@math_ir4; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
 *
 * Rows live in one file per operator or family under ops/<dir>/, are listed in ops/ops.def, and are parsed when a model
 * first uses them: an unused operator costs its text. Custom operators of plugins (inlay_operator in inlay/plugin.h)
 * are written in the same notation and parsed by the same code:
 *
 *     signature = [formals] "->" [formals] [";" [types] [";" [attrs]]]
 *     formals   = formal {"," formal}
 *     formal    = name ["?" | "*" [number] | "%" [number]] ":" (name of a type | set)
 *     types     = name "=" set {"," name "=" set}
 *     set       = term {("|" | "-") term}
 *     term      = element type | "@" alias | "seq(" set ")" | "optional(" set ")" | "map(" key "," value ")"
 *     attrs     = attr {"," attr}
 *     attr      = name ":" kind ["!" | "=" default] | "..."
 *
 * "?" marks an optional formal. "*" marks the last one as variadic, all of one type, "%" as variadic with types that
 * may differ; the number is the least count (1 if left out). Formals that share a named type have the same type in a
 * node. Element types are named as in ONNX and mean tensors ("float" is tensor(float)). "-" takes away from what stands
 * to the left of it. map keys are int64 and string, map values float, double, int64 and string.
 *
 * Kinds of attributes: i int, f float, s string, t tensor, g graph, and is, fs, ss, ts, gs the lists of these; sp
 * sparse tensor, tp type. "!" makes the attribute required. Defaults: 3, 0.5, 'text', [1,2], ['a','b']. "..." at
 * the end takes attributes of any other name and kind.
 *
 * Aliases of sets of element types:
 *     @signed, @unsigned, @integer   int8 to int64, uint8 to uint64, both
 *     @float, @float_ir4             float16, float and double; with bfloat16
 *     @float8                        the four 8-bit floats of IR 9 (not float8e8m0)
 *     @complex                       complex64 and complex128
 *     @numeric, @numeric_ir4         @integer and @float; with bfloat16
 *     @math, @math_ir4               the same without the 8- and 16-bit integers
 *     @all                           @numeric, bool, string, @complex: what ONNX had at first
 *     @all_ir4, _ir9 ... _ir13       with what each IR version added: bfloat16; @float8; uint4 and int4; float4e2m1;
 *                                    float8e8m0; uint2 and int2 */
#ifndef OPS_SCHEMA_H
#define OPS_SCHEMA_H
#include "infer/infer.h"
#include <stdbool.h>

enum {
    OP_DEPRECATED = 1u << 0, /* still in the file format, no longer to be used by this version */
    OP_HOST = 1u << 1,       /* control flow, sequences, optionals: run by the host, never offered to providers */
    OP_RANDOM = 1u << 2      /* two runs differ: never folded, never merged */
};

typedef struct op_row {
    const char *op_type;
    uint32_t since_version;
    uint32_t flags;        /* OP_* */
    const char *signature; /* see above */
    op_infer_fn infer;     /* NULL: no shape inference yet; types still follow from the signature */
} op_row;

/* The rows of one source file. */
typedef struct op_table {
    const char *domain; /* "ai.onnx", "ai.onnx.ml", ... */
    const op_row *rows; /* [count], the versions of an operator together and ascending */
    uint32_t count;
} op_table;

/* The row that an import of `domain` at `opset` binds: the newest since_version not above opset. domain "" is
 * "ai.onnx". NULL: no such operator, or it is newer than opset; *out_lowest (may be NULL) is the lowest since_version
 * there is, 0 when the operator is unknown. Thread-safe. */
const op_row *op_find(const char *domain, const char *op_type, int64_t opset, uint32_t *out_lowest);

/* Is the domain one of ONNX's own? */
bool op_domain_known(const char *domain);
/* The highest opset of a known domain that the rows cover (28 for ai.onnx), 0 otherwise. */
int64_t op_domain_newest(const char *domain);
/* The operator of that domain whose name is nearest (edit distance at most 3), NULL if none is: for messages. */
const char *op_nearest(const char *domain, const char *op_type);
/* All tables, for tests and listings. */
const op_table *const *op_tables(uint32_t *out_count);

#define OP_COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof((rows)[0])))

/* ------------------------------------------------------------------ a parsed signature */

enum { OP_SINGLE = 0, OP_OPTIONAL = 1, OP_VARIADIC = 2, OP_VARIADIC_MIXED = 3 };

/* A set of value types. Tensors are one bit each in a mask by dtype; so are seq(tensor(T)), optional(tensor(T)) and
 * optional(seq(tensor(T))); the few maps of ai.onnx.ml are bits of maps. */
typedef struct op_types {
    uint32_t tensor;
    uint32_t sequence;
    uint32_t optional;
    uint32_t optional_sequence;
    uint32_t sequence_map; /* seq(map(K,V)), by op_map_bit() */
    uint32_t map;          /* map(K,V), by op_map_bit() */
} op_types;

/* The bit of map(key,value): key INT64 or STRING; value FLOAT, DOUBLE, INT64 or STRING. 0 for others. */
uint32_t op_map_bit(inlay_dtype key, inlay_dtype value);

typedef struct op_formal {
    const char *name;
    uint32_t option;    /* OP_SINGLE ... */
    uint32_t min_arity; /* of variadic ones */
    int32_t type_param; /* index into types of the letter; formals with the same index have the same type */
} op_formal;

typedef struct op_type_param {
    const char *name; /* "T"; a formal whose type is written out gets a nameless one of its own */
    op_types types;
} op_type_param;

typedef struct op_attr {
    const char *name;
    uint32_t kind; /* INLAY_ATTR_*, or OP_ATTR_* below */
    bool required;
    bool has_default;
    int64_t i;                  /* default of INT */
    double f;                   /* default of FLOAT: a float, widened */
    const char *s;              /* default of STRING */
    const int64_t *ints;        /* default of INTS */
    const char *const *strings; /* default of STRINGS */
    const float *floats;        /* default of FLOATS */
    uint32_t count;             /* of the default list */
} op_attr;

/* Kinds of attributes that only the host handles; the numbers are AttributeProto's. */
enum {
    OP_ATTR_GRAPH = 5,
    OP_ATTR_TENSORS = 9,
    OP_ATTR_GRAPHS = 10,
    OP_ATTR_SPARSE_TENSOR = 11,
    OP_ATTR_TYPE_PROTO = 13
};

typedef struct op_schema {
    const op_formal *inputs;
    const op_formal *outputs;
    const op_type_param *types;
    const op_attr *attrs;
    uint32_t input_count, output_count, type_count, attr_count;
    uint32_t min_inputs, max_inputs; /* UINT32_MAX = variadic */
    uint32_t min_outputs, max_outputs;
    bool open_attrs; /* a node may have attributes besides attrs */
} op_schema;

/* Parses a signature. Memory comes from alloc (at least 8-byte aligned; zeroed is not required; freed by its owner);
 * the schema keeps no pointer into the text. A mistake in the text is INLAY_INVALID_ARGUMENT with the place, more than
 * OP_MAX_FORMALS or OP_MAX_ATTRS is INLAY_LIMIT_EXCEEDED. Thread-safe when alloc is. */
enum { OP_MAX_FORMALS = 64, OP_MAX_ATTRS = 64, OP_MAX_LIST = 64 };
typedef void *(*op_alloc_fn)(void *ctx, size_t bytes);
INLAY_NODISCARD inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx,
                                             op_schema *out_schema, inlay_diag *diag);

/* ------------------------------------------------------------------ types of a node's values */

/* The type of a value, as graph_value has it. */
typedef struct op_value_type {
    uint32_t kind;       /* INLAY_VALUE_*; 0 = unknown or omitted */
    uint32_t inner_kind; /* SEQUENCE: TENSOR or MAP; OPTIONAL: TENSOR or SEQUENCE; otherwise 0 */
    inlay_dtype dtype;   /* of the innermost tensor, of a map its value; UNDEFINED = unknown */
    inlay_dtype map_key; /* MAP and sequences of it: INT64 or STRING */
} op_value_type;

/* Is the type one of the set? A type that is not fully known is, when any completion of it could be. */
bool op_types_allow(const op_types *types, const op_value_type *type);
/* Is there just one type in the set? Then *out is it. */
bool op_types_single(const op_types *types, op_value_type *out);
/* Writes "float16, float or double", "seq(float)"; always NUL-terminated, cut to fit with "...". */
void op_types_text(const op_types *types, char *out, size_t bytes);
/* Writes "float", "seq(float)", "optional(seq(int64))", "map(int64,float)". */
void op_value_type_text(const op_value_type *type, char *out, size_t bytes);

/* The formal that stands for actual input (output) i, the last one for the tail of a variadic list. NULL: beyond. */
const op_formal *op_input_formal(const op_schema *schema, uint32_t i);
const op_formal *op_output_formal(const op_schema *schema, uint32_t i);

/* Checks the types of the inputs (those that are known) and sets those of the outputs that follow from the schema: from
 * an input with the same type parameter, or because only one type is possible. Other outputs stay as they are. in and
 * out have the node's counts, which fit the schema. A type that the schema does not allow is INLAY_INVALID_MODEL and a
 * sentence with the node, the input, its type and the types that it could have. */
INLAY_NODISCARD inlay_status op_infer_types(const op_schema *schema, const inlay_node_info *node,
                                            const op_value_type *in, op_value_type *out, inlay_diag *diag);
#endif

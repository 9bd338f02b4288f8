/* ops/schema.h - the schemas of ONNX's operators: one const row for each since_version.
 *
 * The signature of a row has in one line what ONNX's documentation has in a table:
 *
 *     { "Gemm", 13, 0, "A:T, B:T, C?:T -> Y:T; T=@math_ir4; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
 *
 * Each operator or family has a file with its rows under ops/<dir>/, which ops/ops.def lists. A row is parsed when a
 * model first uses it; an unused operator costs only its text. Custom operators of plug-ins (inlay_operator in
 * inlay/plugin.h) use the same notation and the same parser:
 *
 *     signature = [formals] "->" [formals] [";" [types] [";" [attrs]]]
 *     formals   = formal {"," formal}
 *     formal    = name ["?" | "*" [number] | "%" [number]] ":" (name of a type | set)
 *     types     = name "=" set {"," name "=" set}
 *     set       = term {("|" | "-") term}
 *     term      = element type | "@" alias | "seq(" set ")" | "optional(" set ")" | "map(" key "," value ")"
 *     attrs     = attr {"," attr}
 *     attr      = name ":" kind ["!" | "=" default] ["{" value {"|" value} "}"] | "..."
 *
 * A formal is a declared input or output. "?" marks an optional formal. "*" marks the last formal as variadic with one
 * type for all, "%" as variadic with types that may differ; the number is the minimum count (default 1). Formals that
 * share a named type have the same type in a node. Element types are named as in ONNX and stand for tensors ("float" is
 * tensor(float)). "-" removes the types on its right from the set on its left. Map keys are int64 and string, map
 * values float, double, int64 and string.
 *
 * Kinds of attributes: i int, f float, s string, t tensor, g graph; is, fs, ss, ts, gs are lists of these; sp sparse
 * tensor, tp type. "!" makes the attribute required. Defaults: 3, 0.5, 'text', [1,2], ['a','b']. A list in braces has
 * the only values that an i or s may have: mode:s='linear'{'linear'|'cubic'}. "..." at the end allows attributes of any
 * other name and kind.
 *
 * Aliases of sets of element types:
 *     @signed, @unsigned, @integer   int8 to int64, uint8 to uint64, both
 *     @float, @float_ir4             float16, float and double; with bfloat16
 *     @float8                        the four 8-bit floats of IR 9 (not float8e8m0)
 *     @complex                       complex64 and complex128
 *     @numeric, @numeric_ir4         @integer and @float; with bfloat16
 *     @math, @math_ir4               the same without the 8- and 16-bit integers
 *     @all                           @numeric, bool, string, @complex: the types of ONNX's first version
 *     @all_ir4, _ir9 ... _ir13       with the types that each IR version added: bfloat16; @float8; uint4 and int4;
 *                                    float4e2m1; float8e8m0; uint2 and int2 */
#ifndef OPS_SCHEMA_H
#define OPS_SCHEMA_H
#include "infer/infer.h"
#include <stdbool.h>

enum {
    OP_DEPRECATED = 1u << 0, /* deprecated since this version */
    OP_HOST = 1u << 1,       /* control flow, sequences, optionals: the host runs them; providers do not get them */
    OP_RANDOM = 1u << 2      /* not deterministic: never folded, never merged with an equal node */
};

typedef struct op_row {
    const char *op_type;
    uint32_t since_version;
    uint32_t flags;        /* OP_* */
    const char *signature; /* see above */
    op_infer_fn infer;     /* NULL: no shape inference; types still follow from the signature */
} op_row;

/* The rows of one source file. */
typedef struct op_table {
    const char *domain; /* "ai.onnx", "ai.onnx.ml", ... */
    const op_row *rows; /* [count], the versions of an operator together and ascending */
    uint32_t count;
} op_table;

/* The row for an import of `domain` at `opset`: the newest since_version that is not above opset. domain "" is
 * "ai.onnx". NULL if there is no such operator, or if it is newer than opset; *out_lowest (may be NULL) is its lowest
 * since_version, or 0 if the operator is unknown. Thread-safe. */
const op_row *op_find(const char *domain, const char *op_type, int64_t opset, uint32_t *out_lowest);

/* True for the domains of ONNX itself. */
bool op_domain_known(const char *domain);
/* The highest opset of a known domain that the rows cover (28 for ai.onnx), 0 otherwise. */
int64_t op_domain_newest(const char *domain);
/* The operator of that domain with the most similar name (edit distance at most 3), for messages; NULL if none. */
const char *op_nearest(const char *domain, const char *op_type);
/* All tables, for tests and listings. */
const op_table *const *op_tables(uint32_t *out_count);

#define OP_COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof((rows)[0])))

enum { OP_SINGLE = 0, OP_OPTIONAL = 1, OP_VARIADIC = 2, OP_VARIADIC_MIXED = 3 };

/* A set of value types. Tensors are one bit each in a mask by dtype; so are seq(tensor(T)), optional(tensor(T)) and
 * optional(seq(tensor(T))). Each map of ai.onnx.ml has the bit that op_map_bit() returns. */
typedef struct op_types {
    uint64_t tensor;
    uint64_t sequence;
    uint64_t optional;
    uint64_t optional_sequence;
    uint64_t sequence_map; /* seq(map(K,V)) */
    uint64_t map;          /* map(K,V) */
} op_types;

/* The bit of map(key,value): key INT64 or STRING; value FLOAT, DOUBLE, INT64 or STRING. 0 for others. */
uint64_t op_map_bit(inlay_dtype key, inlay_dtype value);

typedef struct op_formal {
    const char *name;
    uint32_t option;    /* OP_SINGLE ... */
    uint32_t min_arity; /* minimum count of a variadic formal */
    int32_t type_param; /* index into op_schema.types; formals with the same index have the same type */
} op_formal;

typedef struct op_type_param {
    const char *name; /* "T"; or "" for the type of a formal that has a set of types instead of a name */
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
    uint32_t allowed_count;     /* of the values in braces; 0: any value */
    union {                     /* [allowed_count], by kind */
        const int64_t *ints;
        const char *const *strings;
    } allowed;
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
    bool open_attrs; /* a node may have attributes that are not in attrs */
} op_schema;

/* Parses a signature. alloc must return memory that is aligned to 8 bytes, and need not zero it; its owner frees the
 * memory. The schema keeps no pointer into the text. A syntax error is INLAY_INVALID_ARGUMENT, and the message has its
 * position; more than OP_MAX_FORMALS or OP_MAX_ATTRS is INLAY_LIMIT_EXCEEDED. Thread-safe if alloc is. */
enum { OP_MAX_FORMALS = 64, OP_MAX_ATTRS = 64, OP_MAX_LIST = 64 };
typedef void *(*op_alloc_fn)(void *ctx, size_t bytes);
INLAY_NODISCARD inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx,
                                             op_schema *out_schema, inlay_diag *diag);

/* The type of a value, as in graph_value. */
typedef struct op_value_type {
    uint32_t kind;       /* INLAY_VALUE_*; 0 = unknown or omitted */
    uint32_t inner_kind; /* SEQUENCE: TENSOR or MAP; OPTIONAL: TENSOR or SEQUENCE; otherwise 0 */
    inlay_dtype dtype;   /* of the innermost tensor, or of the values of a map; UNDEFINED = unknown */
    inlay_dtype map_key; /* of a MAP or a sequence of maps: INT64 or STRING */
} op_value_type;

/* Calls visit() for each type of the set until it returns false. */
void op_types_each(const op_types *types, bool (*visit)(void *ctx, const op_value_type *type), void *ctx);
/* True if the type is in the set, or may be in the set because it is not fully known. */
bool op_types_allow(const op_types *types, const op_value_type *type);
/* True if the set has exactly one type; *out is that type. */
bool op_types_single(const op_types *types, op_value_type *out);
/* Writes "float16, float or double", "seq(float)"; always NUL-terminated, and truncated with "..." if necessary. */
void op_types_text(const op_types *types, char *out, size_t bytes);
/* Writes "float", "seq(float)", "optional(seq(int64))", "map(int64,float)". */
void op_value_type_text(const op_value_type *type, char *out, size_t bytes);

/* The formal of input (output) i of a node; the last formal for all inputs of a variadic list. NULL if the schema has
 * no formal for it. */
const op_formal *op_input_formal(const op_schema *schema, uint32_t i);
const op_formal *op_output_formal(const op_schema *schema, uint32_t i);
/* The schema's attribute of that name, or NULL. */
const op_attr *op_find_attr(const op_schema *schema, const char *name);

/* Checks the known types of the inputs, and sets the types of the outputs that follow from the schema: from an input
 * with the same type parameter, or because only one type is possible. Other outputs are unchanged. `in` and `out` have
 * the counts of the node, which must be legal for the schema. A type that the schema does not allow is
 * INLAY_INVALID_MODEL; the message has the node, the input, its type and the allowed types. */
INLAY_NODISCARD inlay_status op_infer_types(const op_schema *schema, const inlay_node_info *node,
                                            const op_value_type *in, op_value_type *out, inlay_diag *diag);
#endif

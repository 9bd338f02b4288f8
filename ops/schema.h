/* ops/schema.h - the schemas of ONNX's operators: every since_version as a const row.
 *
 * A row's signature says in one line what ONNX's documentation says in a table, in the notation of inlay_operator
 * (inlay/plugin.h):
 *
 *     { "Gemm", 13, "A:T, B:T, C?:T -> Y:T; T=float16|float|...; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm }
 *
 * Rows live in one file per operator or family under ops/<domain>/, are listed in ops/ops.def, and are parsed when a
 * model first uses them: an unused operator costs its text. Custom operators of plugins are parsed by the same code. */
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
 * "ai.onnx". NULL: no such operator, or it is newer than opset; *out_newest (may be NULL) is then the lowest
 * since_version there is, 0 when the operator is unknown. Thread-safe. */
const op_row *op_find(const char *domain, const char *op_type, int64_t opset, uint32_t *out_lowest);

/* Is the domain one of ONNX's own? */
bool op_domain_known(const char *domain);
/* The highest opset of a known domain that the rows cover (28 for ai.onnx), 0 otherwise. */
int64_t op_domain_newest(const char *domain);
/* The operator of that domain whose name is nearest (edit distance at most 3), NULL if none is: for messages. */
const char *op_nearest(const char *domain, const char *op_type);
/* All tables, for tests and listings. */
const op_table *op_tables(uint32_t *out_count);

/* ------------------------------------------------------------------ a parsed signature */

enum { OP_SINGLE = 0, OP_OPTIONAL = 1, OP_VARIADIC = 2, OP_VARIADIC_MIXED = 3 };

/* A set of value types. Tensors are one bit each in a mask by dtype; so are seq(tensor(T)), optional(tensor(T)) and
 * optional(seq(tensor(T))); the few maps of ai.onnx.ml are bits of maps. */
typedef struct op_types {
    uint32_t tensor;
    uint32_t sequence;
    uint32_t optional;
    uint32_t optional_sequence;
    uint32_t sequence_map; /* bit 0: seq(map(string,float)), bit 1: seq(map(int64,float)) */
    uint32_t map;          /* bit 8 * (key is string) + index of the value type, see schema.c */
} op_types;

typedef struct op_formal {
    const char *name;
    uint32_t option;     /* OP_SINGLE ... */
    uint32_t min_arity;  /* of variadic ones */
    int32_t type_param;  /* index into types of the letter; formals with the same index have the same type */
} op_formal;

typedef struct op_type_param {
    const char *name; /* "T"; a formal whose type is written out gets a nameless one of its own */
    op_types types;
} op_type_param;

typedef struct op_attr {
    const char *name;
    uint32_t kind;     /* INLAY_ATTR_*, or OP_ATTR_* below */
    bool required;
    bool has_default;
    int64_t i;         /* default of INT */
    double f;          /* default of FLOAT */
    const char *s;     /* default of STRING */
    const int64_t *ints; /* default of INTS */
    const char **strings; /* default of STRINGS */
    const float *floats;
    uint32_t count;
} op_attr;

/* Kinds of attributes that only the host handles; the numbers are AttributeProto's. */
enum { OP_ATTR_GRAPH = 5, OP_ATTR_TENSORS = 9, OP_ATTR_GRAPHS = 10, OP_ATTR_SPARSE_TENSOR = 11, OP_ATTR_TYPE_PROTO = 13 };

typedef struct op_schema {
    const op_formal *inputs;
    const op_formal *outputs;
    const op_type_param *types;
    const op_attr *attrs;
    uint32_t input_count, output_count, type_count, attr_count;
    uint32_t min_inputs, max_inputs; /* UINT32_MAX = variadic */
    uint32_t min_outputs, max_outputs;
} op_schema;

/* Parses a signature. Memory comes from alloc (zeroed is not required; freed by its owner). A mistake in the text is
 * INLAY_INVALID_ARGUMENT with the place. */
typedef void *(*op_alloc_fn)(void *ctx, size_t bytes);
INLAY_NODISCARD inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx,
                                             op_schema *out_schema, inlay_diag *diag);
#endif

/* ops/signature_types.c - parses the sets of types of an operator's signature: element types, aliases, sequences,
 * optionals, maps. */
#include "signature.h"
#include "inlay/check.h"

#define REAL (INLAY_DTYPE_BIT(INLAY_FLOAT16) | INLAY_DTYPE_BIT(INLAY_FLOAT) | INLAY_DTYPE_BIT(INLAY_DOUBLE))
#define WIDE                                                                                                           \
    (INLAY_DTYPE_BIT(INLAY_INT32) | INLAY_DTYPE_BIT(INLAY_INT64) | INLAY_DTYPE_BIT(INLAY_UINT32) |                     \
     INLAY_DTYPE_BIT(INLAY_UINT64))
#define SIGNED                                                                                                         \
    (INLAY_DTYPE_BIT(INLAY_INT8) | INLAY_DTYPE_BIT(INLAY_INT16) | INLAY_DTYPE_BIT(INLAY_INT32) |                       \
     INLAY_DTYPE_BIT(INLAY_INT64))
#define UNSIGNED                                                                                                       \
    (INLAY_DTYPE_BIT(INLAY_UINT8) | INLAY_DTYPE_BIT(INLAY_UINT16) | INLAY_DTYPE_BIT(INLAY_UINT32) |                    \
     INLAY_DTYPE_BIT(INLAY_UINT64))
#define COMPLEX (INLAY_DTYPE_BIT(INLAY_COMPLEX64) | INLAY_DTYPE_BIT(INLAY_COMPLEX128))
#define FLOAT8                                                                                                         \
    (INLAY_DTYPE_BIT(INLAY_FLOAT8E4M3FN) | INLAY_DTYPE_BIT(INLAY_FLOAT8E4M3FNUZ) | INLAY_DTYPE_BIT(INLAY_FLOAT8E5M2) | \
     INLAY_DTYPE_BIT(INLAY_FLOAT8E5M2FNUZ))
#define BF16 INLAY_DTYPE_BIT(INLAY_BFLOAT16)
#define ALL (SIGNED | UNSIGNED | REAL | COMPLEX | INLAY_DTYPE_BIT(INLAY_BOOL) | INLAY_DTYPE_BIT(INLAY_STRING))
#define ALL_IR4 (ALL | BF16)
#define ALL_IR9 (ALL_IR4 | FLOAT8)
#define ALL_IR10 (ALL_IR9 | INLAY_DTYPE_BIT(INLAY_UINT4) | INLAY_DTYPE_BIT(INLAY_INT4))
#define ALL_IR11 (ALL_IR10 | INLAY_DTYPE_BIT(INLAY_FLOAT4E2M1))
#define ALL_IR12 (ALL_IR11 | INLAY_DTYPE_BIT(INLAY_FLOAT8E8M0))
#define ALL_IR13 (ALL_IR12 | INLAY_DTYPE_BIT(INLAY_UINT2) | INLAY_DTYPE_BIT(INLAY_INT2))

static const struct {
    const char *name;
    uint64_t tensor;
} aliases[] = {
    { "signed", SIGNED },
    { "unsigned", UNSIGNED },
    { "integer", SIGNED | UNSIGNED },
    { "float", REAL },
    { "float_ir4", REAL | BF16 },
    { "float8", FLOAT8 },
    { "complex", COMPLEX },
    { "numeric", SIGNED | UNSIGNED | REAL },
    { "numeric_ir4", SIGNED | UNSIGNED | REAL | BF16 },
    { "math", WIDE | REAL },
    { "math_ir4", WIDE | REAL | BF16 },
    { "all", ALL },
    { "all_ir4", ALL_IR4 },
    { "all_ir9", ALL_IR9 },
    { "all_ir10", ALL_IR10 },
    { "all_ir11", ALL_IR11 },
    { "all_ir12", ALL_IR12 },
    { "all_ir13", ALL_IR13 },
};

static inlay_dtype dtype_named(struct span span)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (sig_span_is(span, inlay_dtype_name(dtype)))
            return dtype;
    return INLAY_UNDEFINED;
}

uint64_t op_map_bit(inlay_dtype key, inlay_dtype value)
{
    static const inlay_dtype values[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_INT64, INLAY_STRING };

    if (key != INLAY_INT64 && key != INLAY_STRING)
        return 0;
    for (uint32_t i = 0; i < OP_COUNT(values); i++)
        if (values[i] == value)
            return UINT64_C(1) << ((key == INLAY_STRING ? 8 : 0) + i);
    return 0;
}

/* Sets *out to the types seq(T) or optional(T) for each type T of `in`. */
static inlay_status nest(struct parser *parser, const char *place, bool sequence, const op_types *in, op_types *out)
{
    if (sequence) {
        if ((in->sequence | in->optional | in->optional_sequence | in->sequence_map) != 0)
            return sig_mistake(parser, place, "a sequence holds tensors or maps");
        *out = (op_types){ .sequence = in->tensor, .sequence_map = in->map };
    } else {
        if ((in->optional | in->optional_sequence | in->sequence_map | in->map) != 0)
            return sig_mistake(parser, place, "an optional holds a tensor or a sequence of tensors");
        *out = (op_types){ .optional = in->tensor, .optional_sequence = in->sequence };
    }
    return INLAY_OK;
}

static inlay_status read_map(struct parser *parser, const char *place, op_types *out)
{
    inlay_status status;
    struct span key, value;

    INLAY_TRY(sig_read_word(parser, "a map needs the type of its keys", &key));
    INLAY_TRY(sig_expect(parser, ',', "expected ',' between key and value of a map"));
    INLAY_TRY(sig_read_word(parser, "a map needs the type of its values", &value));
    out->map = op_map_bit(dtype_named(key), dtype_named(value));
    if (out->map == 0)
        status = sig_mistake(parser, place, "maps go from int64 or string to float, double, int64 or string");
done:
    return status;
}

static inlay_status read_term(struct parser *parser, uint32_t depth, op_types *out)
{
    inlay_status status = INLAY_OK;
    bool alias = sig_take(parser, '@');
    const char *place;
    struct span word;
    inlay_dtype dtype;

    *out = (op_types){ 0 };
    INLAY_TRY(sig_read_word(parser, "expected a type", &word));
    place = word.begin;
    if (alias) {
        for (uint32_t i = 0; i < OP_COUNT(aliases); i++)
            if (sig_span_is(word, aliases[i].name))
                out->tensor = aliases[i].tensor;
        return out->tensor != 0 ? INLAY_OK : sig_mistake(parser, place, "no such set of types");
    }
    dtype = dtype_named(word);
    if (dtype != INLAY_UNDEFINED) {
        out->tensor = INLAY_DTYPE_BIT(dtype);
        return INLAY_OK;
    }
    if (sig_peek(parser) != '(')
        return sig_mistake(parser, place, "neither an element type nor a type that the signature declares");
    parser->at++;
    if (sig_span_is(word, "map")) {
        INLAY_TRY(read_map(parser, place, out));
    } else if (sig_span_is(word, "seq") || sig_span_is(word, "optional")) {
        op_types inner;

        if (depth >= 2)
            return sig_mistake(parser, place, "types nest no deeper than optional(seq(tensor))");
        INLAY_TRY(sig_read_set(parser, depth + 1, &inner));
        INLAY_TRY(nest(parser, place, word.begin[0] == 's', &inner, out));
    } else {
        return sig_mistake(parser, place, "only seq, optional and map take parentheses");
    }
    status = sig_expect(parser, ')', "expected ')'");
done:
    return status;
}

inlay_status sig_read_set(struct parser *parser, uint32_t depth, op_types *out)
{
    inlay_status status;
    op_types term;

    INLAY_CHECK(depth <= 2); /* read_term() refuses deeper types */
    INLAY_TRY(read_term(parser, depth, out));
    for (;;) {
        bool minus = sig_peek(parser) == '-' && parser->at[1] != '>';

        if (!minus && sig_peek(parser) != '|')
            return INLAY_OK;
        parser->at++;
        INLAY_TRY(read_term(parser, depth, &term));
        uint64_t *into = (uint64_t *)out;
        const uint64_t *from = (const uint64_t *)&term;
        for (size_t i = 0; i < sizeof *out / sizeof *into; i++)
            into[i] = minus ? into[i] & ~from[i] : into[i] | from[i];
    }
done:
    return status;
}

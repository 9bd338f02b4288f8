/* The parser of operator signatures; the grammar stands in schema.h. The text may come from a plugin, so every mistake
 * is a sentence with its place and nothing is trusted. */
#include "schema.h"
#include <string.h>

typedef struct parser {
    const char *text; /* the whole signature */
    const char *at;   /* what is read next */
    op_alloc_fn alloc;
    void *alloc_ctx;
    inlay_diag *diag;
} parser;

/* A piece of the signature. */
typedef struct span {
    const char *begin;
    size_t bytes;
} span;

/* Everything is gathered here and copied out once its size is known. */
typedef struct draft {
    op_formal inputs[OP_MAX_FORMALS], outputs[OP_MAX_FORMALS];
    span input_types[OP_MAX_FORMALS], output_types[OP_MAX_FORMALS];
    op_type_param types[3 * OP_MAX_FORMALS];
    op_attr attrs[OP_MAX_ATTRS];
    uint32_t input_count, output_count, type_count, attr_count;
} draft;

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
    uint32_t tensor;
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

static const struct {
    const char *name;
    uint32_t kind;
} kinds[] = {
    { "f", INLAY_ATTR_FLOAT },  { "i", INLAY_ATTR_INT },         { "s", INLAY_ATTR_STRING },
    { "t", INLAY_ATTR_TENSOR }, { "g", OP_ATTR_GRAPH },          { "fs", INLAY_ATTR_FLOATS },
    { "is", INLAY_ATTR_INTS },  { "ss", INLAY_ATTR_STRINGS },    { "ts", OP_ATTR_TENSORS },
    { "gs", OP_ATTR_GRAPHS },   { "sp", OP_ATTR_SPARSE_TENSOR }, { "tp", OP_ATTR_TYPE_PROTO },
};

/* ------------------------------------------------------------------ words and signs */

/* "signature, character 12 (near ': T'): <what>" */
static inlay_status mistake(const parser *p, const char *place, const char *what)
{
    char near_text[25];
    size_t n = 0;

    for (; n + 1 < sizeof near_text && place[n] != '\0'; n++)
        near_text[n] = place[n] >= ' ' && place[n] < 127 ? place[n] : '?';
    near_text[n] = '\0';
    if (n == 0)
        return inlay_fail(p->diag, INLAY_INVALID_ARGUMENT, "signature, at its end: %s", what);
    return inlay_fail(p->diag, INLAY_INVALID_ARGUMENT, "signature, character %zu (near \"%s\"): %s",
                      (size_t)(place - p->text) + 1, near_text, what);
}

static inlay_status too_many(const parser *p, const char *what, int limit)
{
    return inlay_fail(p->diag, INLAY_LIMIT_EXCEEDED, "signature: more than %d %s", limit, what);
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

static char peek(parser *p)
{
    skip_space(p);
    return *p->at;
}

static bool take(parser *p, char sign)
{
    if (peek(p) != sign)
        return false;
    p->at++;
    return true;
}

static inlay_status expect(parser *p, char sign, const char *what)
{
    return take(p, sign) ? INLAY_OK : mistake(p, p->at, what);
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static inlay_status read_word(parser *p, const char *what, span *out)
{
    skip_space(p);
    out->begin = p->at;
    while (word_char(*p->at))
        p->at++;
    out->bytes = (size_t)(p->at - out->begin);
    return out->bytes > 0 ? INLAY_OK : mistake(p, p->at, what);
}

static bool span_is(span s, const char *word)
{
    return strlen(word) == s.bytes && memcmp(s.begin, word, s.bytes) == 0;
}

static inlay_status copy(const parser *p, const void *data, size_t bytes, const void **out)
{
    void *mine = p->alloc(p->alloc_ctx, bytes > 0 ? bytes : 1);

    if (mine == NULL)
        return inlay_fail(p->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    if (bytes > 0)
        memcpy(mine, data, bytes);
    *out = mine;
    return INLAY_OK;
}

static inlay_status copy_text(const parser *p, span s, const char **out)
{
    char *mine = p->alloc(p->alloc_ctx, s.bytes + 1);

    if (mine == NULL)
        return inlay_fail(p->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    memcpy(mine, s.begin, s.bytes);
    mine[s.bytes] = '\0';
    *out = mine;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ sets of types */

static inlay_dtype dtype_named(span s)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (span_is(s, inlay_dtype_name(dtype)))
            return dtype;
    return INLAY_UNDEFINED;
}

uint32_t op_map_bit(inlay_dtype key, inlay_dtype value)
{
    static const inlay_dtype values[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_INT64, INLAY_STRING };

    if (key != INLAY_INT64 && key != INLAY_STRING)
        return 0;
    for (uint32_t i = 0; i < OP_COUNT(values); i++)
        if (values[i] == value)
            return UINT32_C(1) << ((key == INLAY_STRING ? 8 : 0) + i);
    return 0;
}

static inlay_status read_set(parser *p, uint32_t depth, op_types *out);

/* What seq( ) or optional( ) makes of the set in the parentheses. */
static inlay_status nest(parser *p, const char *place, bool sequence, const op_types *in, op_types *out)
{
    if (sequence) {
        if ((in->sequence | in->optional | in->optional_sequence | in->sequence_map) != 0)
            return mistake(p, place, "a sequence holds tensors or maps");
        *out = (op_types){ .sequence = in->tensor, .sequence_map = in->map };
    } else {
        if ((in->optional | in->optional_sequence | in->sequence_map | in->map) != 0)
            return mistake(p, place, "an optional holds a tensor or a sequence of tensors");
        *out = (op_types){ .optional = in->tensor, .optional_sequence = in->sequence };
    }
    return INLAY_OK;
}

static inlay_status read_map(parser *p, const char *place, op_types *out)
{
    inlay_status status;
    span key, value;

    INLAY_TRY(read_word(p, "a map needs the type of its keys", &key));
    INLAY_TRY(expect(p, ',', "expected ',' between key and value of a map"));
    INLAY_TRY(read_word(p, "a map needs the type of its values", &value));
    out->map = op_map_bit(dtype_named(key), dtype_named(value));
    if (out->map == 0)
        status = mistake(p, place, "maps go from int64 or string to float, double, int64 or string");
done:
    return status;
}

static inlay_status read_term(parser *p, uint32_t depth, op_types *out)
{
    inlay_status status = INLAY_OK;
    bool alias = take(p, '@');
    const char *place;
    span word;
    inlay_dtype dtype;

    *out = (op_types){ 0 };
    INLAY_TRY(read_word(p, "expected a type", &word));
    place = word.begin;
    if (alias) {
        for (uint32_t i = 0; i < OP_COUNT(aliases); i++)
            if (span_is(word, aliases[i].name))
                out->tensor = aliases[i].tensor;
        return out->tensor != 0 ? INLAY_OK : mistake(p, place, "no such set of types");
    }
    dtype = dtype_named(word);
    if (dtype != INLAY_UNDEFINED) {
        out->tensor = INLAY_DTYPE_BIT(dtype);
        return INLAY_OK;
    }
    if (peek(p) != '(')
        return mistake(p, place, "neither an element type nor a type that the signature declares");
    p->at++;
    if (span_is(word, "map")) {
        INLAY_TRY(read_map(p, place, out));
    } else if (span_is(word, "seq") || span_is(word, "optional")) {
        op_types inner;

        if (depth >= 2)
            return mistake(p, place, "types nest no deeper than optional(seq(tensor))");
        INLAY_TRY(read_set(p, depth + 1, &inner));
        INLAY_TRY(nest(p, place, word.begin[0] == 's', &inner, out));
    } else {
        return mistake(p, place, "only seq, optional and map take parentheses");
    }
    status = expect(p, ')', "expected ')'");
done:
    return status;
}

static inlay_status read_set(parser *p, uint32_t depth, op_types *out)
{
    inlay_status status;
    op_types term;

    INLAY_TRY(read_term(p, depth, out));
    for (;;) {
        bool minus = peek(p) == '-' && p->at[1] != '>';

        if (!minus && peek(p) != '|')
            return INLAY_OK;
        p->at++;
        INLAY_TRY(read_term(p, depth, &term));
        uint32_t *into = (uint32_t *)out;
        const uint32_t *from = (const uint32_t *)&term;
        for (size_t i = 0; i < sizeof *out / sizeof *into; i++)
            into[i] = minus ? into[i] & ~from[i] : into[i] | from[i];
    }
done:
    return status;
}

/* ------------------------------------------------------------------ inputs and outputs */

/* Skips a type expression and remembers where it is: names of types are declared further on. */
static inlay_status read_type_span(parser *p, span *out)
{
    uint32_t open = 0;

    skip_space(p);
    out->begin = p->at;
    for (; *p->at != '\0' && *p->at != ';'; p->at++) {
        if (*p->at == '(')
            open++;
        else if (*p->at == ')' && open > 0)
            open--;
        else if ((*p->at == ',' && open == 0) || (p->at[0] == '-' && p->at[1] == '>'))
            break;
    }
    out->bytes = (size_t)(p->at - out->begin);
    while (out->bytes > 0 && strchr(" \t\r\n", out->begin[out->bytes - 1]) != NULL)
        out->bytes--;
    return out->bytes > 0 ? INLAY_OK : mistake(p, p->at, "expected a type after ':'");
}

static inlay_status read_formal(parser *p, op_formal *formal, span *type)
{
    inlay_status status;
    span name;

    *formal = (op_formal){ .option = OP_SINGLE, .type_param = -1 };
    INLAY_TRY(read_word(p, "expected the name of an input or output", &name));
    INLAY_TRY(copy_text(p, name, &formal->name));
    if (take(p, '?')) {
        formal->option = OP_OPTIONAL;
    } else if (peek(p) == '*' || peek(p) == '%') {
        formal->option = *p->at++ == '*' ? OP_VARIADIC : OP_VARIADIC_MIXED;
        formal->min_arity = 1;
        if (*p->at >= '0' && *p->at <= '9') {
            formal->min_arity = (uint32_t)(*p->at++ - '0');
            if (*p->at >= '0' && *p->at <= '9')
                return mistake(p, p->at, "a least count has one digit");
        }
    }
    INLAY_TRY(expect(p, ':', "expected ':' and a type"));
    status = read_type_span(p, type);
done:
    return status;
}

static inlay_status read_formals(parser *p, op_formal *formals, span *types, uint32_t *out_count)
{
    inlay_status status;

    *out_count = 0;
    if (peek(p) == '-' || peek(p) == ';' || peek(p) == '\0')
        return INLAY_OK;
    do {
        const char *place = p->at;

        if (*out_count == OP_MAX_FORMALS)
            return too_many(p, "inputs or outputs", OP_MAX_FORMALS);
        if (*out_count > 0 && formals[*out_count - 1].option >= OP_VARIADIC)
            return mistake(p, place, "a variadic input or output must be the last");
        INLAY_TRY(read_formal(p, &formals[*out_count], &types[*out_count]));
        ++*out_count;
    } while (take(p, ','));
done:
    return status;
}

static inlay_status read_types(parser *p, draft *d)
{
    inlay_status status = INLAY_OK;
    span name;

    if (peek(p) == ';' || peek(p) == '\0')
        return INLAY_OK;
    do {
        op_type_param *type = &d->types[d->type_count];

        if (d->type_count == OP_MAX_FORMALS)
            return too_many(p, "types", OP_MAX_FORMALS);
        INLAY_TRY(read_word(p, "expected the name of a type", &name));
        for (uint32_t i = 0; i < d->type_count; i++)
            if (span_is(name, d->types[i].name))
                return mistake(p, name.begin, "this type is declared twice");
        INLAY_TRY(copy_text(p, name, &type->name));
        INLAY_TRY(expect(p, '=', "expected '=' and a set of types"));
        INLAY_TRY(read_set(p, 0, &type->types));
        d->type_count++;
    } while (take(p, ','));
done:
    return status;
}

/* Ties formals to declared types; a type that is written out becomes a nameless one. */
static inlay_status resolve_types(parser *p, draft *d, op_formal *formals, const span *types, uint32_t count)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        parser inner = *p;

        for (uint32_t t = 0; t < d->type_count && formals[i].type_param < 0; t++)
            if (d->types[t].name[0] != '\0' && span_is(types[i], d->types[t].name))
                formals[i].type_param = (int32_t)t;
        if (formals[i].type_param >= 0)
            continue;
        inner.at = types[i].begin;
        d->types[d->type_count].name = "";
        INLAY_TRY(read_set(&inner, 0, &d->types[d->type_count].types));
        skip_space(&inner);
        if (inner.at < types[i].begin + types[i].bytes)
            return mistake(p, inner.at, "expected ',', ';' or '->'");
        formals[i].type_param = (int32_t)d->type_count++;
    }
done:
    return status;
}

/* ------------------------------------------------------------------ attributes */

static inlay_status read_int(parser *p, int64_t *out)
{
    bool minus = take(p, '-');
    const char *place = p->at;
    int64_t value = 0;

    if (*p->at < '0' || *p->at > '9')
        return mistake(p, place, "expected an integer");
    for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
        int64_t digit = *p->at - '0';

        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
            return mistake(p, place, "an integer beyond 64 bits");
    }
    if (!minus && value == INT64_MIN)
        return mistake(p, place, "an integer beyond 64 bits");
    *out = minus ? value : -value;
    return INLAY_OK;
}

/* A decimal number, whatever the locale. Up to 18 digits and small exponents: exact enough to round to float. */
static inlay_status read_float(parser *p, double *out)
{
    bool minus = take(p, '-'), point = false, small;
    const char *place = p->at;
    int64_t exponent = 0, given = 0;
    uint64_t digits = 0;
    double value, power = 1;

    for (; (*p->at >= '0' && *p->at <= '9') || (*p->at == '.' && !point); p->at++) {
        if (*p->at == '.') {
            point = true;
            continue;
        }
        if (digits >= UINT64_C(100000000000000000))
            return mistake(p, place, "a number with more than 17 digits");
        digits = digits * 10 + (uint64_t)(*p->at - '0');
        exponent -= point;
    }
    if (p->at == place || (point && p->at == place + 1))
        return mistake(p, place, "expected a number");
    if (*p->at == 'e') {
        p->at++;
        if (*p->at == '+')
            p->at++;
        if (read_int(p, &given) != INLAY_OK || given < -60 || given > 60)
            return mistake(p, place, "expected an exponent between -60 and 60");
    }
    exponent += given;
    small = exponent < 0;
    for (exponent = small ? -exponent : exponent; exponent > 0; exponent--)
        power *= 10;
    value = small ? (double)digits / power : (double)digits * power;
    if (value > 3.40282356e38)
        return mistake(p, place, "a number that no float holds");
    *out = (float)(minus ? -value : value);
    return INLAY_OK;
}

static inlay_status read_string(parser *p, const char **out)
{
    inlay_status status;
    span s;

    INLAY_TRY(expect(p, '\'', "expected a 'string'"));
    s.begin = p->at;
    while (*p->at != '\0' && *p->at != '\'')
        p->at++;
    s.bytes = (size_t)(p->at - s.begin);
    INLAY_TRY(expect(p, '\'', "a string without its end"));
    status = copy_text(p, s, out);
done:
    return status;
}

static inlay_status read_list(parser *p, op_attr *attr)
{
    inlay_status status;
    union {
        int64_t ints[OP_MAX_LIST];
        float floats[OP_MAX_LIST];
        const char *strings[OP_MAX_LIST];
    } list;
    size_t element = attr->kind == INLAY_ATTR_FLOATS ? sizeof(float) : sizeof(int64_t);
    const void *mine = NULL;

    INLAY_TRY(expect(p, '[', "expected '[' and a list"));
    while (peek(p) != ']') {
        double number;

        if (attr->count == OP_MAX_LIST)
            return too_many(p, "elements in the default of an attribute", OP_MAX_LIST);
        if (attr->count > 0)
            INLAY_TRY(expect(p, ',', "expected ',' or ']'"));
        if (attr->kind == INLAY_ATTR_INTS) {
            INLAY_TRY(read_int(p, &list.ints[attr->count]));
        } else if (attr->kind == INLAY_ATTR_FLOATS) {
            INLAY_TRY(read_float(p, &number));
            list.floats[attr->count] = (float)number;
        } else {
            INLAY_TRY(read_string(p, &list.strings[attr->count]));
        }
        attr->count++;
    }
    p->at++;
    INLAY_TRY(copy(p, &list, attr->count * element, &mine));
    if (attr->kind == INLAY_ATTR_INTS)
        attr->ints = mine;
    else if (attr->kind == INLAY_ATTR_FLOATS)
        attr->floats = mine;
    else
        attr->strings = mine;
done:
    return status;
}

static inlay_status read_default(parser *p, op_attr *attr)
{
    attr->has_default = true;
    switch (attr->kind) {
    case INLAY_ATTR_INT:
        return read_int(p, &attr->i);
    case INLAY_ATTR_FLOAT:
        return read_float(p, &attr->f);
    case INLAY_ATTR_STRING:
        return read_string(p, &attr->s);
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        return read_list(p, attr);
    default:
        return mistake(p, p->at, "attributes of this kind have no default");
    }
}

static inlay_status read_attrs(parser *p, draft *d)
{
    inlay_status status = INLAY_OK;
    span word;

    if (peek(p) == '\0')
        return INLAY_OK;
    do {
        op_attr *attr = &d->attrs[d->attr_count];

        if (d->attr_count == OP_MAX_ATTRS)
            return too_many(p, "attributes", OP_MAX_ATTRS);
        *attr = (op_attr){ 0 };
        INLAY_TRY(read_word(p, "expected the name of an attribute", &word));
        for (uint32_t i = 0; i < d->attr_count; i++)
            if (span_is(word, d->attrs[i].name))
                return mistake(p, word.begin, "this attribute is declared twice");
        INLAY_TRY(copy_text(p, word, &attr->name));
        INLAY_TRY(expect(p, ':', "expected ':' and the kind of the attribute"));
        INLAY_TRY(read_word(p, "expected the kind of the attribute", &word));
        for (uint32_t i = 0; i < OP_COUNT(kinds); i++)
            if (span_is(word, kinds[i].name))
                attr->kind = kinds[i].kind;
        if (attr->kind == 0)
            return mistake(p, word.begin, "no such kind of attribute; there are i f s t g is fs ss ts gs sp tp");
        if (take(p, '!'))
            attr->required = true;
        else if (take(p, '='))
            INLAY_TRY(read_default(p, attr));
        d->attr_count++;
    } while (take(p, ','));
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

static void count_formals(const op_formal *formals, uint32_t count, uint32_t *out_min, uint32_t *out_max)
{
    *out_min = 0;
    *out_max = count;
    for (uint32_t i = 0; i < count; i++) {
        if (formals[i].option == OP_SINGLE)
            *out_min = i + 1;
        if (formals[i].option >= OP_VARIADIC) {
            *out_max = UINT32_MAX;
            *out_min = i + formals[i].min_arity; /* places, which may be left empty by optional ones */
        }
    }
}

static inlay_status copy_draft(const parser *p, const draft *d, op_schema *out)
{
    inlay_status status;
    const void *mine = NULL;

    *out = (op_schema){ .input_count = d->input_count,
                        .output_count = d->output_count,
                        .type_count = d->type_count,
                        .attr_count = d->attr_count };
    INLAY_TRY(copy(p, d->inputs, d->input_count * sizeof d->inputs[0], &mine));
    out->inputs = mine;
    INLAY_TRY(copy(p, d->outputs, d->output_count * sizeof d->outputs[0], &mine));
    out->outputs = mine;
    INLAY_TRY(copy(p, d->types, d->type_count * sizeof d->types[0], &mine));
    out->types = mine;
    INLAY_TRY(copy(p, d->attrs, d->attr_count * sizeof d->attrs[0], &mine));
    out->attrs = mine;
    count_formals(d->inputs, d->input_count, &out->min_inputs, &out->max_inputs);
    count_formals(d->outputs, d->output_count, &out->min_outputs, &out->max_outputs);
done:
    return status;
}

inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx, op_schema *out_schema,
                             inlay_diag *diag)
{
    inlay_status status;
    parser p = { .text = signature, .at = signature, .alloc = alloc, .alloc_ctx = alloc_ctx, .diag = diag };
    draft d;

    memset(&d, 0, sizeof d);
    *out_schema = (op_schema){ 0 };
    INLAY_TRY(read_formals(&p, d.inputs, d.input_types, &d.input_count));
    INLAY_TRY(expect(&p, '-', "expected ',' or '->' and the outputs"));
    INLAY_TRY(expect(&p, '>', "expected '->'"));
    INLAY_TRY(read_formals(&p, d.outputs, d.output_types, &d.output_count));
    if (take(&p, ';'))
        INLAY_TRY(read_types(&p, &d));
    INLAY_TRY(resolve_types(&p, &d, d.inputs, d.input_types, d.input_count));
    INLAY_TRY(resolve_types(&p, &d, d.outputs, d.output_types, d.output_count));
    if (take(&p, ';'))
        INLAY_TRY(read_attrs(&p, &d));
    if (peek(&p) != '\0') {
        status = mistake(&p, p.at, "expected the end");
        goto done;
    }
    status = copy_draft(&p, &d, out_schema);
done:
    return status;
}

/* ops/signature_attrs.c - parses the attributes of an operator's signature, with their defaults. */
#include "signature.h"
#include "inlay/check.h"

static const struct {
    const char *name;
    uint32_t kind;
} kinds[] = {
    { "f", INLAY_ATTR_FLOAT },  { "i", INLAY_ATTR_INT },         { "s", INLAY_ATTR_STRING },
    { "t", INLAY_ATTR_TENSOR }, { "g", OP_ATTR_GRAPH },          { "fs", INLAY_ATTR_FLOATS },
    { "is", INLAY_ATTR_INTS },  { "ss", INLAY_ATTR_STRINGS },    { "ts", OP_ATTR_TENSORS },
    { "gs", OP_ATTR_GRAPHS },   { "sp", OP_ATTR_SPARSE_TENSOR }, { "tp", OP_ATTR_TYPE_PROTO },
};

static inlay_status read_int(struct parser *parser, int64_t *out)
{
    bool minus = sig_take(parser, '-');
    const char *place = parser->at;
    int64_t value = 0;

    if (*parser->at < '0' || *parser->at > '9')
        return sig_mistake(parser, place, "expected an integer");
    for (; *parser->at >= '0' && *parser->at <= '9'; parser->at++) {
        int64_t digit = *parser->at - '0';

        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
            return sig_mistake(parser, place, "an integer beyond 64 bits");
    }
    if (!minus && value == INT64_MIN)
        return sig_mistake(parser, place, "an integer beyond 64 bits");
    *out = minus ? value : -value;
    return INLAY_OK;
}

/* Parses a decimal number, independent of the locale. With up to 18 digits and small exponents the result is exact
 * enough to round to float. */
static inlay_status read_float(struct parser *parser, double *out)
{
    bool minus = sig_take(parser, '-'), point = false, small;
    const char *place = parser->at;
    int64_t exponent = 0, given = 0;
    uint64_t digits = 0;
    double value, power = 1;

    for (; (*parser->at >= '0' && *parser->at <= '9') || (*parser->at == '.' && !point); parser->at++) {
        if (*parser->at == '.') {
            point = true;
            continue;
        }
        if (digits >= UINT64_C(100000000000000000))
            return sig_mistake(parser, place, "a number with more than 18 digits");
        digits = digits * 10 + (uint64_t)(*parser->at - '0');
        exponent -= point;
    }
    if (parser->at == place || (point && parser->at == place + 1))
        return sig_mistake(parser, place, "expected a number");
    if (*parser->at == 'e') {
        parser->at++;
        if (*parser->at == '+')
            parser->at++;
        if (read_int(parser, &given) != INLAY_OK || given < -60 || given > 60)
            return sig_mistake(parser, place, "expected an exponent between -60 and 60");
    }
    exponent += given;
    small = exponent < 0;
    for (exponent = small ? -exponent : exponent; exponent > 0; exponent--)
        power *= 10;
    value = small ? (double)digits / power : (double)digits * power;
    if (value > 3.40282356e38)
        return sig_mistake(parser, place, "a number that no float holds");
    *out = (float)(minus ? -value : value);
    return INLAY_OK;
}

static inlay_status read_string(struct parser *parser, const char **out)
{
    inlay_status status;
    struct span span;

    INLAY_TRY(sig_expect(parser, '\'', "expected a 'string'"));
    span.begin = parser->at;
    while (*parser->at != '\0' && *parser->at != '\'')
        parser->at++;
    span.bytes = (size_t)(parser->at - span.begin);
    INLAY_TRY(sig_expect(parser, '\'', "a string without its end"));
    status = sig_copy_text(parser, span, out);
done:
    return status;
}

static inlay_status read_list(struct parser *parser, op_attr *attr)
{
    inlay_status status;
    union {
        int64_t ints[OP_MAX_LIST];
        float floats[OP_MAX_LIST];
        const char *strings[OP_MAX_LIST];
    } list;
    size_t element = attr->kind == INLAY_ATTR_FLOATS ? sizeof(float) : sizeof(int64_t);
    const void *copy = NULL;

    INLAY_CHECK(attr->count == 0 &&
                (attr->kind == INLAY_ATTR_INTS || attr->kind == INLAY_ATTR_FLOATS || attr->kind == INLAY_ATTR_STRINGS));
    INLAY_TRY(sig_expect(parser, '[', "expected '[' and a list"));
    while (sig_peek(parser) != ']') {
        double number = 0;

        if (attr->count == OP_MAX_LIST)
            return sig_too_many(parser, "elements in the default of an attribute", OP_MAX_LIST);
        if (attr->count > 0)
            INLAY_TRY(sig_expect(parser, ',', "expected ',' or ']'"));
        if (attr->kind == INLAY_ATTR_INTS) {
            INLAY_TRY(read_int(parser, &list.ints[attr->count]));
        } else if (attr->kind == INLAY_ATTR_FLOATS) {
            INLAY_TRY(read_float(parser, &number));
            list.floats[attr->count] = (float)number;
        } else {
            INLAY_TRY(read_string(parser, &list.strings[attr->count]));
        }
        attr->count++;
    }
    parser->at++;
    INLAY_TRY(sig_copy(parser, &list, attr->count * element, &copy));
    if (attr->kind == INLAY_ATTR_INTS)
        attr->ints = copy;
    else if (attr->kind == INLAY_ATTR_FLOATS)
        attr->floats = copy;
    else
        attr->strings = copy;
done:
    return status;
}

static inlay_status read_default(struct parser *parser, op_attr *attr)
{
    attr->has_default = true;
    switch (attr->kind) {
    case INLAY_ATTR_INT:
        return read_int(parser, &attr->i);
    case INLAY_ATTR_FLOAT:
        return read_float(parser, &attr->f);
    case INLAY_ATTR_STRING:
        return read_string(parser, &attr->s);
    case INLAY_ATTR_INTS:
    case INLAY_ATTR_FLOATS:
    case INLAY_ATTR_STRINGS:
        return read_list(parser, attr);
    default:
        return sig_mistake(parser, parser->at, "attributes of this kind have no default");
    }
}

/* Parses the values in braces. */
static inlay_status read_allowed(struct parser *parser, op_attr *attr)
{
    inlay_status status = INLAY_OK;
    union {
        int64_t ints[OP_MAX_LIST];
        const char *strings[OP_MAX_LIST];
    } list;
    const void *copy = NULL;
    const bool is_int = attr->kind == INLAY_ATTR_INT;

    if (!is_int && attr->kind != INLAY_ATTR_STRING)
        return sig_mistake(parser, parser->at, "only attributes of kind i and s have a list of values");
    do {
        if (attr->allowed_count == OP_MAX_LIST)
            return sig_too_many(parser, "values of an attribute", OP_MAX_LIST);
        if (is_int)
            INLAY_TRY(read_int(parser, &list.ints[attr->allowed_count]));
        else
            INLAY_TRY(read_string(parser, &list.strings[attr->allowed_count]));
        attr->allowed_count++;
    } while (sig_take(parser, '|'));
    INLAY_TRY(sig_expect(parser, '}', "expected '|' or '}'"));
    INLAY_TRY(sig_copy(parser, &list, attr->allowed_count * (is_int ? sizeof(int64_t) : sizeof(char *)), &copy));
    if (is_int)
        attr->allowed.ints = copy;
    else
        attr->allowed.strings = copy;
done:
    return status;
}

inlay_status sig_read_attrs(struct parser *parser, struct draft *draft)
{
    inlay_status status = INLAY_OK;
    struct span word;

    if (sig_peek(parser) == '\0')
        return INLAY_OK;
    do {
        op_attr *attr = &draft->attrs[draft->attr_count];

        if (draft->attr_count == OP_MAX_ATTRS)
            return sig_too_many(parser, "attributes", OP_MAX_ATTRS);
        if (sig_take(parser, '.')) {
            INLAY_TRY(sig_expect(parser, '.', "expected '...'"));
            INLAY_TRY(sig_expect(parser, '.', "expected '...'"));
            draft->open_attrs = true;
            return INLAY_OK;
        }
        *attr = (op_attr){ 0 };
        INLAY_TRY(sig_read_word(parser, "expected the name of an attribute", &word));
        for (uint32_t i = 0; i < draft->attr_count; i++)
            if (sig_span_is(word, draft->attrs[i].name))
                return sig_mistake(parser, word.begin, "this attribute is declared twice");
        INLAY_TRY(sig_copy_text(parser, word, &attr->name));
        INLAY_TRY(sig_expect(parser, ':', "expected ':' and the kind of the attribute"));
        INLAY_TRY(sig_read_word(parser, "expected the kind of the attribute", &word));
        for (uint32_t i = 0; i < OP_COUNT(kinds); i++)
            if (sig_span_is(word, kinds[i].name))
                attr->kind = kinds[i].kind;
        if (attr->kind == 0)
            return sig_mistake(parser, word.begin,
                               "no such kind of attribute; there are i f s t g is fs ss ts gs sp tp");
        if (sig_take(parser, '!'))
            attr->required = true;
        else if (sig_take(parser, '='))
            INLAY_TRY(read_default(parser, attr));
        if (sig_take(parser, '{'))
            INLAY_TRY(read_allowed(parser, attr));
        draft->attr_count++;
    } while (sig_take(parser, ','));
done:
    return status;
}

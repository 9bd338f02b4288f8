/* The attributes in an operator's signature, with their defaults. */
#include "signature.h"
#include <string.h>

static const struct {
    const char *name;
    uint32_t kind;
} kinds[] = {
    { "f", INLAY_ATTR_FLOAT },  { "i", INLAY_ATTR_INT },         { "s", INLAY_ATTR_STRING },
    { "t", INLAY_ATTR_TENSOR }, { "g", OP_ATTR_GRAPH },          { "fs", INLAY_ATTR_FLOATS },
    { "is", INLAY_ATTR_INTS },  { "ss", INLAY_ATTR_STRINGS },    { "ts", OP_ATTR_TENSORS },
    { "gs", OP_ATTR_GRAPHS },   { "sp", OP_ATTR_SPARSE_TENSOR }, { "tp", OP_ATTR_TYPE_PROTO },
};

static inlay_status read_int(struct parser *p, int64_t *out)
{
    bool minus = sig_take(p, '-');
    const char *place = p->at;
    int64_t value = 0;

    if (*p->at < '0' || *p->at > '9')
        return sig_mistake(p, place, "expected an integer");
    for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
        int64_t digit = *p->at - '0';

        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
            return sig_mistake(p, place, "an integer beyond 64 bits");
    }
    if (!minus && value == INT64_MIN)
        return sig_mistake(p, place, "an integer beyond 64 bits");
    *out = minus ? value : -value;
    return INLAY_OK;
}

/* A decimal number, whatever the locale. Up to 18 digits and small exponents: exact enough to round to float. */
static inlay_status read_float(struct parser *p, double *out)
{
    bool minus = sig_take(p, '-'), point = false, small;
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
            return sig_mistake(p, place, "a number with more than 17 digits");
        digits = digits * 10 + (uint64_t)(*p->at - '0');
        exponent -= point;
    }
    if (p->at == place || (point && p->at == place + 1))
        return sig_mistake(p, place, "expected a number");
    if (*p->at == 'e') {
        p->at++;
        if (*p->at == '+')
            p->at++;
        if (read_int(p, &given) != INLAY_OK || given < -60 || given > 60)
            return sig_mistake(p, place, "expected an exponent between -60 and 60");
    }
    exponent += given;
    small = exponent < 0;
    for (exponent = small ? -exponent : exponent; exponent > 0; exponent--)
        power *= 10;
    value = small ? (double)digits / power : (double)digits * power;
    if (value > 3.40282356e38)
        return sig_mistake(p, place, "a number that no float holds");
    *out = (float)(minus ? -value : value);
    return INLAY_OK;
}

static inlay_status read_string(struct parser *p, const char **out)
{
    inlay_status status;
    struct span s;

    INLAY_TRY(sig_expect(p, '\'', "expected a 'string'"));
    s.begin = p->at;
    while (*p->at != '\0' && *p->at != '\'')
        p->at++;
    s.bytes = (size_t)(p->at - s.begin);
    INLAY_TRY(sig_expect(p, '\'', "a string without its end"));
    status = sig_copy_text(p, s, out);
done:
    return status;
}

static inlay_status read_list(struct parser *p, op_attr *attr)
{
    inlay_status status;
    union {
        int64_t ints[OP_MAX_LIST];
        float floats[OP_MAX_LIST];
        const char *strings[OP_MAX_LIST];
    } list;
    size_t element = attr->kind == INLAY_ATTR_FLOATS ? sizeof(float) : sizeof(int64_t);
    const void *mine = NULL;

    INLAY_TRY(sig_expect(p, '[', "expected '[' and a list"));
    while (sig_peek(p) != ']') {
        double number = 0;

        if (attr->count == OP_MAX_LIST)
            return sig_too_many(p, "elements in the default of an attribute", OP_MAX_LIST);
        if (attr->count > 0)
            INLAY_TRY(sig_expect(p, ',', "expected ',' or ']'"));
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
    INLAY_TRY(sig_copy(p, &list, attr->count * element, &mine));
    if (attr->kind == INLAY_ATTR_INTS)
        attr->ints = mine;
    else if (attr->kind == INLAY_ATTR_FLOATS)
        attr->floats = mine;
    else
        attr->strings = mine;
done:
    return status;
}

static inlay_status read_default(struct parser *p, op_attr *attr)
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
        return sig_mistake(p, p->at, "attributes of this kind have no default");
    }
}

inlay_status sig_read_attrs(struct parser *p, struct draft *d)
{
    inlay_status status = INLAY_OK;
    struct span word;

    if (sig_peek(p) == '\0')
        return INLAY_OK;
    do {
        op_attr *attr = &d->attrs[d->attr_count];

        if (d->attr_count == OP_MAX_ATTRS)
            return sig_too_many(p, "attributes", OP_MAX_ATTRS);
        if (sig_take(p, '.')) {
            INLAY_TRY(sig_expect(p, '.', "expected '...'"));
            INLAY_TRY(sig_expect(p, '.', "expected '...'"));
            d->open_attrs = true;
            return INLAY_OK;
        }
        *attr = (op_attr){ 0 };
        INLAY_TRY(sig_read_word(p, "expected the name of an attribute", &word));
        for (uint32_t i = 0; i < d->attr_count; i++)
            if (sig_span_is(word, d->attrs[i].name))
                return sig_mistake(p, word.begin, "this attribute is declared twice");
        INLAY_TRY(sig_copy_text(p, word, &attr->name));
        INLAY_TRY(sig_expect(p, ':', "expected ':' and the kind of the attribute"));
        INLAY_TRY(sig_read_word(p, "expected the kind of the attribute", &word));
        for (uint32_t i = 0; i < OP_COUNT(kinds); i++)
            if (sig_span_is(word, kinds[i].name))
                attr->kind = kinds[i].kind;
        if (attr->kind == 0)
            return sig_mistake(p, word.begin, "no such kind of attribute; there are i f s t g is fs ss ts gs sp tp");
        if (sig_take(p, '!'))
            attr->required = true;
        else if (sig_take(p, '='))
            INLAY_TRY(read_default(p, attr));
        d->attr_count++;
    } while (sig_take(p, ','));
done:
    return status;
}

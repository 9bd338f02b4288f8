/* ops/infer/dims.c - arithmetic on dimensions.
 *
 * A symbolic size is identified by the text of its name, so equal sizes must have equal texts. Every result has a
 * normal form: a sorted sum of products with integer factors:
 *
 *     2*batch*seq + floor((height + 1)/2) - 3
 *
 * Atoms are names; floor(A/B); min(A, B); broadcast(A, B), the size of A and B after broadcasting; and last(A, B), the
 * size of a slice of the last A elements of B, which is min(A, B), but B if A is 0.
 *
 * The text of a size is parsed again when the size becomes an operand. A name from a model that is not such an
 * expression is an opaque atom, and is written in brackets within longer expressions. Expressions beyond the limits of
 * dim_sums.h become unknown, which is always safe. */
#include "dim_sums.h"
#include "inlay/check.h"
#include <string.h>

bool dim_same(inlay_dim a, inlay_dim b)
{
    if (a.kind != b.kind || a.kind == INLAY_DIM_UNKNOWN)
        return false;
    return a.kind == INLAY_DIM_FIXED ? a.value == b.value : a.symbol == b.symbol;
}

static bool both_fixed(inlay_dim a, inlay_dim b)
{
    return a.kind == INLAY_DIM_FIXED && b.kind == INLAY_DIM_FIXED;
}

static bool is_fixed(inlay_dim dim, int64_t value)
{
    return dim.kind == INLAY_DIM_FIXED && dim.value == value;
}

/* a + factor * b */
static inlay_dim add_times(op_infer *infer, inlay_dim a, inlay_dim b, int64_t factor)
{
    dim_text text_a, text_b;
    struct sum sum, other;

    if (!sum_from_dim(infer, a, &text_a, &sum) || !sum_from_dim(infer, b, &text_b, &other))
        return dim_unknown();
    for (uint32_t i = 0; i < other.count; i++) {
        if (__builtin_mul_overflow(other.terms[i].factor, factor, &other.terms[i].factor) ||
            !sum_add(&sum, &other.terms[i]))
            return dim_unknown();
    }
    return dim_from_sum(infer, &sum);
}

inlay_dim dim_add(op_infer *infer, inlay_dim a, inlay_dim b)
{
    int64_t value;

    if (both_fixed(a, b))
        return __builtin_add_overflow(a.value, b.value, &value) ? dim_beyond(a.value < 0) : dim_fixed(value);
    if (dim_is_beyond(a) && b.kind == INLAY_DIM_FIXED)
        return a;
    if (is_fixed(a, 0) || (dim_is_beyond(b) && a.kind == INLAY_DIM_FIXED))
        return b;
    return is_fixed(b, 0) ? a : add_times(infer, a, b, 1);
}

inlay_dim dim_sub(op_infer *infer, inlay_dim a, inlay_dim b)
{
    int64_t value;

    if (both_fixed(a, b))
        return __builtin_sub_overflow(a.value, b.value, &value) ? dim_beyond(a.value < 0) : dim_fixed(value);
    return is_fixed(b, 0) ? a : add_times(infer, a, b, -1);
}

inlay_dim dim_mul(op_infer *infer, inlay_dim a, inlay_dim b)
{
    dim_text text_a, text_b;
    struct sum sum, other, product = { .count = 0 };
    int64_t value;

    if (both_fixed(a, b))
        return __builtin_mul_overflow(a.value, b.value, &value) ? dim_beyond((a.value < 0) != (b.value < 0))
                                                                : dim_fixed(value);
    if (is_fixed(a, 0) || is_fixed(b, 0))
        return dim_fixed(0);
    if ((dim_is_beyond(a) && b.kind == INLAY_DIM_FIXED) || (dim_is_beyond(b) && a.kind == INLAY_DIM_FIXED))
        return dim_beyond((a.value < 0) != (b.value < 0));
    if (is_fixed(a, 1))
        return b;
    if (is_fixed(b, 1))
        return a;
    if (!sum_from_dim(infer, a, &text_a, &sum) || !sum_from_dim(infer, b, &text_b, &other))
        return dim_unknown();
    for (uint32_t i = 0; i < sum.count; i++) {
        for (uint32_t j = 0; j < other.count; j++) {
            struct term term;

            if (!term_multiply(&sum.terms[i], &other.terms[j], &term) || !sum_add(&product, &term))
                return dim_unknown();
        }
    }
    return dim_from_sum(infer, &product);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    INLAY_CHECK(b != 0 && !(a == INT64_MIN && b == -1));
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Appends the atom floor(rest/divisor) to quotient. */
static bool add_floor(struct sum *quotient, const struct sum *rest, const struct sum *divisor, dim_text *text)
{
    struct term one = { .factor = 1, .count = 1 };
    bool simple;

    INLAY_CHECK(rest->count > 0);
    text->bytes = 0;
    text->full = false;
    text_append_string(text, "floor(");
    text_append_string(text, rest->count > 1 ? "(" : "");
    text_append_sum(text, rest);
    text_append_string(text, rest->count > 1 ? ")/" : "/");
    simple = divisor->count == 1 &&
             (divisor->terms[0].count == 0 || (divisor->terms[0].count == 1 && divisor->terms[0].factor == 1));
    text_append_string(text, simple ? "" : "(");
    text_append_sum(text, divisor);
    text_append_string(text, simple ? ")" : "))");
    one.atoms[0] = (struct atom){ text->data, text->bytes };
    return !text->full && sum_add(quotient, &one);
}

/* floor((floor(X/m) + c)/k) is floor((X + c*m)/(m*k)), so a chain of strides remains one division. Rewrites rest and
 * divisor if they have that form; the atoms of the new rest point into `text`. */
static void join_floors(struct sum *rest, struct sum *divisor, dim_text *text)
{
    const struct term *first = &rest->terms[0];
    int64_t c = rest->count == 2 ? rest->terms[1].factor : 0, m = 0, k = divisor->terms[0].factor;
    const char *end, *slash;
    struct sum inner;

    INLAY_CHECK(rest->count > 0 && divisor->count == 1 && k > 0);
    if (rest->count > 2 || (rest->count == 2 && rest->terms[1].count != 0) || first->factor != 1 || first->count != 1 ||
        strncmp(first->atoms[0].text, "floor(", 6) != 0)
        return;
    end = first->atoms[0].text + first->atoms[0].bytes - 1;
    for (slash = end - 1; *slash >= '0' && *slash <= '9'; slash--)
        ;
    for (const char *digit = slash + 1; digit < end; digit++)
        if (__builtin_mul_overflow(m, 10, &m) || __builtin_add_overflow(m, *digit - '0', &m))
            return;
    if (*slash != '/' || m == 0 || __builtin_mul_overflow(c, m, &c) || __builtin_mul_overflow(m, k, &m))
        return;
    text->bytes = 0;
    text->full = false;
    if (first->atoms[0].text[6] == '(')
        text_append(text, first->atoms[0].text + 7, (size_t)(slash - first->atoms[0].text) - 8);
    else
        text_append(text, first->atoms[0].text + 6, (size_t)(slash - first->atoms[0].text) - 6);
    if (text->full || !sum_read(text->data, &inner) || !sum_add(&inner, &(struct term){ .factor = c }))
        return;
    *rest = inner;
    divisor->terms[0].factor = m;
}

/* Moves the whole multiples of the divisor out of rest: floor((3*h + 5)/2) is h + 2 + floor((h + 1)/2). */
static bool take_quotient(struct sum *rest, const struct sum *divisor, struct sum *quotient)
{
    struct sum sum = *rest;

    rest->count = 0;
    for (uint32_t i = 0; i < sum.count; i++) {
        const struct term *term = &divisor->terms[0];
        struct term t = sum.terms[i], q;

        if (divisor->count == 1 && term_divide(&sum.terms[i], term, &q)) {
            t.factor = 0;
        } else if (divisor->count == 1 && term->count == 0 && term->factor > 0) {
            q = t;
            q.factor = floor_div(t.factor, term->factor);
            t.factor -= q.factor * term->factor;
        } else {
            q.factor = 0;
        }
        if (!sum_add(quotient, &q) || !sum_add(rest, &t))
            return false;
    }
    return true;
}

inlay_dim dim_div(op_infer *infer, inlay_dim a, inlay_dim b)
{
    dim_text text_a, text_b, text_floor, text_join;
    struct sum rest, divisor, quotient = { .count = 0 };

    if (is_fixed(b, 0) || (is_fixed(a, INT64_MIN) && is_fixed(b, -1)))
        return dim_unknown();
    if (both_fixed(a, b))
        return dim_fixed(floor_div(a.value, b.value));
    if (is_fixed(b, 1))
        return a;
    if (dim_same(a, b))
        return dim_fixed(1);
    if (!sum_from_dim(infer, a, &text_a, &rest) || !sum_from_dim(infer, b, &text_b, &divisor) ||
        !take_quotient(&rest, &divisor, &quotient))
        return dim_unknown();
    if (b.kind == INLAY_DIM_FIXED && b.value > 0 && rest.count > 0) {
        join_floors(&rest, &divisor, &text_join);
        if (!take_quotient(&rest, &divisor, &quotient))
            return dim_unknown();
        if (rest.count == 1 && rest.terms[0].count == 0)
            rest.count = 0; /* a constant in [0, divisor) */
    }
    if (rest.count > 0 && !add_floor(&quotient, &rest, &divisor, &text_floor))
        return dim_unknown();
    return dim_from_sum(infer, &quotient);
}

inlay_dim dim_ceil_div(op_infer *infer, inlay_dim a, inlay_dim b)
{
    inlay_dim quotient;

    if (b.kind == INLAY_DIM_FIXED && b.value > 0)
        return dim_div(infer, dim_add(infer, a, dim_fixed(b.value - 1)), b);
    quotient = dim_div(infer, a, b);
    return dim_same(dim_mul(infer, quotient, b), a) ? quotient : dim_unknown();
}

/* True if the term is known not to be negative. Names are sizes; an expression with a minus, as in floor(), may be
 * negative. */
static bool is_size_term(const struct term *term)
{
    for (uint32_t i = 0; i < term->count; i++)
        if (term->atoms[i].text[0] != '[' && memchr(term->atoms[i].text, '-', term->atoms[i].bytes) != NULL)
            return false;
    return term->factor >= 0;
}

/* True if a - b is a sum of sizes, and so not negative. */
static bool is_at_least(const op_infer *infer, inlay_dim a, inlay_dim b)
{
    dim_text text_a, text_b;
    struct sum sum, other;

    if (!sum_from_dim(infer, a, &text_a, &sum) || !sum_from_dim(infer, b, &text_b, &other))
        return false;
    for (uint32_t i = 0; i < other.count; i++)
        if (__builtin_mul_overflow(other.terms[i].factor, -1, &other.terms[i].factor) ||
            !sum_add(&sum, &other.terms[i]))
            return false;
    for (uint32_t i = 0; i < sum.count; i++)
        if (!is_size_term(&sum.terms[i]))
            return false;
    return true;
}

bool dim_is_size(const op_infer *infer, inlay_dim dim)
{
    return is_at_least(infer, dim, dim_fixed(0));
}

static bool write_dim(const op_infer *infer, inlay_dim dim, dim_text *text)
{
    dim_text brackets;
    struct sum sum;

    text->bytes = 0;
    text->full = false;
    if (!sum_from_dim(infer, dim, &brackets, &sum))
        return false;
    text_append_sum(text, &sum);
    return !text->full;
}

/* The atom call(a, b). If `sorted`, the order of the operands does not matter: a number comes first, then the texts are
 * sorted. */
static inlay_dim pair(op_infer *infer, const char *call, bool sorted, inlay_dim a, inlay_dim b)
{
    dim_text text_a, text_b, text = { .bytes = 0 };
    struct sum sum = { .count = 0 };
    struct term one = { .factor = 1, .count = 1 };
    bool swapped;

    if (!write_dim(infer, a, &text_a) || !write_dim(infer, b, &text_b))
        return dim_unknown();
    swapped =
        sorted && a.kind != INLAY_DIM_FIXED && (b.kind == INLAY_DIM_FIXED || strcmp(text_a.data, text_b.data) > 0);
    text_append_string(&text, call);
    text_append_string(&text, swapped ? text_b.data : text_a.data);
    text_append_string(&text, ", ");
    text_append_string(&text, swapped ? text_a.data : text_b.data);
    text_append_string(&text, ")");
    one.atoms[0] = (struct atom){ text.data, text.bytes };
    return text.full || !sum_add(&sum, &one) ? dim_unknown() : dim_from_sum(infer, &sum);
}

inlay_dim dim_min(op_infer *infer, inlay_dim a, inlay_dim b)
{
    if (a.kind == INLAY_DIM_UNKNOWN || b.kind == INLAY_DIM_UNKNOWN)
        return dim_unknown();
    if (dim_same(a, b) || is_at_least(infer, b, a))
        return a;
    return is_at_least(infer, a, b) ? b : pair(infer, "min(", true, a, b);
}

inlay_dim dim_last(op_infer *infer, inlay_dim a, inlay_dim b)
{
    if (a.kind == INLAY_DIM_FIXED)
        return a.value == 0 ? b : dim_min(infer, a, b);
    return a.kind == INLAY_DIM_UNKNOWN || b.kind == INLAY_DIM_UNKNOWN ? dim_unknown()
                                                                      : pair(infer, "last(", false, a, b);
}

/* True if broadcasting a with b has the size a, because b is min(n, a) with a number n >= 1, or because a is already
 * the result of broadcasting b. If a is 0 or 1, min(n, a) is a. Otherwise min(n, a) must be a or 1, or the sizes do not
 * broadcast and the run fails. */
static bool absorbs(const op_infer *infer, inlay_dim a, inlay_dim b)
{
    const char *name = b.kind == INLAY_DIM_SYMBOLIC ? infer->symbol_name(infer->ctx, b.symbol) : NULL;
    dim_text own;

    if (a.kind != INLAY_DIM_SYMBOLIC || name == NULL)
        return false;
    if (strncmp(name, "min(", 4) == 0 && name[4] >= '1' && name[4] <= '9' && write_dim(infer, a, &own)) {
        for (name += 4; *name >= '0' && *name <= '9'; name++)
            ;
        return strncmp(name, ", ", 2) == 0 && strncmp(name + 2, own.data, own.bytes) == 0 &&
               strcmp(name + 2 + own.bytes, ")") == 0;
    }
    name = infer->symbol_name(infer->ctx, a.symbol);
    if (name == NULL || strncmp(name, "broadcast(", 10) != 0 || strchr(name, '[') != NULL || !write_dim(infer, b, &own))
        return false;
    name += 10;
    if (strncmp(name, own.data, own.bytes) == 0 && strncmp(name + own.bytes, ", ", 2) == 0)
        return true;
    return strlen(name) > own.bytes + 3 && strncmp(name + strlen(name) - own.bytes - 3, ", ", 2) == 0 &&
           strncmp(name + strlen(name) - own.bytes - 1, own.data, own.bytes) == 0;
}

inlay_status dim_merge(const op_infer *infer, inlay_dim a, inlay_dim b, const char *what, inlay_dim *out)
{
    *out = a;
    if (both_fixed(a, b) && a.value != b.value)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "%s is %lld in one place and %lld in another", what,
                          (long long)a.value, (long long)b.value);
    if (a.kind == INLAY_DIM_UNKNOWN || (a.kind == INLAY_DIM_SYMBOLIC && b.kind == INLAY_DIM_FIXED))
        *out = b;
    return INLAY_OK;
}

inlay_status dim_broadcast(op_infer *infer, inlay_dim a, inlay_dim b, inlay_dim *out)
{
    if (is_fixed(a, 1) || is_fixed(b, 1)) {
        *out = is_fixed(a, 1) ? b : a;
    } else if (both_fixed(a, b) && a.value != b.value) {
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "sizes %lld and %lld do not broadcast: they must be equal or 1",
                          (long long)a.value, (long long)b.value);
    } else if (a.kind == INLAY_DIM_FIXED || b.kind == INLAY_DIM_FIXED) {
        *out = a.kind == INLAY_DIM_FIXED ? a : b; /* the other dimension must be that size or 1 */
    } else if (dim_same(a, b) || absorbs(infer, a, b)) {
        *out = a;
    } else {
        *out = absorbs(infer, b, a) ? b : pair(infer, "broadcast(", true, a, b);
    }
    return INLAY_OK;
}

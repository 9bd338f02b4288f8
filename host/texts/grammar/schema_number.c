/* Numbers: bounds, multiples, and values that are excluded. Numbers are compared as decimals; a number close to a bound
 * is written with at most 15 significant digits, so that a validator that compares doubles agrees. */
#include "texts/grammar/schema_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 15, MAX_WHOLE = 19, MAX_REMAINDERS = 4096, MAX_TERMS = 15, TEXT = 400 };

static const char zeros[] = "0000000000000000000", nines[] = "9999999999999999999";

/* whole.fraction, without zeros at the beginning of whole and at the end of the fraction. 0 has the whole "0". */
typedef struct decimal_number {
    bool negative;
    char whole[TEXT], fraction[TEXT];
} decimal_number;

/* A bound of magnitudes; none: there is none. */
typedef struct magnitude_bound {
    decimal_number at;
    bool open, none;
} magnitude_bound;

/* Bounds of numbers. */
typedef struct number_range {
    magnitude_bound low, high;
} number_range;

/* The shortest decimal that a double's reader reads as this number. */
static bool to_decimal(const json_t *number, decimal_number *out)
{
    const double value = json_number_value(number);
    char text[TEXT], digits[64] = "";
    size_t used = 0;
    int exponent = 0, point;

    *out = (decimal_number){ .negative = value < 0, .whole = "0" };
    if (json_is_integer(number)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(number));
        (void)strcpy(out->whole, text + out->negative);
        return true;
    }
    if (!isfinite(value))
        return false;
    for (int precision = DIGITS; precision <= 17; precision++) {
        (void)snprintf(text, sizeof text, "%.*e", precision - 1, fabs(value));
        if (strtod(text, NULL) == fabs(value))
            break;
    }
    for (const char *c = text; *c != 'e' && *c != '\0'; c++)
        if (*c >= '0' && *c <= '9')
            digits[used++] = *c;
    while (used > 0 && digits[used - 1] == '0')
        used--;
    digits[used] = '\0';
    exponent = atoi(strchr(text, 'e') + 1);
    point = exponent + 1; /* digits before the point */
    if (used == 0)
        return true;
    if (point > 0)
        for (int i = 0; i < point; i++) {
            out->whole[i] = (size_t)i < used ? digits[i] : '0';
            out->whole[i + 1] = '\0';
        }
    for (int i = point < 0 ? point : 0, k = 0; point < 0 && i < 0; i++, k++) {
        out->fraction[k] = '0';
        out->fraction[k + 1] = '\0';
    }
    if (point < (int)used)
        (void)strcat(out->fraction, digits + (point > 0 ? point : 0));
    return true;
}

/* < 0, 0 or > 0. */
static int compare(const decimal_number *left, const decimal_number *right)
{
    const size_t left_length = strlen(left->whole), right_length = strlen(right->whole);
    int order;

    if (left->negative != right->negative)
        return left->negative ? -1 : 1;
    order = left_length != right_length ? (left_length > right_length) - (left_length < right_length)
                                        : strcmp(left->whole, right->whole);
    if (order == 0)
        order = strcmp(left->fraction, right->fraction);
    return left->negative ? -order : order;
}

static grammar_node digit(const schema_reader *reader, int low, int high)
{
    return low <= high ? grammar_byte(reader->grammar, (uint8_t)low, (uint8_t)high) : grammar_never(reader->grammar);
}

static grammar_node any_digits(const schema_reader *reader, uint32_t least, uint32_t most)
{
    return grammar_repeat(reader->grammar, digit(reader, '0', '9'), least, most);
}

/* Digits from low to high, both of this length. */
static grammar_node digits_between(const schema_reader *reader, const char *low, const char *high, size_t length)
{
    grammar_node all;

    if (strspn(low, "0") >= length && strspn(high, "9") >= length)
        return any_digits(reader, (uint32_t)length, (uint32_t)length);
    if (low[0] == high[0])
        return schema_join(reader, digit(reader, low[0], low[0]),
                           digits_between(reader, low + 1, high + 1, length - 1));
    all = schema_either(
        reader, schema_join(reader, digit(reader, low[0], low[0]), digits_between(reader, low + 1, nines, length - 1)),
        schema_join(reader, digit(reader, high[0], high[0]), digits_between(reader, zeros, high + 1, length - 1)));
    return schema_either(reader, all,
                         schema_join(reader, digit(reader, low[0] + 1, high[0] - 1),
                                     any_digits(reader, (uint32_t)length - 1, (uint32_t)length - 1)));
}

/* Whole numbers from low to high. */
static grammar_node wholes(const schema_reader *reader, const char *low, const char *high)
{
    const size_t least = strlen(low), most = strlen(high);
    grammar_node all = grammar_never(reader->grammar);

    for (size_t length = least; length <= most; length++) {
        char from[MAX_WHOLE + 1], to[MAX_WHOLE + 1];

        memset(from, '0', sizeof from);
        memset(to, '9', sizeof to);
        from[0] = length > 1 ? '1' : '0';
        from[length] = to[length] = '\0';
        if (length == least)
            (void)snprintf(from, sizeof from, "%.*s", MAX_WHOLE, low);
        if (length == most)
            (void)snprintf(to, sizeof to, "%.*s", MAX_WHOLE, high);
        if (strcmp(from, to) <= 0)
            all = schema_either(reader, all, digits_between(reader, from, to, length));
    }
    return all;
}

/* At most `room` further digits of a fraction whose rest is at least `low` (open: more than it) and at most `high`
 * (NULL: any). needs: at least one digit. */
static grammar_node fraction_between(const schema_reader *reader, const char *low, bool low_open, const char *high,
                                     bool high_open, uint32_t room, bool needs)
{
    const bool low_ends = low == NULL || *low == '\0';
    const int first = low_ends ? '0' : *low, last = high == NULL ? '9' : *high == '\0' ? '0' : *high;
    const char *low_rest = low_ends ? low : low + 1, *high_rest = high == NULL || *high == '\0' ? high : high + 1;
    const bool may_end =
        !needs && low_ends && !(low != NULL && low_open) && !(high != NULL && *high == '\0' && high_open);
    grammar_node all = may_end ? grammar_empty(reader->grammar) : grammar_never(reader->grammar);

    if (room == 0)
        return all;
    if (low == NULL && high == NULL)
        return any_digits(reader, needs, room);
    if (first == last)
        return schema_either(
            reader, all,
            schema_join(reader, digit(reader, first, first),
                        fraction_between(reader, low_rest, low_open, high_rest, high_open, room - 1, false)));
    all = schema_either(reader, all,
                        schema_join(reader, digit(reader, first, first),
                                    fraction_between(reader, low_rest, low_open, NULL, false, room - 1, false)));
    all = schema_either(reader, all,
                        schema_join(reader, digit(reader, first + 1, last - 1), any_digits(reader, 0, room - 1)));
    return schema_either(reader, all,
                         schema_join(reader, digit(reader, last, last),
                                     fraction_between(reader, NULL, false, high_rest, high_open, room - 1, false)));
}

/* ".digits" or nothing, within these bounds. */
static grammar_node fractions(const schema_reader *reader, const char *low, bool low_open, const char *high,
                              bool high_open, uint32_t room)
{
    const bool may_lack = (low == NULL || (*low == '\0' && !low_open)) && !(high != NULL && *high == '\0' && high_open);
    grammar_node some = schema_join(reader, schema_words(reader, "."),
                                    fraction_between(reader, low, low_open, high, high_open, room, true));

    return may_lack ? schema_either(reader, grammar_empty(reader->grammar), some) : some;
}

static void add_one(char *whole)
{
    size_t at = strlen(whole);

    while (at > 0 && whole[at - 1] == '9')
        whole[--at] = '0';
    if (at > 0) {
        whole[at - 1]++;
        return;
    }
    memmove(whole + 1, whole, strlen(whole) + 1);
    whole[0] = '1';
}

/* whole > 0. */
static void take_one(char *whole)
{
    size_t at = strlen(whole);

    while (at > 1 && whole[at - 1] == '0')
        whole[--at] = '9';
    whole[at - 1]--;
    if (whole[0] == '0' && whole[1] != '\0')
        memmove(whole, whole + 1, strlen(whole));
}

/* Magnitudes within the bounds, both of which exist. fraction: digits that a fraction may have at most. */
static grammar_node magnitudes(const schema_reader *reader, const magnitude_bound *low, const magnitude_bound *high,
                               uint32_t fraction)
{
    const uint32_t low_room = strlen(low->at.whole) < fraction ? fraction - (uint32_t)strlen(low->at.whole) : 0;
    const uint32_t high_room = strlen(high->at.whole) < fraction ? fraction - (uint32_t)strlen(high->at.whole) : 0;
    decimal_number from = low->at, to = high->at;
    grammar_node all;

    if (compare(&low->at, &high->at) > 0)
        return grammar_never(reader->grammar);
    if (strcmp(from.whole, to.whole) == 0)
        return schema_join(reader, schema_words(reader, from.whole),
                           fractions(reader, from.fraction, low->open, to.fraction, high->open, low_room));
    all = schema_join(reader, schema_words(reader, from.whole),
                      fractions(reader, from.fraction, low->open, NULL, false, low_room));
    all = schema_either(reader, all,
                        schema_join(reader, schema_words(reader, to.whole),
                                    fractions(reader, NULL, false, to.fraction, high->open, high_room)));
    add_one(from.whole);
    take_one(to.whole);
    from.fraction[0] = to.fraction[0] = '\0';
    return compare(&from, &to) > 0 ? all
                                   : schema_either(reader, all,
                                                   schema_join(reader, wholes(reader, from.whole, to.whole),
                                                               fractions(reader, NULL, false, NULL, false, fraction)));
}

/* Takes the keyword's value if it is the narrower bound. */
static bool take_bound(const schema_reader *reader, const schema_list *list, const char *keyword, bool is_low,
                       bool open, magnitude_bound *bound)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const json_t *value = json_object_get(list->parts[i], keyword);
        decimal_number at;
        int order;

        if (value == NULL)
            continue;
        if (!json_is_number(value) || !to_decimal(value, &at))
            return schema_fail(reader, keyword, "not a number");
        order = bound->none ? 1 : is_low ? compare(&at, &bound->at) : compare(&bound->at, &at);
        if (order > 0 || (order == 0 && open))
            *bound = (magnitude_bound){ .at = at, .open = open };
    }
    return true;
}

/* The digits of a multiple: those before and after the point as one number, and how many are after it. */
static bool read_multiple(const json_t *value, uint32_t *out_number, uint32_t *out_scale)
{
    decimal_number at;
    char text[2 * TEXT];

    if (!json_is_number(value) || json_number_value(value) <= 0 || !to_decimal(value, &at))
        return false;
    (void)snprintf(text, sizeof text, "%s%s", at.whole, at.fraction);
    *out_scale = (uint32_t)strlen(at.fraction);
    *out_number = strlen(text) < 12 ? (uint32_t)strtoul(text, NULL, 10) : 0;
    return strlen(text) < 12 && *out_number > 0 && *out_number <= MAX_REMAINDERS && *out_scale < 12 &&
           *out_number * (*out_scale + 1) <= MAX_REMAINDERS;
}

static uint32_t times_ten(uint32_t remainder, uint32_t times, uint32_t number)
{
    for (uint32_t i = 0; i < times; i++)
        remainder = remainder * 10 % number;
    return remainder;
}

/* Magnitudes that are multiples. State s * number + r: s digits of the fraction were read, and the remainder is r. The
 * point leads to states of their own, because a digit has to follow it. */
static grammar_node multiples(const schema_reader *reader, uint32_t number, uint32_t scale)
{
    const uint32_t states = number * (scale + 2);
    bool *accepts = calloc(states, sizeof *accepts);
    grammar_edge *edges = calloc(11 * (size_t)states, sizeof *edges);
    grammar_node node = 0;
    uint32_t count = 0;

    for (uint32_t s = 0; accepts != NULL && edges != NULL && s <= scale + 1; s++) /* scale + 1: after the point */
        for (uint32_t r = 0; r < number; r++) {
            const uint32_t digits = s > scale ? 0 : s, next = s == 0 ? 0 : digits + 1;

            accepts[s * number + r] = s <= scale && times_ten(r, scale - s, number) == 0;
            for (uint32_t d = 0; d < 10 && next <= scale; d++)
                edges[count++] = (grammar_edge){ s * number + r, next * number + (r * 10 + d) % number,
                                                 (uint8_t)('0' + d), (uint8_t)('0' + d) };
            if (s == 0 && scale > 0)
                edges[count++] = (grammar_edge){ r, (scale + 1) * number + r, '.', '.' };
        }
    if (accepts != NULL && edges != NULL)
        node = grammar_graph(reader->grammar, accepts, states, edges, count);
    free(accepts);
    free(edges);
    return node;
}

/* The forms of a number's magnitude. */
static grammar_node forms_of(const schema_reader *reader, const decimal_number *at)
{
    grammar_node ending = schema_regex(reader, at->fraction[0] != '\0' ? "0*" : "(?:\\.0*)?", false);

    return schema_join(reader, schema_words(reader, at->whole),
                       schema_join(reader, schema_words(reader, at->fraction[0] != '\0' ? "." : ""),
                                   schema_join(reader, schema_words(reader, at->fraction), ending)));
}

/* The numbers among the values, of one sign. 0 has both. */
static grammar_node forms_of_all(const schema_reader *reader, const json_t *values, bool negative)
{
    grammar_node all = grammar_never(reader->grammar);

    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        decimal_number at;

        if (json_is_number(value) && to_decimal(value, &at) &&
            (at.negative == negative || json_number_value(value) == 0))
            all = schema_either(reader, all, forms_of(reader, &at));
    }
    return all;
}

/* The bounds of the magnitudes of one sign. false: there are none. */
static bool one_sign(const number_range *range, bool negative, magnitude_bound *low, magnitude_bound *high)
{
    *low = negative ? range->high : range->low;
    *high = negative ? range->low : range->high;
    if (!high->none && high->at.negative != negative)
        return false;
    if (low->none || low->at.negative != negative)
        *low = (magnitude_bound){ .at = { .whole = "0" }, .open = negative }; /* 0 has no sign */
    if (high->none || strlen(high->at.whole) > MAX_WHOLE) {                   /* farther than what is written */
        *high = (magnitude_bound){ .none = false };
        (void)snprintf(high->at.whole, sizeof high->at.whole, "%.*s", DIGITS, nines);
    }
    low->at.negative = high->at.negative = false;
    return strlen(low->at.whole) <= MAX_WHOLE;
}

/* Magnitudes of one sign. */
static bool one_side(const schema_reader *reader, const schema_list *list, const number_range *range, uint32_t types,
                     const json_t *excluded, bool negative, grammar_node *out)
{
    const bool whole_only = (types & SCHEMA_FRACTION) == 0;
    magnitude_bound low, high;
    grammar_node with[MAX_TERMS + 2], without[MAX_TERMS + 2];
    uint32_t with_count = 0, without_count = 0, most_scale = 0;
    bool has_not = false;
    char digits[32];

    *out = grammar_never(reader->grammar);
    if (!one_sign(range, negative, &low, &high))
        return true;
    with[with_count++] = magnitudes(reader, &low, &high, whole_only ? 0 : DIGITS);
    for (uint32_t i = 0; i < 2 * list->count; i++) {
        const json_t *part = list->parts[i / 2];
        const bool in_not = i % 2 == 1;
        const json_t *value = json_object_get(in_not ? schema_plain_not(part) : part, "multipleOf");
        uint32_t number, scale;

        if (value == NULL)
            continue;
        if (with_count + without_count == MAX_TERMS || !read_multiple(value, &number, &scale))
            return schema_fail(reader, "multipleOf", "must be above 0 and have at most 4096 remainders");
        if (in_not)
            without[without_count++] =
                schema_join(reader, multiples(reader, number, scale),
                            schema_regex(reader, scale > 0 ? "0*" : "(?:\\.0*)?", false)); /* in every form */
        else
            with[with_count++] = multiples(reader, number, scale);
        has_not |= in_not;
        most_scale = in_not && scale > most_scale ? scale : most_scale;
    }
    without[without_count] = forms_of_all(reader, excluded, negative);
    without_count += !grammar_is_never(reader->grammar, without[without_count]);
    if ((types & SCHEMA_INTEGER) == 0)
        without[without_count++] = schema_regex(reader, "[0-9]+(?:\\.0*)?", false);
    if (without_count > 0 && (!whole_only || has_not)) {
        /* At most DIGITS, so that no double's reader takes one for an excluded number, and fewer by the digits of the
         * fraction of a number whose multiples are excluded, for readers that divide by it. */
        (void)snprintf(digits, sizeof digits, "[0-9.]{1,%u}", has_not ? DIGITS - most_scale : DIGITS + 1u);
        with[with_count++] = schema_regex(reader, digits, false);
    }
    if (!schema_product(reader, "multipleOf", with, with_count, without, without_count, out))
        return false;
    if (negative)
        *out = schema_join(reader, schema_words(reader, "-"), *out);
    return true;
}

grammar_node schema_any_number(const schema_reader *reader)
{
    return schema_regex(reader, "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?", false);
}

bool schema_numbers(const schema_reader *reader, const schema_list *list, uint32_t types, const json_t *excluded,
                    grammar_node *out)
{
    number_range range = { .low.none = true, .high.none = true };
    grammar_node positive, negative;
    bool has_multiple = false;

    if (!take_bound(reader, list, "minimum", true, false, &range.low) ||
        !take_bound(reader, list, "exclusiveMinimum", true, true, &range.low) ||
        !take_bound(reader, list, "maximum", false, false, &range.high) ||
        !take_bound(reader, list, "exclusiveMaximum", false, true, &range.high))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        has_multiple |= json_object_get(list->parts[i], "multipleOf") != NULL ||
                        json_object_get(schema_plain_not(list->parts[i]), "multipleOf") != NULL;
    if (types == SCHEMA_NUMBER && range.low.none && range.high.none && !has_multiple &&
        json_array_size(excluded) == 0) {
        *out = schema_any_number(reader);
        return true;
    }
    if (!one_side(reader, list, &range, types, excluded, false, &positive) ||
        !one_side(reader, list, &range, types, excluded, true, &negative))
        return false;
    *out = schema_either(reader, positive, negative);
    return true;
}

/* The operators of templates: slices, sums of texts and lists, arithmetic. */
#include "texts/template/template_internal.h"
#include <math.h>

static int64_t bound(const struct value *given, int64_t otherwise, int64_t count, int64_t step)
{
    int64_t at = given->number, least = step < 0 ? -1 : 0, most = step < 0 ? count - 1 : count;

    if (!value_is_whole(given))
        return otherwise;
    at += at < 0 ? count : 0;
    return at < least ? least : at > most ? most : at;
}

bool value_slice(struct machine *machine, const struct value *of, const struct value given[3], struct value *out)
{
    const bool safe = of->kind == VALUE_TEXT && of->is_safe;
    struct value whole = *of, *list;
    int64_t step, from, to, count;
    size_t length, used = 0;

    for (int i = 0; i < 3; i++)
        if (!value_is_whole(&given[i]) && given[i].kind > VALUE_NONE)
            return machine_fail(machine, INLAY_UNSUPPORTED, "a slice by a value that is not a whole number", "", 0);
    step = value_is_whole(&given[2]) ? given[2].number : 1;
    if (of->kind != VALUE_LIST && of->kind != VALUE_TEXT && of->kind != VALUE_UNDEFINED) {
        *out = (struct value){ .kind = VALUE_UNDEFINED }; /* as an element of a value without any */
        return true;
    }
    if (of->kind == VALUE_UNDEFINED || !value_length(of, &length) || step == 0)
        return machine_fail(machine, INLAY_UNSUPPORTED,
                            step == 0 ? "a slice whose step is 0" : "a slice of an undefined value", "", 0);
    count = (int64_t)length;
    step = step > count ? count + 1 : step < -count ? -count - 1 : step;
    from = bound(&given[0], step < 0 ? count - 1 : 0, count, step);
    to = bound(&given[1], step < 0 ? -1 : count, count, step);
    if (of->kind == VALUE_TEXT && step == 1) {
        size_t first = value_character(of, (size_t)from), last = value_character(of, (size_t)to);

        *out = text_value(of->text + first, last > first ? last - first : 0);
        out->is_safe = safe;
        return true;
    }
    if (!value_elements(machine, &whole))
        return false;
    list = machine_memory(machine, length * sizeof *list);
    for (; list != NULL && (step < 0 ? from > to : from < to); from += step)
        list[used++] = whole.list[from];
    if (list == NULL || of->kind == VALUE_LIST) {
        *out = list_value(list, used);
        return list != NULL;
    }
    struct strbuf text = { 0 };

    for (size_t i = 0; i < used; i++)
        strbuf_add(&text, list[i].text, list[i].count);
    if (!machine_take(machine, &text, out))
        return false;
    out->is_safe = safe;
    return true;
}

/* The sum of two texts of which one is safe: the other one is escaped. */
static bool add_safe(struct machine *machine, struct value left, struct value right, struct value *out)
{
    struct strbuf text = { 0 };

    if (!value_escape(machine, &left) || !value_escape(machine, &right))
        return false;
    strbuf_add(&text, left.text, left.count);
    strbuf_add(&text, right.text, right.count);
    if (!machine_take(machine, &text, out))
        return false;
    out->is_safe = true;
    return true;
}

static bool concatenate(struct machine *machine, const struct value *left, const struct value *right, struct value *out)
{
    struct strbuf text = { 0 };
    bool good = machine_print(machine, &text, left) && machine_print(machine, &text, right);

    return machine_take(machine, &text, out) && good;
}

static bool join_lists(struct machine *machine, const struct value *left, const struct value *right, struct value *out)
{
    struct value *list = machine_memory(machine, (left->count + right->count) * sizeof *list);

    if (list == NULL)
        return false;
    if (left->count > 0)
        memcpy(list, left->list, left->count * sizeof *list);
    if (right->count > 0)
        memcpy(list + left->count, right->list, right->count * sizeof *list);
    *out = list_value(list, left->count + right->count);
    return true;
}

static bool multiply_text(struct machine *machine, const struct value *text, int64_t times, struct value *out)
{
    const bool safe = text->is_safe; /* `out` may be `text` */
    struct strbuf whole = { 0 };

    if (times > 0 && text->count > (size_t)TEMPLATE_TEXT / (size_t)times)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "the text has more than 16 MiB", "", 0);
    for (int64_t i = 0; i < times && text->count > 0; i++)
        strbuf_add(&whole, text->text, text->count);
    if (!machine_take(machine, &whole, out))
        return false;
    out->is_safe = safe;
    return true;
}

/* Quotients and remainders are rounded down, as in Python. */
static bool compute_whole(sign_kind sign, int64_t left, int64_t right, int64_t *out)
{
    int64_t power = 1;

    switch (sign) {
    case SIGN_ADD:
        return !__builtin_add_overflow(left, right, out);
    case SIGN_SUBTRACT:
        return !__builtin_sub_overflow(left, right, out);
    case SIGN_MULTIPLY:
        return !__builtin_mul_overflow(left, right, out);
    case SIGN_FLOOR_DIVIDE:
    case SIGN_REMAINDER:
        if (right == 0 || (right == -1 && left == INT64_MIN))
            return false;
        *out = sign == SIGN_REMAINDER ? left % right : left / right;
        if (left % right != 0 && (left < 0) != (right < 0))
            *out += sign == SIGN_REMAINDER ? right : -1;
        return true;
    default:
        for (int64_t i = 0; i < right; i++)
            if (i == 64 || __builtin_mul_overflow(power, left, &power))
                return false;
        *out = power;
        return right >= 0;
    }
}

static double compute_real(sign_kind sign, double left, double right)
{
    double rest;

    switch (sign) {
    case SIGN_ADD:
        return left + right;
    case SIGN_SUBTRACT:
        return left - right;
    case SIGN_MULTIPLY:
        return left * right;
    case SIGN_DIVIDE:
        return left / right;
    case SIGN_FLOOR_DIVIDE:
    case SIGN_REMAINDER:
        rest = fmod(left, right);
        rest = rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
        return sign == SIGN_REMAINDER ? rest : nearbyint((left - rest) / right); /* left / right is rounded itself */
    default:
        return pow(left, right);
    }
}

bool value_compute(struct machine *machine, sign_kind sign, const struct value *left, const struct value *right,
                   struct value *out)
{
    static const char *const names[] = { "+", "-", "*", "/", "//", "%", "**" };
    bool divides = sign == SIGN_DIVIDE || sign == SIGN_FLOOR_DIVIDE || sign == SIGN_REMAINDER;
    int64_t whole;

    if (sign == SIGN_JOIN)
        return concatenate(machine, left, right, out);
    /* A message that calls tools has the content none. Templates that take it for a text fail in Jinja, and the servers
     * that they are written for hand them "" then; so none counts as an empty text after 'in', in sums with texts and
     * for its length. */
    if (sign == SIGN_ADD && left->kind == VALUE_NONE && right->kind == VALUE_TEXT) {
        *out = *right;
        return true;
    }
    if (sign == SIGN_ADD && right->kind == VALUE_NONE && left->kind == VALUE_TEXT) {
        *out = *left;
        return true;
    }
    if (sign == SIGN_ADD && left->kind == VALUE_TEXT && right->kind == VALUE_TEXT && (left->is_safe || right->is_safe))
        return add_safe(machine, *left, *right, out);
    /* The result of a macro, and JSON, count as texts; see template_variable. */
    if (sign == SIGN_ADD && ((left->kind == VALUE_TEXT && (right->kind == VALUE_TEXT || right->is_json)) ||
                             (left->is_json && right->kind == VALUE_TEXT)))
        return concatenate(machine, left, right, out);
    if (sign == SIGN_ADD && left->kind == VALUE_LIST && right->kind == VALUE_LIST)
        return join_lists(machine, left, right, out);
    if (sign == SIGN_MULTIPLY && left->kind == VALUE_TEXT && value_is_whole(right))
        return multiply_text(machine, left, right->number, out);
    if (sign == SIGN_MULTIPLY && right->kind == VALUE_TEXT && value_is_whole(left))
        return multiply_text(machine, right, left->number, out);
    if (!value_is_number(left) || !value_is_number(right) || (divides && value_real(right) == 0))
        return machine_fail(machine, INLAY_UNSUPPORTED, "these operands of", names[sign], strlen(names[sign]));
    if (sign == SIGN_DIVIDE || left->kind == VALUE_REAL || right->kind == VALUE_REAL) {
        *out = real_value(compute_real(sign, value_real(left), value_real(right)));
        return true;
    }
    if (!compute_whole(sign, left->number, right->number, &whole))
        return machine_fail(machine, INLAY_UNSUPPORTED, "these operands of", names[sign], strlen(names[sign]));
    *out = number_value(whole);
    return true;
}

/* Interpreter of chat templates: expressions. */
#include "inlay/check.h"
#include "serve/chat/chat_internal.h"
#include <string.h>

/* ------------------------------------------------------------------ primary expressions */

static bool read_string(struct machine *machine, char quote, struct value *out)
{
    const char *from = machine->at, *to = from;
    bool escaped = false;
    char *text;
    size_t count = 0;

    for (; to < machine->end && *to != quote; to++) {
        escaped |= *to == '\\';
        to += *to == '\\' && to + 1 < machine->end;
    }
    if (to == machine->end)
        return machine_fail(machine, INLAY_UNSUPPORTED, "a string that is not closed", "", 0);
    machine->at = to + 1;
    *out = text_value(from, (size_t)(to - from));
    if (!escaped)
        return true;
    text = machine_memory(machine, (size_t)(to - from) + 1);
    if (text == NULL)
        return false;
    for (; from < to; from++) {
        if (*from != '\\') {
            text[count++] = *from;
            continue;
        }
        from++;
        text[count++] = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == 'r' ? '\r' : *from);
    }
    *out = text_value(text, count);
    return true;
}

static bool read_list(struct machine *machine, struct value *out)
{
    enum { LIMIT = 32 };
    struct value *list = machine_memory(machine, LIMIT * sizeof *list);

    if (list == NULL)
        return false;
    *out = (struct value){ .kind = VALUE_LIST, .list = list };
    while (!machine_sign(machine, "]")) {
        if (out->count == LIMIT)
            return machine_fail(machine, INLAY_UNSUPPORTED, "a list of more than 32 elements", "", 0);
        if (!value_read(machine, &list[out->count++]))
            return false;
        if (!machine_sign(machine, ",") &&
            (machine->at == machine->end || *machine->at != ']')) /* machine_sign() has skipped spaces */
            return machine_fail(machine, INLAY_UNSUPPORTED, "this form of list", "", 0);
    }
    return true;
}

/* namespace(name=value, ...) */
static bool read_namespace(struct machine *machine, struct value *out)
{
    const char *name;
    size_t bytes;
    int namespace_id = ++machine->namespace_count;

    while (!machine_sign(machine, ")")) {
        struct value value;

        if (!machine_name(machine, &name, &bytes) || !machine_sign(machine, "=") || !value_read(machine, &value) ||
            !machine_set(machine, name, bytes, namespace_id, value))
            return machine_fail(machine, INLAY_UNSUPPORTED, "this form of namespace", "", 0);
        (void)machine_sign(machine, ",");
    }
    *out = (struct value){ .kind = VALUE_NAMESPACE, .number = namespace_id };
    return true;
}

static bool read_call(struct machine *machine, const char *name, size_t bytes, struct value *out)
{
    if (machine_is(name, bytes, "namespace"))
        return read_namespace(machine, out);
    if (!machine_is(name, bytes, "raise_exception"))
        return machine_fail(machine, INLAY_UNSUPPORTED, "the function", name, bytes);
    if (!value_read(machine, out) || !machine_sign(machine, ")"))
        return machine_fail(machine, INLAY_UNSUPPORTED, "the arguments of", name, bytes);
    return machine->quiet > 0 || machine_fail(machine, INLAY_INVALID_ARGUMENT, NULL, out->text, out->count);
}

static bool read_name(struct machine *machine, const char *name, size_t bytes, struct value *out)
{
    static const char *const words[] = { "true", "True", "false", "False", "none", "None" };

    for (int i = 0; i < 6; i++) {
        if (!machine_is(name, bytes, words[i]))
            continue;
        *out = i < 4 ? bool_value(i < 2) : (struct value){ .kind = VALUE_NONE };
        return true;
    }
    if (machine_sign(machine, "("))
        return read_call(machine, name, bytes, out);
    *out = value_find(machine, name, bytes, 0);
    return true;
}

static bool read_primary(struct machine *machine, struct value *out)
{
    const char *name;
    size_t bytes;

    if (machine_sign(machine, "'"))
        return read_string(machine, '\'', out);
    if (machine_sign(machine, "\""))
        return read_string(machine, '"', out);
    if (machine_sign(machine, "["))
        return read_list(machine, out);
    if (machine_sign(machine, "("))
        return value_read(machine, out) &&
               (machine_sign(machine, ")") || machine_fail(machine, INLAY_UNSUPPORTED, "a tuple", "", 0));
    machine_spaces(machine);
    if (machine->at < machine->end && *machine->at >= '0' && *machine->at <= '9') {
        *out = number_value(0);
        while (machine->at < machine->end && *machine->at >= '0' && *machine->at <= '9' && out->number < 1000000000)
            out->number = out->number * 10 + (*machine->at++ - '0');
        return true;
    }
    if (machine_name(machine, &name, &bytes))
        return read_name(machine, name, bytes, out);
    return machine_fail(machine, INLAY_UNSUPPORTED, "an expression that begins with", machine->at,
                        machine->at < machine->end);
}

static int64_t clamp(int64_t at, int64_t count)
{
    at += at < 0 ? count : 0;
    return at < 0 ? 0 : at > count ? count : at;
}

/* [i], [i:], [:i], [i:k] */
static bool read_index(struct machine *machine, struct value *value)
{
    struct value from = number_value(0), to = number_value((int64_t)value->count);
    bool has_from = !machine_sign(machine, ":");

    if (has_from && !value_read(machine, &from))
        return false;
    if (has_from && machine_sign(machine, "]"))
        return value_element(machine, value, &from);
    if (has_from && !machine_sign(machine, ":"))
        return machine_fail(machine, INLAY_UNSUPPORTED, "this form of index", "", 0);
    if (!machine_sign(machine, "]")) {
        if (!value_read(machine, &to))
            return false;
        if (!machine_sign(machine, "]"))
            return machine_fail(machine, INLAY_UNSUPPORTED, "a slice with a step", "", 0);
    }
    if (from.kind != VALUE_NUMBER || to.kind != VALUE_NUMBER ||
        (value->kind != VALUE_LIST && value->kind != VALUE_TEXT)) {
        if (machine->quiet == 0)
            return machine_fail(machine, INLAY_UNSUPPORTED, "a slice of this value", "", 0);
        return true;
    }
    from.number = clamp(from.number, (int64_t)value->count);
    to.number = clamp(to.number, (int64_t)value->count);
    if (value->kind == VALUE_LIST)
        value->list += from.number;
    else
        value->text += from.number;
    value->count = to.number > from.number ? (size_t)(to.number - from.number) : 0;
    return true;
}

static bool read_postfix(struct machine *machine, struct value *out)
{
    const char *name;
    size_t bytes;

    if (!read_primary(machine, out))
        return false;
    for (;;) {
        if (machine_sign(machine, ".")) {
            if (!machine_name(machine, &name, &bytes))
                return machine_fail(machine, INLAY_UNSUPPORTED, "an attribute without a name", "", 0);
            if (!(machine_sign(machine, "(") ? value_method(machine, out, name, bytes)
                                             : value_attribute(machine, out, name, bytes)))
                return false;
        } else if (machine_sign(machine, "[")) {
            if (!read_index(machine, out))
                return false;
        } else if (machine_sign(machine, "|")) {
            if (!value_filter(machine, out))
                return false;
        } else {
            return true;
        }
    }
}

/* ------------------------------------------------------------------ operators */

static bool read_unary(struct machine *machine, struct value *out)
{
    if (!machine_sign(machine, "-"))
        return read_postfix(machine, out);
    if (!read_postfix(machine, out))
        return false;
    if (out->kind != VALUE_NUMBER && machine->quiet == 0)
        return machine_fail(machine, INLAY_UNSUPPORTED, "- of a value that is not a number", "", 0);
    out->number = -out->number;
    return true;
}

static bool compute(struct machine *machine, char sign, struct value *left, const struct value *right)
{
    if (sign == '~' || (sign == '+' && left->kind == VALUE_TEXT && right->kind == VALUE_TEXT))
        return value_concatenate(machine, left, right, left);
    if (left->kind != VALUE_NUMBER || right->kind != VALUE_NUMBER || (sign == '%' && right->number == 0) ||
        left->number > 1000000000 || left->number < -1000000000 || right->number > 1000000000 ||
        right->number < -1000000000)
        return machine->quiet > 0 || machine_fail(machine, INLAY_UNSUPPORTED, "these operands of", &sign, 1);
    if (sign == '%') {
        left->number %= right->number;
        left->number += left->number != 0 && (left->number < 0) != (right->number < 0) ? right->number : 0;
        return true;
    }
    left->number = sign == '+'   ? left->number + right->number
                   : sign == '-' ? left->number - right->number
                                 : left->number * right->number;
    return true;
}

/* Reads one level of operators: `*` and `%` bind more tightly than `+`, `-` and `~`. */
static bool read_terms(struct machine *machine, struct value *out, bool multiplicative)
{
    static const char *const signs[2][3] = { { "+", "-", "~" }, { "*", "%", NULL } };

    if (!(multiplicative ? read_unary(machine, out) : read_terms(machine, out, true)))
        return false;
    for (;;) {
        const char *sign = NULL;
        struct value right;

        if (machine_at_end(machine)) /* before operators: "-%}" begins with - and "%}" with % */
            return true;
        for (int i = 0; i < 3 && sign == NULL && signs[multiplicative][i] != NULL; i++)
            sign = machine_sign(machine, signs[multiplicative][i]) ? signs[multiplicative][i] : NULL;
        if (sign == NULL)
            return true;
        if (!(multiplicative ? read_unary(machine, &right) : read_terms(machine, &right, true)) ||
            !compute(machine, sign[0], out, &right))
            return false;
    }
}

static bool read_test(struct machine *machine, struct value *out)
{
    bool negated = machine_word(machine, "not"), yes;
    const char *name = "";
    size_t bytes = 0;

    (void)machine_name(machine, &name, &bytes);
    if (machine_is(name, bytes, "defined"))
        yes = out->kind != VALUE_UNDEFINED;
    else if (machine_is(name, bytes, "none") || machine_is(name, bytes, "None"))
        yes = out->kind == VALUE_NONE;
    else if (machine_is(name, bytes, "string"))
        yes = out->kind == VALUE_TEXT;
    else if (machine_is(name, bytes, "true") || machine_is(name, bytes, "false"))
        yes = out->kind == VALUE_BOOL && out->number == (name[0] == 't');
    else
        return machine_fail(machine, INLAY_UNSUPPORTED, "the test", name, bytes);
    *out = bool_value(yes != negated);
    return true;
}

static bool read_comparison(struct machine *machine, struct value *out)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    bool negated;
    struct value right;
    int sign = 0;

    if (!read_terms(machine, out, false))
        return false;
    if (machine_word(machine, "is"))
        return read_test(machine, out);
    negated = machine_word(machine, "not");
    if (machine_word(machine, "in")) {
        if (!read_terms(machine, &right, false))
            return false;
        *out = bool_value(value_contains(&right, out) != negated);
        return true;
    }
    if (negated)
        return machine_fail(machine, INLAY_UNSUPPORTED, "not without in", "", 0);
    while (sign < 6 && !machine_sign(machine, signs[sign]))
        sign++;
    if (sign == 6)
        return true;
    if (!read_terms(machine, &right, false))
        return false;
    if (sign >= 2 && (out->kind != VALUE_NUMBER || right.kind != VALUE_NUMBER) && machine->quiet == 0)
        return machine_fail(machine, INLAY_UNSUPPORTED, "an order comparison of values that are not numbers", "", 0);
    *out = bool_value(sign == 0   ? value_same(out, &right)
                      : sign == 1 ? !value_same(out, &right)
                      : sign == 2 ? out->number <= right.number
                      : sign == 3 ? out->number >= right.number
                      : sign == 4 ? out->number < right.number
                                  : out->number > right.number);
    return true;
}

static bool read_not(struct machine *machine, struct value *out)
{
    bool negated = false;

    while (machine_word(machine, "not"))
        negated = !negated;
    if (!read_comparison(machine, out))
        return false;
    if (negated)
        *out = bool_value(!value_truth(out));
    return true;
}

/* Once the left operand decides the result, the right one is read without effect (`quiet`). */
static bool read_logic(struct machine *machine, struct value *out, bool either)
{
    if (!(either ? read_logic(machine, out, false) : read_not(machine, out)))
        return false;
    while (machine_word(machine, either ? "or" : "and")) {
        bool decided = value_truth(out) == either, good;
        struct value right;

        machine->quiet += decided;
        good = either ? read_logic(machine, &right, false) : read_not(machine, &right);
        INLAY_CHECK(machine->quiet >= (uint32_t)decided);
        machine->quiet -= decided;
        if (!good)
            return false;
        *out = decided ? *out : right;
    }
    return true;
}

bool value_read(struct machine *machine, struct value *out)
{
    const char *from = machine->at;
    struct value condition, other = { .kind = VALUE_UNDEFINED };
    bool good;

    *out = (struct value){ .kind = VALUE_UNDEFINED };
    if (machine->nested == CHAT_NESTED || machine->steps++ > CHAT_STEPS)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "the template is too deep or takes too long", "", 0);
    machine->nested++;
    /* In `a if b else c`, the condition follows the value: read the value without effect, and again if it is needed. */
    machine->quiet++;
    good = read_logic(machine, out, true);
    machine->quiet--;
    if (good && machine_word(machine, "if")) {
        const char *after;

        good = read_logic(machine, &condition, true);
        if (good && machine_word(machine, "else")) {
            machine->quiet += value_truth(&condition);
            good = value_read(machine, &other);
            machine->quiet -= value_truth(&condition);
        }
        after = machine->at;
        if (good && value_truth(&condition)) {
            machine->at = from;
            good = read_logic(machine, out, true);
        } else {
            *out = other;
        }
        machine->at = after;
    } else if (good && machine->quiet == 0) {
        machine->at = from;
        good = read_logic(machine, out, true);
    }
    machine->nested--;
    return good;
}

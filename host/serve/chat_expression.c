/* Expressions of a template. */
#include "serve/chat_internal.h"
#include <string.h>

/* ------------------------------------------------------------------ what stands alone */

static bool read_string(struct machine *m, char quote, struct value *out)
{
    const char *from = m->at, *to = from;
    bool escaped = false;
    char *text;
    size_t n = 0;

    for (; to < m->end && *to != quote; to++) {
        escaped |= *to == '\\';
        to += *to == '\\' && to + 1 < m->end;
    }
    if (to == m->end)
        return machine_fail(m, INLAY_UNSUPPORTED, "a string without an end", "", 0);
    m->at = to + 1;
    *out = text_value(from, (size_t)(to - from));
    if (!escaped)
        return true;
    text = machine_memory(m, (size_t)(to - from) + 1);
    if (text == NULL)
        return false;
    for (; from < to; from++) {
        if (*from != '\\') {
            text[n++] = *from;
            continue;
        }
        from++;
        text[n++] = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == 'r' ? '\r' : *from);
    }
    *out = text_value(text, n);
    return true;
}

static bool read_list(struct machine *m, struct value *out)
{
    enum { MOST = 32 };
    struct value *list = machine_memory(m, MOST * sizeof *list);

    if (list == NULL)
        return false;
    *out = (struct value){ .kind = VALUE_LIST, .list = list };
    while (!machine_sign(m, "]")) {
        if (out->count == MOST)
            return machine_fail(m, INLAY_UNSUPPORTED, "a list of more than 32", "", 0);
        if (!value_read(m, &list[out->count++]))
            return false;
        if (!machine_sign(m, ",") && (m->at == m->end || *m->at != ']')) /* the sign's spaces are skipped */
            return machine_fail(m, INLAY_UNSUPPORTED, "such a list", "", 0);
    }
    return true;
}

/* namespace(name=value, ...) */
static bool read_space(struct machine *m, struct value *out)
{
    const char *name;
    size_t bytes;
    int space = ++m->spaces;

    while (!machine_sign(m, ")")) {
        struct value v;

        if (!machine_name(m, &name, &bytes) || !machine_sign(m, "=") || !value_read(m, &v) ||
            !machine_set(m, name, bytes, space, v))
            return machine_fail(m, INLAY_UNSUPPORTED, "such a namespace", "", 0);
        (void)machine_sign(m, ",");
    }
    *out = (struct value){ .kind = VALUE_SPACE, .number = space };
    return true;
}

static bool read_call(struct machine *m, const char *name, size_t bytes, struct value *out)
{
    if (machine_is(name, bytes, "namespace"))
        return read_space(m, out);
    if (!machine_is(name, bytes, "raise_exception"))
        return machine_fail(m, INLAY_UNSUPPORTED, "the function", name, bytes);
    if (!value_read(m, out) || !machine_sign(m, ")"))
        return machine_fail(m, INLAY_UNSUPPORTED, "the arguments of", name, bytes);
    return m->quiet > 0 || machine_fail(m, INLAY_INVALID_ARGUMENT, NULL, out->text, out->count);
}

static bool read_name(struct machine *m, const char *name, size_t bytes, struct value *out)
{
    static const char *const words[] = { "true", "True", "false", "False", "none", "None" };

    for (int i = 0; i < 6; i++) {
        if (!machine_is(name, bytes, words[i]))
            continue;
        *out = i < 4 ? bool_value(i < 2) : (struct value){ .kind = VALUE_NONE };
        return true;
    }
    if (machine_sign(m, "("))
        return read_call(m, name, bytes, out);
    *out = value_find(m, name, bytes, 0);
    return true;
}

static bool read_primary(struct machine *m, struct value *out)
{
    const char *name;
    size_t bytes;

    if (machine_sign(m, "'"))
        return read_string(m, '\'', out);
    if (machine_sign(m, "\""))
        return read_string(m, '"', out);
    if (machine_sign(m, "["))
        return read_list(m, out);
    if (machine_sign(m, "("))
        return value_read(m, out) && (machine_sign(m, ")") || machine_fail(m, INLAY_UNSUPPORTED, "a tuple", "", 0));
    machine_spaces(m);
    if (m->at < m->end && *m->at >= '0' && *m->at <= '9') {
        *out = number_value(0);
        while (m->at < m->end && *m->at >= '0' && *m->at <= '9' && out->number < 1000000000)
            out->number = out->number * 10 + (*m->at++ - '0');
        return true;
    }
    if (machine_name(m, &name, &bytes))
        return read_name(m, name, bytes, out);
    return machine_fail(m, INLAY_UNSUPPORTED, "an expression that begins with", m->at, m->at < m->end);
}

static int64_t clamp(int64_t at, int64_t count)
{
    at += at < 0 ? count : 0;
    return at < 0 ? 0 : at > count ? count : at;
}

/* [i], [i:], [:i], [i:k] */
static bool read_index(struct machine *m, struct value *v)
{
    struct value from = number_value(0), to = number_value((int64_t)v->count);
    bool has_from = !machine_sign(m, ":");

    if (has_from && !value_read(m, &from))
        return false;
    if (has_from && machine_sign(m, "]"))
        return value_element(m, v, &from);
    if (has_from && !machine_sign(m, ":"))
        return machine_fail(m, INLAY_UNSUPPORTED, "such an index", "", 0);
    if (!machine_sign(m, "]")) {
        if (!value_read(m, &to))
            return false;
        if (!machine_sign(m, "]"))
            return machine_fail(m, INLAY_UNSUPPORTED, "a slice with a step", "", 0);
    }
    if (from.kind != VALUE_NUMBER || to.kind != VALUE_NUMBER || (v->kind != VALUE_LIST && v->kind != VALUE_TEXT)) {
        if (m->quiet == 0)
            return machine_fail(m, INLAY_UNSUPPORTED, "such a slice", "", 0);
        return true;
    }
    from.number = clamp(from.number, (int64_t)v->count);
    to.number = clamp(to.number, (int64_t)v->count);
    if (v->kind == VALUE_LIST)
        v->list += from.number;
    else
        v->text += from.number;
    v->count = to.number > from.number ? (size_t)(to.number - from.number) : 0;
    return true;
}

static bool read_postfix(struct machine *m, struct value *out)
{
    const char *name;
    size_t bytes;

    if (!read_primary(m, out))
        return false;
    for (;;) {
        if (machine_sign(m, ".")) {
            if (!machine_name(m, &name, &bytes))
                return machine_fail(m, INLAY_UNSUPPORTED, "an attribute without a name", "", 0);
            if (!(machine_sign(m, "(") ? value_method(m, out, name, bytes) : value_attribute(m, out, name, bytes)))
                return false;
        } else if (machine_sign(m, "[")) {
            if (!read_index(m, out))
                return false;
        } else if (machine_sign(m, "|")) {
            if (!value_filter(m, out))
                return false;
        } else {
            return true;
        }
    }
}

/* ------------------------------------------------------------------ operators */

static bool read_unary(struct machine *m, struct value *out)
{
    if (!machine_sign(m, "-"))
        return read_postfix(m, out);
    if (!read_postfix(m, out))
        return false;
    if (out->kind != VALUE_NUMBER && m->quiet == 0)
        return machine_fail(m, INLAY_UNSUPPORTED, "- of what is no number", "", 0);
    out->number = -out->number;
    return true;
}

static bool compute(struct machine *m, char sign, struct value *a, const struct value *b)
{
    if (sign == '~' || (sign == '+' && a->kind == VALUE_TEXT && b->kind == VALUE_TEXT))
        return value_concatenate(m, a, b, a);
    if (a->kind != VALUE_NUMBER || b->kind != VALUE_NUMBER || (sign == '%' && b->number == 0) ||
        a->number > 1000000000 || a->number < -1000000000 || b->number > 1000000000 || b->number < -1000000000)
        return m->quiet > 0 || machine_fail(m, INLAY_UNSUPPORTED, "such operands of", &sign, 1);
    if (sign == '%') {
        a->number %= b->number;
        a->number += a->number != 0 && (a->number < 0) != (b->number < 0) ? b->number : 0;
        return true;
    }
    a->number = sign == '+' ? a->number + b->number : sign == '-' ? a->number - b->number : a->number * b->number;
    return true;
}

/* One level of operators, each a sign: * and % before +, - and ~. */
static bool read_terms(struct machine *m, struct value *out, bool products)
{
    static const char *const signs[2][3] = { { "+", "-", "~" }, { "*", "%", NULL } };

    if (!(products ? read_unary(m, out) : read_terms(m, out, true)))
        return false;
    for (;;) {
        const char *sign = NULL;
        struct value right;

        if (machine_at_end(m)) /* not the - or % of an operator */
            return true;
        for (int i = 0; i < 3 && sign == NULL && signs[products][i] != NULL; i++)
            sign = machine_sign(m, signs[products][i]) ? signs[products][i] : NULL;
        if (sign == NULL)
            return true;
        if (!(products ? read_unary(m, &right) : read_terms(m, &right, true)) || !compute(m, sign[0], out, &right))
            return false;
    }
}

static bool read_test(struct machine *m, struct value *out)
{
    bool negated = machine_word(m, "not"), yes;
    const char *name = "";
    size_t bytes = 0;

    (void)machine_name(m, &name, &bytes);
    if (machine_is(name, bytes, "defined"))
        yes = out->kind != VALUE_UNDEFINED;
    else if (machine_is(name, bytes, "none") || machine_is(name, bytes, "None"))
        yes = out->kind == VALUE_NONE;
    else if (machine_is(name, bytes, "string"))
        yes = out->kind == VALUE_TEXT;
    else if (machine_is(name, bytes, "true") || machine_is(name, bytes, "false"))
        yes = out->kind == VALUE_BOOL && out->number == (name[0] == 't');
    else
        return machine_fail(m, INLAY_UNSUPPORTED, "the test", name, bytes);
    *out = bool_value(yes != negated);
    return true;
}

static bool read_comparison(struct machine *m, struct value *out)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    bool negated;
    struct value right;
    int sign = 0;

    if (!read_terms(m, out, false))
        return false;
    if (machine_word(m, "is"))
        return read_test(m, out);
    negated = machine_word(m, "not");
    if (machine_word(m, "in")) {
        if (!read_terms(m, &right, false))
            return false;
        *out = bool_value(value_contains(&right, out) != negated);
        return true;
    }
    if (negated)
        return machine_fail(m, INLAY_UNSUPPORTED, "not without in", "", 0);
    while (sign < 6 && !machine_sign(m, signs[sign]))
        sign++;
    if (sign == 6)
        return true;
    if (!read_terms(m, &right, false))
        return false;
    if (sign >= 2 && (out->kind != VALUE_NUMBER || right.kind != VALUE_NUMBER) && m->quiet == 0)
        return machine_fail(m, INLAY_UNSUPPORTED, "an order of what are no numbers", "", 0);
    *out = bool_value(sign == 0   ? value_same(out, &right)
                      : sign == 1 ? !value_same(out, &right)
                      : sign == 2 ? out->number <= right.number
                      : sign == 3 ? out->number >= right.number
                      : sign == 4 ? out->number < right.number
                                  : out->number > right.number);
    return true;
}

static bool read_not(struct machine *m, struct value *out)
{
    bool negated = false;

    while (machine_word(m, "not"))
        negated = !negated;
    if (!read_comparison(m, out))
        return false;
    if (negated)
        *out = bool_value(!value_truth(out));
    return true;
}

/* What decides already makes the rest quiet. */
static bool read_logic(struct machine *m, struct value *out, bool either)
{
    if (!(either ? read_logic(m, out, false) : read_not(m, out)))
        return false;
    while (machine_word(m, either ? "or" : "and")) {
        bool decided = value_truth(out) == either, good;
        struct value right;

        m->quiet += decided;
        good = either ? read_logic(m, &right, false) : read_not(m, &right);
        m->quiet -= decided;
        if (!good)
            return false;
        *out = decided ? *out : right;
    }
    return true;
}

bool value_read(struct machine *m, struct value *out)
{
    const char *from = m->at;
    struct value condition, other = { .kind = VALUE_UNDEFINED };
    bool good;

    *out = (struct value){ .kind = VALUE_UNDEFINED };
    if (m->nested == CHAT_NESTED || m->steps++ > CHAT_STEPS)
        return machine_fail(m, INLAY_LIMIT_EXCEEDED, "the template is too deep or takes too long", "", 0);
    m->nested++;
    /* Whether the first part of `a if b else c` counts is told behind it: it is read quietly, and once more if so. */
    m->quiet++;
    good = read_logic(m, out, true);
    m->quiet--;
    if (good && machine_word(m, "if")) {
        const char *behind;

        good = read_logic(m, &condition, true);
        if (good && machine_word(m, "else")) {
            m->quiet += value_truth(&condition);
            good = value_read(m, &other);
            m->quiet -= value_truth(&condition);
        }
        behind = m->at;
        if (good && value_truth(&condition)) {
            m->at = from;
            good = read_logic(m, out, true);
        } else {
            *out = other;
        }
        m->at = behind;
    } else if (good && m->quiet == 0) {
        m->at = from;
        good = read_logic(m, out, true);
    }
    m->nested--;
    return good;
}

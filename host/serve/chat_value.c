/* Values of a template: what is asked of them. */
#include "serve/chat_internal.h"
#include <stdlib.h>
#include <string.h>

bool value_truth(const struct value *v)
{
    switch (v->kind) {
    case VALUE_BOOL:
    case VALUE_NUMBER:
        return v->number != 0;
    case VALUE_TEXT:
    case VALUE_LIST:
        return v->count > 0;
    default:
        return v->kind > VALUE_LIST;
    }
}

/* As it is printed; numbers are written into `room`. */
static struct value as_text(const struct value *v, char room[24])
{
    switch (v->kind) {
    case VALUE_TEXT:
        return *v;
    case VALUE_NUMBER:
        return text_value(room, (size_t)snprintf(room, 24, "%lld", (long long)v->number));
    case VALUE_BOOL:
        return v->number != 0 ? text_value("True", 4) : text_value("False", 5);
    case VALUE_NONE:
        return text_value("None", 4);
    default:
        return text_value("", 0);
    }
}

bool value_print(struct machine *m, const struct value *v)
{
    char room[24];
    struct value text = as_text(v, room);

    if (v->kind >= VALUE_LIST)
        return machine_fail(m, INLAY_UNSUPPORTED, "printing a list or a message", "", 0);
    strbuf_add(&m->out, text.text, text.count);
    if (m->out.size > CHAT_BYTES || m->out.failed)
        return machine_fail(m, INLAY_LIMIT_EXCEEDED, "the text is too long", "", 0);
    return true;
}

bool value_same(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind)
        return (a->kind == VALUE_BOOL || a->kind == VALUE_NUMBER) &&
               (b->kind == VALUE_BOOL || b->kind == VALUE_NUMBER) && a->number == b->number;
    if (a->kind == VALUE_TEXT)
        return a->count == b->count && (a->count == 0 || memcmp(a->text, b->text, a->count) == 0);
    if (a->kind == VALUE_MESSAGE)
        return a->message == b->message;
    return a->number == b->number && a->list == b->list;
}

bool value_concatenate(struct machine *m, const struct value *a, const struct value *b, struct value *out)
{
    char room_a[24], room_b[24], *text;
    struct value x = as_text(a, room_a), y = as_text(b, room_b);

    text = machine_memory(m, x.count + y.count + 1);
    if (text == NULL)
        return false;
    if (x.count > 0)
        memcpy(text, x.text, x.count);
    if (y.count > 0)
        memcpy(text + x.count, y.text, y.count);
    *out = text_value(text, x.count + y.count);
    return true;
}

/* ------------------------------------------------------------------ names, attributes, indexes */

struct value value_find(const struct machine *m, const char *name, size_t bytes, int space)
{
    for (uint32_t i = m->variable_count; i-- > 0;)
        if (m->variables[i].space == space && m->variables[i].bytes == bytes &&
            memcmp(m->variables[i].name, name, bytes) == 0)
            return m->variables[i].value;
    return (struct value){ .kind = VALUE_UNDEFINED };
}

static struct value loop_attribute(const struct loop *l, const char *name, size_t bytes)
{
    if (machine_is(name, bytes, "index0"))
        return number_value((int64_t)l->index);
    if (machine_is(name, bytes, "index"))
        return number_value((int64_t)l->index + 1);
    if (machine_is(name, bytes, "first"))
        return bool_value(l->index == 0);
    if (machine_is(name, bytes, "last"))
        return bool_value(l->index + 1 == l->count);
    if (machine_is(name, bytes, "length"))
        return number_value((int64_t)l->count);
    return (struct value){ .kind = VALUE_UNDEFINED };
}

bool value_attribute(struct machine *m, struct value *v, const char *name, size_t bytes)
{
    if (v->kind == VALUE_MESSAGE) {
        const char *text = machine_is(name, bytes, "role")      ? v->message->role
                           : machine_is(name, bytes, "content") ? v->message->content
                                                                : NULL;

        *v = text != NULL ? text_value(text, strlen(text)) : (struct value){ .kind = VALUE_UNDEFINED };
        return true;
    }
    if (v->kind == VALUE_LOOP) {
        *v = loop_attribute(&m->loops[v->number], name, bytes);
        return v->kind != VALUE_UNDEFINED || machine_fail(m, INLAY_UNSUPPORTED, "loop's", name, bytes);
    }
    if (v->kind == VALUE_SPACE) {
        *v = value_find(m, name, bytes, (int)v->number);
        return true;
    }
    if (m->quiet == 0)
        return machine_fail(m, INLAY_UNSUPPORTED, "the attribute", name, bytes);
    *v = (struct value){ .kind = VALUE_UNDEFINED };
    return true;
}

bool value_element(struct machine *m, struct value *v, const struct value *index)
{
    int64_t at = index->number;

    if (index->kind == VALUE_TEXT)
        return value_attribute(m, v, index->text, index->count);
    at += at < 0 ? (int64_t)v->count : 0;
    if ((v->kind != VALUE_LIST && v->kind != VALUE_TEXT) || index->kind != VALUE_NUMBER) {
        if (m->quiet == 0)
            return machine_fail(m, INLAY_UNSUPPORTED, "such an index", "", 0);
        *v = (struct value){ .kind = VALUE_UNDEFINED };
    } else if (at < 0 || at >= (int64_t)v->count) {
        *v = (struct value){ .kind = VALUE_UNDEFINED };
    } else {
        *v = v->kind == VALUE_LIST ? v->list[at] : text_value(v->text + at, 1);
    }
    return true;
}

bool value_contains(const struct value *where, const struct value *what)
{
    if (where->kind == VALUE_TEXT && what->kind == VALUE_TEXT)
        return what->count == 0 || memmem(where->text, where->count, what->text, what->count) != NULL;
    for (size_t i = 0; where->kind == VALUE_LIST && i < where->count; i++)
        if (value_same(&where->list[i], what))
            return true;
    return where->kind == VALUE_MESSAGE && what->kind == VALUE_TEXT &&
           (machine_is(what->text, what->count, "role") || machine_is(what->text, what->count, "content"));
}

/* ------------------------------------------------------------------ filters and methods */

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct value strip(struct value v, bool left, bool right)
{
    while (left && v.count > 0 && is_white(v.text[0])) {
        v.text++;
        v.count--;
    }
    while (right && v.count > 0 && is_white(v.text[v.count - 1]))
        v.count--;
    return v;
}

static bool in_case(struct machine *m, struct value *v, bool upper)
{
    char *text = machine_memory(m, v->count + 1);

    if (text == NULL)
        return false;
    for (size_t i = 0; i < v->count; i++) {
        char c = v->text[i];
        bool other = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';

        text[i] = (char)(other ? c ^ 32 : c);
    }
    v->text = text;
    return true;
}

/* What filters and methods without arguments have in common; false in *out_known: it is none of them. */
static bool change_text(struct machine *m, struct value *v, const char *name, size_t bytes, bool *out_known)
{
    *out_known = v->kind == VALUE_TEXT;
    if (v->kind != VALUE_TEXT)
        return true;
    if (machine_is(name, bytes, "trim") || machine_is(name, bytes, "strip"))
        *v = strip(*v, true, true);
    else if (machine_is(name, bytes, "lstrip"))
        *v = strip(*v, true, false);
    else if (machine_is(name, bytes, "rstrip"))
        *v = strip(*v, false, true);
    else if (machine_is(name, bytes, "upper") || machine_is(name, bytes, "lower"))
        return in_case(m, v, name[0] == 'u');
    else
        *out_known = false;
    return true;
}

bool value_filter(struct machine *m, struct value *v)
{
    const char *name;
    size_t bytes;
    bool known;
    char room[24];

    if (!machine_name(m, &name, &bytes))
        return machine_fail(m, INLAY_UNSUPPORTED, "a filter without a name", "", 0);
    if (!change_text(m, v, name, bytes, &known) || known)
        return !m->failed;
    if ((machine_is(name, bytes, "length") || machine_is(name, bytes, "count")) &&
        (v->kind == VALUE_LIST || v->kind == VALUE_TEXT)) {
        *v = number_value((int64_t)v->count);
        return true;
    }
    if ((machine_is(name, bytes, "first") || machine_is(name, bytes, "last")) && v->kind == VALUE_LIST) {
        struct value index = number_value(name[0] == 'f' ? 0 : -1);

        return value_element(m, v, &index);
    }
    if (machine_is(name, bytes, "string") && v->kind < VALUE_LIST) {
        struct value text = as_text(v, room), none = text_value("", 0);

        return value_concatenate(m, &text, &none, v);
    }
    return m->quiet > 0 || machine_fail(m, INLAY_UNSUPPORTED, "the filter", name, bytes);
}

bool value_method(struct machine *m, struct value *v, const char *name, size_t bytes)
{
    struct value part = { .kind = VALUE_UNDEFINED };
    bool known, has_part = !machine_sign(m, ")");

    if (has_part && (!value_read(m, &part) || !machine_sign(m, ")")))
        return machine_fail(m, INLAY_UNSUPPORTED, "the arguments of", name, bytes);
    if (!has_part) {
        if (!change_text(m, v, name, bytes, &known))
            return false;
        if (known)
            return true;
    } else if (v->kind == VALUE_TEXT && part.kind == VALUE_TEXT &&
               (machine_is(name, bytes, "startswith") || machine_is(name, bytes, "endswith"))) {
        *v = bool_value(part.count <= v->count &&
                        memcmp(name[0] == 's' ? v->text : v->text + v->count - part.count, part.text, part.count) == 0);
        return true;
    }
    return m->quiet > 0 || machine_fail(m, INLAY_UNSUPPORTED, "the method", name, bytes);
}

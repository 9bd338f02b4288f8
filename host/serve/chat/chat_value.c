/* Values of a template and the operations on them. */
#include "serve/chat/chat_internal.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

bool value_truth(const struct value *value)
{
    switch (value->kind) {
    case VALUE_BOOL:
    case VALUE_NUMBER:
        return value->number != 0;
    case VALUE_TEXT:
    case VALUE_LIST:
        return value->count > 0;
    default:
        return value->kind > VALUE_LIST;
    }
}

/* The text that printing a value gives; numbers are written into `room`. */
static struct value as_text(const struct value *value, char room[24])
{
    switch (value->kind) {
    case VALUE_TEXT:
        return *value;
    case VALUE_NUMBER:
        return text_value(room, (size_t)snprintf(room, 24, "%lld", (long long)value->number));
    case VALUE_BOOL:
        return value->number != 0 ? text_value("True", 4) : text_value("False", 5);
    case VALUE_NONE:
        return text_value("None", 4);
    default:
        return text_value("", 0);
    }
}

bool value_print(struct machine *machine, const struct value *value)
{
    char room[24];
    struct value text = as_text(value, room);

    if (value->kind >= VALUE_LIST)
        return machine_fail(machine, INLAY_UNSUPPORTED, "printing a list or a message", "", 0);
    strbuf_add(&machine->out, text.text, text.count);
    if (machine->out.size > CHAT_BYTES || machine->out.failed)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "the text is too long", "", 0);
    return true;
}

bool value_same(const struct value *left, const struct value *right)
{
    if (left->kind != right->kind)
        return (left->kind == VALUE_BOOL || left->kind == VALUE_NUMBER) &&
               (right->kind == VALUE_BOOL || right->kind == VALUE_NUMBER) && left->number == right->number;
    if (left->kind == VALUE_TEXT)
        return left->count == right->count && (left->count == 0 || memcmp(left->text, right->text, left->count) == 0);
    if (left->kind == VALUE_MESSAGE)
        return left->message == right->message;
    return left->number == right->number && left->list == right->list;
}

bool value_concatenate(struct machine *machine, const struct value *left, const struct value *right, struct value *out)
{
    char left_room[24], right_room[24], *text;
    struct value left_text = as_text(left, left_room), right_text = as_text(right, right_room);

    text = machine_memory(machine, left_text.count + right_text.count + 1);
    if (text == NULL)
        return false;
    if (left_text.count > 0)
        memcpy(text, left_text.text, left_text.count);
    if (right_text.count > 0)
        memcpy(text + left_text.count, right_text.text, right_text.count);
    *out = text_value(text, left_text.count + right_text.count);
    return true;
}

/* ------------------------------------------------------------------ names, attributes, indexes */

struct value value_find(const struct machine *machine, const char *name, size_t bytes, int namespace_id)
{
    for (uint32_t i = machine->variable_count; i-- > 0;)
        if (machine->variables[i].namespace_id == namespace_id && machine->variables[i].bytes == bytes &&
            memcmp(machine->variables[i].name, name, bytes) == 0)
            return machine->variables[i].value;
    return (struct value){ .kind = VALUE_UNDEFINED };
}

static struct value loop_attribute(const struct loop *loop, const char *name, size_t bytes)
{
    if (machine_is(name, bytes, "index0"))
        return number_value((int64_t)loop->index);
    if (machine_is(name, bytes, "index"))
        return number_value((int64_t)loop->index + 1);
    if (machine_is(name, bytes, "first"))
        return bool_value(loop->index == 0);
    if (machine_is(name, bytes, "last"))
        return bool_value(loop->index + 1 == loop->count);
    if (machine_is(name, bytes, "length"))
        return number_value((int64_t)loop->count);
    return (struct value){ .kind = VALUE_UNDEFINED };
}

bool value_attribute(struct machine *machine, struct value *value, const char *name, size_t bytes)
{
    if (value->kind == VALUE_MESSAGE) {
        const char *text = machine_is(name, bytes, "role")      ? value->message->role
                           : machine_is(name, bytes, "content") ? value->message->content
                                                                : NULL;

        *value = text != NULL ? text_value(text, strlen(text)) : (struct value){ .kind = VALUE_UNDEFINED };
        return true;
    }
    if (value->kind == VALUE_LOOP) {
        INLAY_CHECK(value->number >= 0 && value->number < CHAT_LOOPS);
        *value = loop_attribute(&machine->loops[value->number], name, bytes);
        return value->kind != VALUE_UNDEFINED || machine_fail(machine, INLAY_UNSUPPORTED, "loop's", name, bytes);
    }
    if (value->kind == VALUE_NAMESPACE) {
        *value = value_find(machine, name, bytes, (int)value->number);
        return true;
    }
    if (machine->quiet == 0)
        return machine_fail(machine, INLAY_UNSUPPORTED, "the attribute", name, bytes);
    *value = (struct value){ .kind = VALUE_UNDEFINED };
    return true;
}

bool value_element(struct machine *machine, struct value *value, const struct value *index)
{
    int64_t at = index->number;

    if (index->kind == VALUE_TEXT)
        return value_attribute(machine, value, index->text, index->count);
    at += at < 0 ? (int64_t)value->count : 0;
    if ((value->kind != VALUE_LIST && value->kind != VALUE_TEXT) || index->kind != VALUE_NUMBER) {
        if (machine->quiet == 0)
            return machine_fail(machine, INLAY_UNSUPPORTED, "this form of index", "", 0);
        *value = (struct value){ .kind = VALUE_UNDEFINED };
    } else if (at < 0 || at >= (int64_t)value->count) {
        *value = (struct value){ .kind = VALUE_UNDEFINED };
    } else {
        *value = value->kind == VALUE_LIST ? value->list[at] : text_value(value->text + at, 1);
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

static struct value strip(struct value value, bool left, bool right)
{
    while (left && value.count > 0 && machine_is_white(value.text[0])) {
        value.text++;
        value.count--;
    }
    while (right && value.count > 0 && machine_is_white(value.text[value.count - 1]))
        value.count--;
    return value;
}

static bool in_case(struct machine *machine, struct value *value, bool upper)
{
    char *text = machine_memory(machine, value->count + 1);

    if (text == NULL)
        return false;
    for (size_t i = 0; i < value->count; i++) {
        char c = value->text[i];
        bool changes = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';

        text[i] = (char)(changes ? c ^ 32 : c);
    }
    value->text = text;
    return true;
}

/* Filters and methods without arguments. *out_known is false if `name` is none of them. */
static bool change_text(struct machine *machine, struct value *value, const char *name, size_t bytes, bool *out_known)
{
    *out_known = value->kind == VALUE_TEXT;
    if (value->kind != VALUE_TEXT)
        return true;
    if (machine_is(name, bytes, "trim") || machine_is(name, bytes, "strip"))
        *value = strip(*value, true, true);
    else if (machine_is(name, bytes, "lstrip"))
        *value = strip(*value, true, false);
    else if (machine_is(name, bytes, "rstrip"))
        *value = strip(*value, false, true);
    else if (machine_is(name, bytes, "upper") || machine_is(name, bytes, "lower"))
        return in_case(machine, value, name[0] == 'u');
    else
        *out_known = false;
    return true;
}

bool value_filter(struct machine *machine, struct value *value)
{
    const char *name;
    size_t bytes;
    bool known;
    char room[24];

    if (!machine_name(machine, &name, &bytes))
        return machine_fail(machine, INLAY_UNSUPPORTED, "a filter without a name", "", 0);
    if (!change_text(machine, value, name, bytes, &known) || known)
        return !machine->failed;
    if ((machine_is(name, bytes, "length") || machine_is(name, bytes, "count")) &&
        (value->kind == VALUE_LIST || value->kind == VALUE_TEXT)) {
        *value = number_value((int64_t)value->count);
        return true;
    }
    if ((machine_is(name, bytes, "first") || machine_is(name, bytes, "last")) && value->kind == VALUE_LIST) {
        struct value index = number_value(name[0] == 'f' ? 0 : -1);

        return value_element(machine, value, &index);
    }
    if (machine_is(name, bytes, "string") && value->kind < VALUE_LIST) {
        struct value text = as_text(value, room), none = text_value("", 0);

        return value_concatenate(machine, &text, &none, value);
    }
    return machine->quiet > 0 || machine_fail(machine, INLAY_UNSUPPORTED, "the filter", name, bytes);
}

bool value_method(struct machine *machine, struct value *value, const char *name, size_t bytes)
{
    struct value argument = { .kind = VALUE_UNDEFINED };
    bool known, has_argument = !machine_sign(machine, ")");

    if (has_argument && (!value_read(machine, &argument) || !machine_sign(machine, ")")))
        return machine_fail(machine, INLAY_UNSUPPORTED, "the arguments of", name, bytes);
    if (!has_argument) {
        if (!change_text(machine, value, name, bytes, &known))
            return false;
        if (known)
            return true;
    } else if (value->kind == VALUE_TEXT && argument.kind == VALUE_TEXT &&
               (machine_is(name, bytes, "startswith") || machine_is(name, bytes, "endswith"))) {
        *value = bool_value(argument.count <= value->count &&
                            memcmp(name[0] == 's' ? value->text : value->text + value->count - argument.count,
                                   argument.text, argument.count) == 0);
        return true;
    }
    return machine->quiet > 0 || machine_fail(machine, INLAY_UNSUPPORTED, "the method", name, bytes);
}

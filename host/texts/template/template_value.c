/* Values of templates: comparison, elements, JSON. */
#include "base/utf8.h"
#include "texts/template/template_internal.h"

double value_real(const struct value *number)
{
    return number->kind == VALUE_REAL ? number->real : (double)number->number;
}

bool value_truth(const struct value *value)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
    case VALUE_NUMBER:
        return value->number != 0;
    case VALUE_REAL:
        return value->real != 0;
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_MAP:
        return value->count > 0;
    default:
        return true;
    }
}

bool argument_truth(const struct arguments *arguments, uint32_t position, const char *name, bool otherwise)
{
    const struct value *given = argument_get(arguments, position, name);

    return given != NULL ? value_truth(given) : otherwise;
}

static bool same(struct machine *machine, const struct value *left, const struct value *right, uint32_t levels)
{
    if (value_is_number(left) && value_is_number(right))
        return left->kind != VALUE_REAL && right->kind != VALUE_REAL ? left->number == right->number
                                                                     : value_real(left) == value_real(right);
    if (left->kind != right->kind || levels == 0 || !machine_count(machine, left->kind == VALUE_LIST ? left->count : 0))
        return false;
    switch (left->kind) {
    case VALUE_TEXT:
        return left->count == right->count && (left->count == 0 || memcmp(left->text, right->text, left->count) == 0);
    case VALUE_LIST:
        for (size_t i = 0; i < left->count; i++)
            if (i >= right->count || !same(machine, &left->list[i], &right->list[i], levels - 1))
                return false;
        return left->count == right->count;
    case VALUE_MAP:
        for (size_t i = 0; i < left->count; i++) {
            struct value other = value_member(machine, right, &left->map[i].key);

            if (!same(machine, &left->map[i].value, &other, levels - 1))
                return false;
        }
        return left->count == right->count;
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    default:
        return left->loop == right->loop; /* the address */
    }
}

bool value_same(struct machine *machine, const struct value *left, const struct value *right)
{
    return same(machine, left, right, TEMPLATE_NESTED);
}

static bool order(struct machine *machine, const struct value *left, const struct value *right, int *out,
                  uint32_t levels)
{
    size_t least = left->count < right->count ? left->count : right->count;

    *out = 0;
    if (value_is_number(left) && value_is_number(right)) {
        double a = value_real(left), b = value_real(right);

        *out = value_is_whole(left) && value_is_whole(right)
                   ? (left->number > right->number) - (left->number < right->number)
                   : (a > b) - (a < b);
        return true;
    }
    if (left->kind != right->kind || (left->kind != VALUE_TEXT && left->kind != VALUE_LIST) || levels == 0 ||
        !machine_count(machine, left->kind == VALUE_LIST ? least : 0))
        return false;
    if (left->kind == VALUE_TEXT) {
        *out = least > 0 ? memcmp(left->text, right->text, least) : 0;
    } else {
        for (size_t i = 0; i < least && *out == 0; i++)
            if (!order(machine, &left->list[i], &right->list[i], out, levels - 1))
                return false;
    }
    *out = *out != 0 ? (*out > 0 ? 1 : -1) : (left->count > right->count) - (left->count < right->count);
    return true;
}

bool value_order(struct machine *machine, const struct value *left, const struct value *right, int *out)
{
    return order(machine, left, right, out, TEMPLATE_NESTED);
}

bool value_compare(struct machine *machine, sign_kind sign, const struct value *left, const struct value *right,
                   bool *out)
{
    int which;

    switch (sign) {
    case SIGN_EQUAL:
    case SIGN_UNEQUAL:
        *out = value_same(machine, left, right) == (sign == SIGN_EQUAL);
        return true;
    case SIGN_IN:
    case SIGN_NOT_IN:
        if (!value_contains(machine, right, left, out))
            return false;
        *out = *out == (sign == SIGN_IN);
        return true;
    default:
        if (!value_order(machine, left, right, &which))
            return machine_fail(machine, INLAY_UNSUPPORTED, "comparing values that have no order", "", 0);
        *out = sign == SIGN_LESS         ? which < 0
               : sign == SIGN_LESS_EQUAL ? which <= 0
               : sign == SIGN_GREATER    ? which > 0
                                         : which >= 0;
        return true;
    }
}

bool value_contains(struct machine *machine, const struct value *where, const struct value *what, bool *out)
{
    *out = false;
    switch (where->kind) {
    case VALUE_TEXT:
        if (what->kind != VALUE_TEXT)
            return machine_fail(machine, INLAY_UNSUPPORTED, "'in' of a text, for a value that is not a text", "", 0);
        *out = what->count == 0 ||
               (where->count > 0 && memmem(where->text, where->count, what->text, what->count) != NULL);
        return true;
    case VALUE_LIST:
        for (size_t i = 0; i < where->count && !*out; i++)
            *out = value_same(machine, &where->list[i], what);
        return true;
    case VALUE_MAP:
        for (size_t i = 0; i < where->count && !*out; i++)
            *out = value_same(machine, &where->map[i].key, what);
        return true;
    case VALUE_UNDEFINED:
        return true;
    default:
        return machine_fail(machine, INLAY_UNSUPPORTED, "'in' of a value without elements", "", 0);
    }
}

/* Bytes of the character at the text, at least 1. */
static size_t character(const char *text, size_t bytes)
{
    uint32_t point;
    size_t count = utf8_get(text, bytes, &point);

    return count > 0 ? count : 1;
}

size_t value_character(const struct value *text, size_t index)
{
    size_t at = 0;

    for (; index > 0 && at < text->count; index--)
        at += character(text->text + at, text->count - at);
    return at;
}

bool value_length(const struct value *value, size_t *out)
{
    *out = value->kind == VALUE_LIST || value->kind == VALUE_MAP ? value->count : 0;
    if (value->kind == VALUE_NAMESPACE)
        *out = value->space->count;
    for (size_t at = 0; value->kind == VALUE_TEXT && at < value->count; ++*out)
        at += character(value->text + at, value->count - at);
    return value->kind == VALUE_LIST || value->kind == VALUE_MAP || value->kind == VALUE_TEXT ||
           value->kind == VALUE_NAMESPACE || value->kind == VALUE_UNDEFINED;
}

struct value value_member(struct machine *machine, const struct value *map, const struct value *key)
{
    bool space = map->kind == VALUE_NAMESPACE;
    const value_pair *pairs = space ? map->space->pairs : map->map;
    size_t count = space ? map->space->count : map->count;

    if ((space || map->kind == VALUE_MAP) && machine_count(machine, count))
        for (size_t i = 0; i < count; i++)
            if (value_same(machine, &pairs[i].key, key))
                return pairs[i].value;
    return (struct value){ .kind = VALUE_UNDEFINED };
}

bool space_set(struct machine *machine, struct value_space *space, struct value name, struct value value)
{
    for (size_t i = 0; i < space->count; i++)
        if (value_same(machine, &space->pairs[i].key, &name)) {
            space->pairs[i].value = value;
            return true;
        }
    if (space->count == space->room) {
        size_t room = space->room > 0 ? 2 * space->room : 4;
        value_pair *more = machine_memory(machine, room * sizeof *more);

        if (more == NULL)
            return false;
        if (space->count > 0)
            memcpy(more, space->pairs, space->count * sizeof *more);
        space->pairs = more;
        space->room = room;
    }
    space->pairs[space->count++] = (value_pair){ name, value };
    return true;
}

bool value_elements(struct machine *machine, struct value *value)
{
    size_t count, at = 0;
    struct value *list;

    if (value->kind == VALUE_LIST)
        return true;
    if ((value->kind != VALUE_TEXT && value->kind != VALUE_MAP && value->kind != VALUE_UNDEFINED) ||
        !value_length(value, &count))
        return machine_fail(machine, INLAY_UNSUPPORTED, "the elements of a value that has none", "", 0);
    list = machine_memory(machine, count * sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        size_t bytes = value->kind == VALUE_TEXT ? character(value->text + at, value->count - at) : 0;

        list[i] = value->kind == VALUE_TEXT ? text_value(value->text + at, bytes) : value->map[i].key;
        at += bytes;
    }
    *value = list_value(list, count);
    return list != NULL;
}

static bool from_array(struct machine *machine, json_t *json, struct value *out)
{
    size_t count = json_array_size(json);
    struct value *list = machine_memory(machine, count * sizeof *list);

    *out = list_value(list, count);
    for (size_t i = 0; list != NULL && i < count; i++)
        if (!value_from_json(machine, json_array_get(json, i), &list[i]))
            return false;
    return list != NULL;
}

static bool from_object(struct machine *machine, json_t *json, struct value *out)
{
    size_t count = json_object_size(json), used = 0;
    value_pair *pairs = machine_memory(machine, count * sizeof *pairs);
    const char *name;
    json_t *member;

    *out = (struct value){ .kind = VALUE_MAP, .count = count, .map = pairs };
    if (pairs == NULL)
        return false;
    json_object_foreach(json, name, member) {
        value_pair *pair = &pairs[used++];

        pair->key = text_value(name, strlen(name));
        if (!value_from_json(machine, member, &pair->value))
            return false;
        pair->value.is_json = pair->value.kind == VALUE_MAP && strcmp(name, "arguments") == 0;
    }
    return true;
}

bool value_from_json(struct machine *machine, json_t *json, struct value *out)
{
    bool good = true;

    *out = (struct value){ .kind = VALUE_NONE };
    if (!machine_enter(machine))
        return false;
    switch (json != NULL ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT:
        good = from_object(machine, json, out);
        break;
    case JSON_ARRAY:
        good = from_array(machine, json, out);
        break;
    case JSON_STRING:
        *out = text_value(json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        *out = number_value(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = real_value(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = bool_value(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    machine_leave(machine);
    return good;
}

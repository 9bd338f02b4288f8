/* Values of templates as texts: as Python prints them, and as JSON. */
#include "base/utf8.h"
#include "texts/template/template_internal.h"
#include <math.h>
#include <stdlib.h>

/* The shortest digits that give the number, in Python's form. */
static void write_real(struct strbuf *to, double real)
{
    char digits[40], text[48], *exponent;
    int precision = 1, power;

    if (isnan(real) || isinf(real)) {
        strbuf_text(to, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    do
        (void)snprintf(digits, sizeof digits, "%.*e", precision - 1, real);
    while (strtod(digits, NULL) != real && ++precision <= 17);
    exponent = strchr(digits, 'e');
    power = exponent != NULL ? atoi(exponent + 1) : 0;
    if (power < -4 || power >= 16) {
        *exponent = '\0';
        strbuf_format(to, "%se%s%02d", digits, power < 0 ? "-" : "+", abs(power));
        return;
    }
    (void)snprintf(text, sizeof text, "%.*f", precision - 1 - power > 1 ? precision - 1 - power : 1, real);
    strbuf_text(to, text);
}

static void write_number(struct strbuf *to, const struct value *value)
{
    if (value->kind == VALUE_REAL)
        write_real(to, value->real);
    else
        strbuf_int(to, value->number);
}

/* A text in quotes as Python writes it. */
static void write_quoted(struct strbuf *to, const struct value *text)
{
    bool single = text->count > 0 && memchr(text->text, '\'', text->count) != NULL;
    bool both = single && memchr(text->text, '"', text->count) != NULL;
    const char quote = single && !both ? '"' : '\'';

    strbuf_add(to, &quote, 1);
    for (size_t i = 0; i < text->count; i++) {
        unsigned char c = (unsigned char)text->text[i];

        if (c == (unsigned char)quote || c == '\\')
            strbuf_format(to, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            strbuf_text(to, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < 32 || c == 127)
            strbuf_format(to, "\\x%02x", c);
        else
            strbuf_add(to, &text->text[i], 1);
    }
    strbuf_add(to, &quote, 1);
}

static bool print(struct machine *machine, struct strbuf *to, const struct value *value, bool quoted);

static bool print_list(struct machine *machine, struct strbuf *to, const struct value *value)
{
    bool map = value->kind == VALUE_MAP;

    strbuf_text(to, map ? "{" : "[");
    for (size_t i = 0; i < value->count; i++) {
        strbuf_text(to, i > 0 ? ", " : "");
        if (map) {
            if (!print(machine, to, &value->map[i].key, true))
                return false;
            strbuf_text(to, ": ");
        }
        if (!print(machine, to, map ? &value->map[i].value : &value->list[i], true))
            return false;
    }
    strbuf_text(to, map ? "}" : "]");
    return true;
}

static bool print(struct machine *machine, struct strbuf *to, const struct value *value, bool quoted)
{
    static const json_style plain = { -1, ", ", ": ", false, false };
    bool good = machine_enter(machine);

    if (!good)
        return false;
    switch (value->kind) {
    case VALUE_UNDEFINED:
        strbuf_text(to, quoted ? "Undefined" : "");
        break;
    case VALUE_NONE:
        strbuf_text(to, "None");
        break;
    case VALUE_BOOL:
        strbuf_text(to, value->number != 0 ? "True" : "False");
        break;
    case VALUE_NUMBER:
    case VALUE_REAL:
        write_number(to, value);
        break;
    case VALUE_TEXT:
        if (quoted)
            write_quoted(to, value);
        else
            strbuf_add(to, value->text, value->count);
        break;
    case VALUE_LIST:
    case VALUE_MAP:
        good =
            value->is_json && !quoted ? value_write_json(machine, to, value, &plain) : print_list(machine, to, value);
        break;
    default:
        good = machine_fail(machine, INLAY_UNSUPPORTED, "printing a macro, a loop or a namespace", "", 0);
    }
    if (good && to->size > TEMPLATE_TEXT)
        good = machine_fail(machine, INLAY_LIMIT_EXCEEDED, "the text has more than 16 MiB", "", 0);
    machine_leave(machine);
    return good;
}

bool machine_print(struct machine *machine, struct strbuf *to, const struct value *value)
{
    return print(machine, to, value, false);
}

bool value_text(struct machine *machine, const struct value *value, struct value *out)
{
    struct strbuf text = { 0 };
    bool good = machine_print(machine, &text, value);

    return machine_take(machine, &text, out) && good;
}

/* all: escapes characters beyond ASCII, too. */
static void write_string(struct strbuf *to, const struct value *text, bool all)
{
    static const char names[] = "btn\vfr";

    strbuf_text(to, "\"");
    for (size_t i = 0; i < text->count;) {
        unsigned char c = (unsigned char)text->text[i];
        uint32_t point = c;
        size_t bytes = c >= 128 ? utf8_get(text->text + i, text->count - i, &point) : 1;

        bytes += bytes == 0;
        if (c == '"' || c == '\\')
            strbuf_format(to, "\\%c", c);
        else if (c >= 8 && c <= 13 && c != 11)
            strbuf_format(to, "\\%c", names[c - 8]);
        else if (c < 32 || (all && c >= 128 && point <= 0xffff))
            strbuf_format(to, "\\u%04x", point);
        else if (all && c >= 128)
            strbuf_format(to, "\\u%04x\\u%04x", 0xd7c0 + (point >> 10), 0xdc00 + (point & 0x3ff));
        else
            strbuf_add(to, text->text + i, bytes);
        i += bytes;
    }
    strbuf_text(to, "\"");
}

typedef struct json_writer {
    struct machine *machine;
    struct strbuf *to;
    const json_style *style;
    int64_t level;
} json_writer;

static void begin_line(const json_writer *writer)
{
    if (writer->style->indent < 0)
        return;
    strbuf_text(writer->to, "\n");
    for (int64_t i = 0; i < writer->level * writer->style->indent && writer->to->size <= TEMPLATE_TEXT; i++)
        strbuf_text(writer->to, " ");
}

static bool write_json(json_writer *writer, const struct value *value);

/* JSON's names are texts. */
static bool write_key(json_writer *writer, const struct value *key)
{
    struct value text = *key;

    if (key->kind == VALUE_NONE || key->kind == VALUE_BOOL)
        text = key->kind == VALUE_NONE ? text_value("null", 4)
               : key->number != 0      ? text_value("true", 4)
                                       : text_value("false", 5);
    else if (key->kind != VALUE_TEXT && !value_text(writer->machine, key, &text))
        return false;
    return write_json(writer, &text);
}

/* The pair that follows the pair `last` in the order of the keys; the first one if last is NULL. */
static const value_pair *next_sorted(struct machine *machine, const struct value *map, const value_pair *last)
{
    const value_pair *found = NULL;
    int which;

    for (size_t i = 0; i < map->count; i++) {
        const value_pair *pair = &map->map[i];

        if (last != NULL && (!value_order(machine, &pair->key, &last->key, &which) || which <= 0))
            continue;
        if (found == NULL || (value_order(machine, &pair->key, &found->key, &which) && which < 0))
            found = pair;
    }
    return found;
}

static bool write_list(json_writer *writer, const struct value *value)
{
    bool map = value->kind == VALUE_MAP;
    const value_pair *pair = NULL;

    strbuf_text(writer->to, map ? "{" : "[");
    writer->level++;
    for (size_t i = 0; i < value->count; i++) {
        pair = !map ? NULL : writer->style->sorts ? next_sorted(writer->machine, value, pair) : &value->map[i];
        if (map && pair == NULL)
            return machine_fail(writer->machine, INLAY_UNSUPPORTED, "sorting keys that cannot be compared", "", 0);
        strbuf_text(writer->to, i > 0 ? writer->style->comma : "");
        begin_line(writer);
        if (map) {
            if (!write_key(writer, &pair->key))
                return false;
            strbuf_text(writer->to, writer->style->colon);
        }
        if (!write_json(writer, map ? &pair->value : &value->list[i]))
            return false;
    }
    writer->level--;
    if (value->count > 0)
        begin_line(writer);
    strbuf_text(writer->to, map ? "}" : "]");
    return true;
}

static bool write_json(json_writer *writer, const struct value *value)
{
    struct strbuf *to = writer->to;
    bool good = machine_enter(writer->machine);

    if (!good)
        return false;
    switch (value->kind) {
    case VALUE_NONE:
        strbuf_text(to, "null");
        break;
    case VALUE_BOOL:
        strbuf_text(to, value->number != 0 ? "true" : "false");
        break;
    case VALUE_NUMBER:
    case VALUE_REAL:
        write_number(to, value);
        break;
    case VALUE_TEXT:
        write_string(to, value, writer->style->escapes);
        break;
    case VALUE_LIST:
    case VALUE_MAP:
        good = write_list(writer, value);
        break;
    default:
        good = machine_fail(writer->machine, INLAY_UNSUPPORTED, "JSON of a value that is not data", "", 0);
    }
    if (good && to->size > TEMPLATE_TEXT)
        good = machine_fail(writer->machine, INLAY_LIMIT_EXCEEDED, "the text has more than 16 MiB", "", 0);
    machine_leave(writer->machine);
    return good;
}

bool value_write_json(struct machine *machine, struct strbuf *to, const struct value *value, const json_style *style)
{
    json_writer writer = { machine, to, style, 0 };

    return write_json(&writer, value);
}

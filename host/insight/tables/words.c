#include "tables/words.h"
#include "base/c_locale.h"
#include "base/json_string.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void say(const explain_sink *sink, const char *format, ...)
{
    char line[1024];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length > 0)
        sink->write(sink->user, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* The bytes of a text, without control characters. */
static void say_bytes(const explain_sink *sink, const char *text, size_t bytes)
{
    size_t from = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (!is_control(text[i]))
            continue;
        if (i > from)
            sink->write(sink->user, text + from, i - from);
        sink->write(sink->user, "?", 1);
        from = i + 1;
    }
    if (bytes > from)
        sink->write(sink->user, text + from, bytes - from);
}

void say_text(const explain_sink *sink, const char *text)
{
    say_bytes(sink, text, strlen(text));
}

/* Continuation bytes of UTF-8 take no column. */
static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

int text_columns(const char *text, size_t bytes)
{
    bool escape = false;
    int count = 0;

    for (size_t i = 0; i < bytes; i++) {
        escape = escape || text[i] == '\033';
        count += !escape && begins_character(text[i]);
        escape = escape && text[i] != 'm';
    }
    return count;
}

void say_words(const explain_sink *sink, const char *text, size_t bytes, int at, int left, int width)
{
    for (size_t i = 0; i < bytes;) {
        size_t blanks = 0, word = 0;
        int columns;

        while (i + blanks < bytes && text[i + blanks] == ' ')
            blanks++;
        while (i + blanks + word < bytes && text[i + blanks + word] != ' ')
            word++;
        columns = text_columns(text + i + blanks, word);
        if (width > 0 && at > left && at + (int)blanks + columns > width) {
            say(sink, "\n%*s", left, "");
            at = left;
        } else {
            say(sink, "%*s", (int)blanks, "");
            at += (int)blanks;
        }
        sink->write(sink->user, text + i + blanks, word);
        at += columns;
        i += blanks + word;
    }
}

void say_line(const explain_sink *sink, const char *line, size_t bytes, int indent)
{
    enum { HANGING = 2 };
    size_t lead = 0;
    int left;

    while (lead < bytes && line[lead] == ' ')
        lead++;
    indent += (int)lead;
    left = indent + HANGING < sink->columns / 2 ? indent + HANGING : HANGING;
    say(sink, "%*s", indent, "");
    say_words(sink, line + lead, bytes - lead, indent, left, sink->columns);
    say(sink, "\n");
}

void say_to_file(void *file, const char *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, file);
}

/* A number of billionths of a unit: "s" or "J". */
static const char *format_billionths(double number, const char *sign, const char *unit, char text[FORMATTED_BYTES])
{
    static const struct {
        double size;
        const char *prefix;
    } sizes[] = { { 1e9, "" }, { 1e6, "m" }, { 1e3, "u" } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double x = number / sizes[i].size;
        if (x < 0.9995)
            continue;
        (void)snprintf(text, FORMATTED_BYTES, "%s%.*f %s%s", sign,
                       x < 9.995   ? 2
                       : x < 99.95 ? 1
                                   : 0,
                       x, sizes[i].prefix, unit);
        return text;
    }
    (void)snprintf(text, FORMATTED_BYTES, "%s%.0f n%s", sign, number, unit);
    return text;
}

const char *format_ns(double ns, char text[FORMATTED_BYTES])
{
    return ns <= -0.5 ? format_billionths(-ns, "-", "s", text) : format_billionths(fabs(ns), "", "s", text);
}

const char *format_ns_change(double ns, char text[FORMATTED_BYTES])
{
    return ns <= -0.5 ? format_billionths(-ns, "-", "s", text)
                      : format_billionths(fabs(ns), ns >= 0.5 ? "+" : "", "s", text);
}

const char *format_joules(double nj, char text[FORMATTED_BYTES])
{
    return format_billionths(nj, "", "J", text);
}

const char *format_bytes(uint64_t bytes, char text[FORMATTED_BYTES])
{
    static const char *const names[] = { "KiB", "MiB", "GiB", "TiB" };
    double x = (double)bytes;
    size_t unit = 0;

    if (bytes < 1024) {
        (void)snprintf(text, FORMATTED_BYTES, "%" PRIu64 " B", bytes);
        return text;
    }
    for (x /= 1024; x >= 1023.95 && unit < 3; unit++)
        x /= 1024;
    (void)snprintf(text, FORMATTED_BYTES, "%.*f %s", x < 99.95 ? 1 : 0, x, names[unit]);
    return text;
}

static void begin_item(json_out *json, const char *key)
{
    if (json->depth > 0) {
        uint32_t d = json->depth - 1;
        if (json->flat[d])
            say(json->sink, "%s", json->filled[d] ? ", " : "");
        else
            say(json->sink, "%s\n%*s", json->filled[d] ? "," : "", (int)json->depth * 2, "");
        json->filled[d] = true;
    }
    if (key != NULL)
        say(json->sink, "\"%s\": ", key);
}

void json_open(json_out *json, const char *key, char kind, bool flat)
{
    begin_item(json, key);
    if (json->depth >= JSON_DEPTH)
        return;
    say(json->sink, "%c", kind);
    json->flat[json->depth] = flat || (json->depth > 0 && json->flat[json->depth - 1]);
    json->filled[json->depth] = false;
    json->closer[json->depth] = kind == '{' ? '}' : ']';
    json->depth++;
}

void json_close(json_out *json)
{
    uint32_t d = json->depth - 1;

    INLAY_CHECK(json->depth > 0);
    if (!json->flat[d] && json->filled[d])
        say(json->sink, "\n%*s", (int)d * 2, "");
    say(json->sink, "%c", json->closer[d]);
    json->depth--;
}

void json_text(json_out *json, const char *key, const char *text)
{
    begin_item(json, key);
    if (text != NULL)
        json_string_write(text, strlen(text), "<>&", json->sink->write, json->sink->user);
    else
        say(json->sink, "null");
}

void json_whole(json_out *json, const char *key, uint64_t number)
{
    begin_item(json, key);
    say(json->sink, "%" PRIu64, number);
}

void json_number(json_out *json, const char *key, double number)
{
    char text[64];
    locale_t before;

    begin_item(json, key);
    if (!isfinite(number)) {
        say(json->sink, "null");
        return;
    }
    before = c_locale_begin();
    (void)snprintf(text, sizeof text, "%.10g", number);
    c_locale_end(before);
    say(json->sink, "%s", text);
}

void json_bool(json_out *json, const char *key, bool yes)
{
    begin_item(json, key);
    say(json->sink, "%s", yes ? "true" : "false");
}

#include "codecs/pbtxt.h"
#include "codecs/field.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 16, MAX_WORD = 64 };

typedef struct text_reader {
    const char *at, *end;
    uint32_t line, depth;
    struct pbtxt *to;
    inlay_diag *diag;
} text_reader;

INLAY_PRINTF(2, 3) static inlay_status mistake(const text_reader *reader, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return inlay_fail(reader->diag, INLAY_INVALID_ARGUMENT, "%s:%u: %s", reader->to->path, reader->line, text);
}

/* Skips white space and comments. Returns the next character; 0 at the end. */
static char peek(text_reader *reader)
{
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '#')
            while (reader->at + 1 < reader->end && reader->at[1] != '\n')
                reader->at++;
        else if (*reader->at == '\n')
            reader->line++;
        else if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\r')
            return *reader->at;
    }
    return '\0';
}

static bool take(text_reader *reader, char wanted)
{
    if (peek(reader) != wanted)
        return false;
    reader->at++;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+' || c == '.';
}

/* Reads a name or a number. */
static inlay_status read_word(text_reader *reader, const char *what, char out[MAX_WORD])
{
    char first = peek(reader);
    size_t used = 0;

    while (reader->at < reader->end && is_word(*reader->at) && used + 1 < MAX_WORD)
        out[used++] = *reader->at++;
    out[used] = '\0';
    if (first == '\0')
        return mistake(reader, "expected %s, but the file ends", what);
    if (used == 0)
        return first > ' ' && first < 127 ? mistake(reader, "expected %s, not '%c'", what, first)
                                          : mistake(reader, "expected %s", what);
    return used + 1 == MAX_WORD ? mistake(reader, "'%s...' is too long", out) : INLAY_OK;
}

/* Decodes what follows a backslash. */
static bool read_escape(text_reader *reader, struct strbuf *to)
{
    static const char names[] = "abfnrtv\\'\"?", values[] = "\a\b\f\n\r\t\v\\'\"?";
    const char *name;
    char byte = 0;
    int digits = 0;

    if (reader->at == reader->end || *reader->at == '\0')
        return false;
    name = strchr(names, *reader->at);
    if (name != NULL) {
        strbuf_add(to, &values[name - names], 1);
        reader->at++;
        return true;
    }
    for (; digits < 3 && reader->at < reader->end && *reader->at >= '0' && *reader->at <= '7'; digits++)
        byte = (char)(byte * 8 + (*reader->at++ - '0'));
    strbuf_add(to, &byte, 1);
    return digits > 0;
}

/* Reads a string, or several that are concatenated. The caller frees *out_text. */
static inlay_status read_string(text_reader *reader, const char *name, char **out_text)
{
    struct strbuf text = { .data = NULL };
    inlay_status status = INLAY_OK;
    char quote = peek(reader);

    *out_text = NULL;
    if (quote != '"' && quote != '\'')
        return mistake(reader, "%s: expected a text in quotes", name);
    for (; status == INLAY_OK && (quote == '"' || quote == '\''); quote = peek(reader)) {
        for (reader->at++; reader->at < reader->end && *reader->at != quote && *reader->at != '\n';) {
            if (*reader->at != '\\') {
                strbuf_add(&text, reader->at++, 1);
            } else {
                reader->at++;
                if (!read_escape(reader, &text))
                    status = mistake(reader, "%s: unknown escape in a text", name);
            }
            if (status != INLAY_OK)
                break;
        }
        if (status == INLAY_OK && (reader->at == reader->end || *reader->at != quote))
            status = mistake(reader, "%s: the text has no closing quote", name);
        reader->at++;
    }
    if (status == INLAY_OK && !utf8_is_valid(text.data, text.size))
        status = mistake(reader, "%s: the text is not UTF-8", name);
    if (status == INLAY_OK && text.size > 0 && memchr(text.data, '\0', text.size) != NULL)
        status = mistake(reader, "%s: the text has a NUL character", name);
    strbuf_add(&text, "", 1);
    if (status == INLAY_OK && text.failed)
        status = no_memory(reader->diag, "to read %s", reader->to->path);
    if (status == INLAY_OK)
        *out_text = text.data;
    else
        strbuf_deinit(&text);
    return status;
}

static inlay_status read_integer(text_reader *reader, const ProtobufCFieldDescriptor *field, void *to)
{
    bool is_wide = field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_UINT64,
         is_signed = field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_INT32;
    char word[MAX_WORD], *end = word;
    long long number = 0;
    unsigned long long large = 0;
    inlay_status status = read_word(reader, "a number", word);

    if (status != INLAY_OK)
        return status;
    errno = 0;
    if (is_signed)
        number = strtoll(word, &end, 0);
    else if (word[0] != '-')
        large = strtoull(word, &end, 0);
    if (end == word || *end != '\0' || errno != 0 || word[0] == '+' ||
        (!is_wide && is_signed && (number < INT32_MIN || number > INT32_MAX)) || (!is_wide && large > UINT32_MAX))
        return mistake(reader, "%s: '%s' is not an integer%s in the range of the field", field->name, word,
                       is_signed ? "" : " from 0 on");
    if (is_wide && is_signed)
        *(int64_t *)to = number;
    else if (is_wide)
        *(uint64_t *)to = large;
    else if (is_signed)
        *(int32_t *)to = (int32_t)number;
    else
        *(uint32_t *)to = (uint32_t)large;
    return INLAY_OK;
}

static const char *enum_name(const void *user, uint32_t i)
{
    return ((const ProtobufCEnumDescriptor *)user)->values[i].name;
}

static inlay_status read_enum(text_reader *reader, const ProtobufCFieldDescriptor *field, int *to)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char word[MAX_WORD], hint[NEAREST_HINT_BYTES];
    inlay_status status = read_word(reader, "a name", word);
    const ProtobufCEnumValue *value;

    if (status != INLAY_OK)
        return status;
    value = protobuf_c_enum_descriptor_get_value_by_name(type, word);
    if (value == NULL) {
        nearest_hint(hint, "", word, enum_name, type, type->n_values);
        return mistake(reader, "%s: unknown value %s%s", field->name, word, hint);
    }
    *to = value->value;
    return INLAY_OK;
}

static inlay_status read_bool(text_reader *reader, const ProtobufCFieldDescriptor *field, protobuf_c_boolean *to)
{
    char word[MAX_WORD];
    inlay_status status = read_word(reader, "true or false", word);

    if (status != INLAY_OK)
        return status;
    *to = strcmp(word, "true") == 0 || strcmp(word, "1") == 0;
    return *to || strcmp(word, "false") == 0 || strcmp(word, "0") == 0
               ? INLAY_OK
               : mistake(reader, "%s: expected true or false, not %s", field->name, word);
}

static inlay_status read_fields(text_reader *reader, ProtobufCMessage *message, char closing);

static inlay_status read_message(text_reader *reader, const ProtobufCFieldDescriptor *field, ProtobufCMessage **to)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    char opening = peek(reader);
    inlay_status status;

    if (opening != '{' && opening != '<')
        return mistake(reader, "%s: expected '{'", field->name);
    if (reader->depth == MAX_DEPTH)
        return mistake(reader, "%s: nested too deeply", field->name);
    reader->at++;
    *to = malloc(type->sizeof_message);
    if (*to == NULL)
        return no_memory(reader->diag, "to read %s", reader->to->path);
    protobuf_c_message_init(type, *to);
    reader->depth++;
    status = read_fields(reader, *to, opening == '{' ? '}' : '>');
    reader->depth--;
    return status;
}

static inlay_status read_value(text_reader *reader, const ProtobufCFieldDescriptor *field, void *to)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(reader, field, to);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(reader, field, to);
    case PROTOBUF_C_TYPE_STRING:
        return read_string(reader, field->name, to);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(reader, field, to);
    default:
        return read_integer(reader, field, to);
    }
}

static const pbtxt_place *place_of(const struct pbtxt *text, const void *message, const char *field)
{
    for (uint32_t i = 0; i < text->place_count; i++)
        if (text->places[i].message == message && strcmp(text->places[i].field->name, field) == 0)
            return &text->places[i];
    return NULL;
}

/* Checks that neither the field nor another field of its oneof has a value yet, and records its line. */
static inlay_status note_place(text_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    struct pbtxt *to = reader->to;
    bool known = place_of(to, message, field->name) != NULL;
    int *choice = (int *)(void *)((char *)message + field->quantifier_offset);

    if (known && field->label == PROTOBUF_C_LABEL_REPEATED)
        return INLAY_OK;
    if (known)
        return mistake(reader, "%s is given twice", field->name);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        if (*choice != 0)
            return mistake(reader, "%s: %s is given, too; only one of them is possible", field->name,
                           protobuf_c_message_descriptor_get_field(message->descriptor, (unsigned)*choice)->name);
        *choice = (int)field->id;
        *(void **)(void *)((char *)message + field->offset) = NULL; /* all choices of the schema are messages */
    }
    if (!LIST_GROW(to->places, to->place_count))
        return no_memory(reader->diag, "to read %s", to->path);
    to->places[to->place_count++] = (pbtxt_place){ message, field, reader->line };
    return INLAY_OK;
}

/* Reads a value and appends it to a repeated field. */
static inlay_status read_element(text_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t *count = (size_t *)(void *)((char *)message + field->quantifier_offset), bytes = field_bytes(field);
    void *list = (char *)message + field->offset;
    char *to;

    if (!list_reserve(list, *count, 1, bytes))
        return no_memory(reader->diag, "to read %s", reader->to->path);
    to = *(char **)list + *count * bytes;
    memset(to, 0, bytes);
    *count += 1; /* a message that is read in part is freed with the others */
    return read_value(reader, field, to);
}

static inlay_status read_list(text_reader *reader, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    inlay_status status = INLAY_OK;

    if (take(reader, ']'))
        return INLAY_OK;
    do
        status = read_element(reader, message, field);
    while (status == INLAY_OK && take(reader, ','));
    return status != INLAY_OK || take(reader, ']') ? status : mistake(reader, "%s: expected ',' or ']'", field->name);
}

static const char *field_name(const void *user, uint32_t i)
{
    return ((const ProtobufCMessageDescriptor *)user)->fields[i].name;
}

static inlay_status read_field(text_reader *reader, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const ProtobufCFieldDescriptor *field;
    char word[MAX_WORD], hint[NEAREST_HINT_BYTES];
    inlay_status status = read_word(reader, "the name of a field", word);

    if (status != INLAY_OK)
        return status;
    field = protobuf_c_message_descriptor_get_field_by_name(type, word);
    if (field == NULL) {
        nearest_hint(hint, "", word, field_name, type, type->n_fields);
        return mistake(reader, "%s: no such field of %s is supported%s", word, type->short_name, hint);
    }
    status = note_place(reader, message, field);
    if (status != INLAY_OK)
        return status;
    if (!take(reader, ':') && field->type != PROTOBUF_C_TYPE_MESSAGE)
        return mistake(reader, "%s: expected ':'", field->name);
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return read_value(reader, field, (char *)message + field->offset);
    return take(reader, '[') ? read_list(reader, message, field) : read_element(reader, message, field);
}

/* Reads fields up to the closing character, 0: up to the end of the file. */
static inlay_status read_fields(text_reader *reader, ProtobufCMessage *message, char closing)
{
    inlay_status status = INLAY_OK;

    while (status == INLAY_OK) {
        char next = peek(reader);

        if (next == closing) {
            reader->at += closing != '\0';
            return INLAY_OK;
        }
        if (next == '\0')
            return mistake(reader, "expected '%c', but the file ends", closing);
        status = read_field(reader, message);
        if (status == INLAY_OK && !take(reader, ','))
            (void)take(reader, ';');
    }
    return status;
}

inlay_status pbtxt_parse(const char *text, size_t bytes, const char *path, const ProtobufCMessageDescriptor *type,
                         struct pbtxt *out_text, inlay_diag *diag)
{
    text_reader reader = { .at = text, .end = text + bytes, .line = 1, .to = out_text, .diag = diag };

    *out_text = (struct pbtxt){ .path = strdup(path), .message = malloc(type->sizeof_message) };
    if (out_text->message != NULL)
        protobuf_c_message_init(type, out_text->message);
    if (out_text->message == NULL || out_text->path == NULL)
        return no_memory(diag, "to read %s", path);
    if (bytes > 0 && memchr(text, '\0', bytes) != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s is not a text", path);
    return read_fields(&reader, out_text->message, '\0');
}

inlay_status pbtxt_read(const char *path, const ProtobufCMessageDescriptor *type, struct pbtxt *out_text,
                        inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    char *text = NULL;
    size_t bytes = 0;
    struct stat st;
    FILE *file;

    *out_text = (struct pbtxt){ .message = NULL };
    file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &st) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "cannot read %s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size > MAX_BYTES)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s is not a regular file of at most 1 MiB", path);
    else if ((st.st_mode & S_IWOTH) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: other users may write to it; run chmod o-w", path);
    else if ((text = malloc(MAX_BYTES)) == NULL)
        status = no_memory(diag, "to read %s", path);
    if (status == INLAY_OK) {
        bytes = fread(text, 1, MAX_BYTES, file);
        status = ferror(file) ? inlay_fail(diag, INLAY_IO_ERROR, "cannot read %s", path) : INLAY_OK;
    }
    if (status == INLAY_OK)
        status = pbtxt_parse(text, bytes, path, type, out_text, diag);
    if (file != NULL)
        (void)fclose(file);
    free(text);
    return status;
}

void pbtxt_close(struct pbtxt *text)
{
    if (text->message != NULL)
        protobuf_c_message_free_unpacked(text->message, NULL);
    free(text->path);
    free(text->places);
    *text = (struct pbtxt){ .message = NULL };
}

inlay_status pbtxt_fail(const struct pbtxt *text, const void *message, const char *field, inlay_diag *diag,
                        const char *format, ...)
{
    const pbtxt_place *place = place_of(text, message, field);
    char what[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return place != NULL
               ? inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s:%u: %s: %s", text->path, place->line, field, what)
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s: %s", text->path, field, what);
}

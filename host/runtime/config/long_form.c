#include "config/long_form.h"
#include "config/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *stream;
    uint32_t line; /* current line of the original file */
};

static void advance_to_line(struct writer *writer, uint32_t line)
{
    for (; writer->line < line; writer->line++)
        (void)fputc('\n', writer->stream);
}

/* The next code point of valid UTF-8, as libyaml guarantees; moves *text after it. */
static uint32_t next_code_point(const unsigned char **text)
{
    const unsigned char *byte = *text;
    uint32_t continuation_bytes = *byte < 0x80 ? 0 : *byte < 0xe0 ? 1 : *byte < 0xf0 ? 2 : 3;
    uint32_t code_point = continuation_bytes == 0 ? *byte : *byte & (0x3fu >> continuation_bytes);

    for (byte++; continuation_bytes > 0 && *byte != '\0'; continuation_bytes--, byte++)
        code_point = code_point << 6 | (*byte & 0x3f);
    *text = byte;
    return code_point;
}

static void put_text(struct writer *writer, const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;

    (void)fputc('"', writer->stream);
    while (*byte != '\0') {
        uint32_t code_point = next_code_point(&byte);

        if (code_point == '"' || code_point == '\\')
            (void)fprintf(writer->stream, "\\%c", (int)code_point);
        else if (code_point < ' ' || code_point > '~') /* a scanner might refuse it or read it as a line break */
            (void)fprintf(writer->stream, "\\U%08x", code_point);
        else
            (void)fputc((int)code_point, writer->stream);
    }
    (void)fputc('"', writer->stream);
}

/* Writes a scalar; for any other node, a value that the schema will refuse. */
static void put_scalar(struct writer *writer, const tree_node *node)
{
    advance_to_line(writer, node->line);
    if (node->kind == TREE_SCALAR)
        put_text(writer, node->text);
    else
        (void)fputs(node->kind == TREE_LIST ? "[]" : "{}", writer->stream);
}

static void put_key(struct writer *writer, const tree_node *node)
{
    advance_to_line(writer, node->key_line);
    put_text(writer, node->key);
    (void)fputc(':', writer->stream);
}

/* Writes an entry of a mapping as "KEY=VALUE". */
static void put_pair(struct writer *writer, const tree_node *node, struct arena *arena)
{
    const char *text = node->kind == TREE_SCALAR ? arena_format(arena, "%s=%s", node->key, node->text) : NULL;
    tree_node joined = { .kind = TREE_SCALAR, .line = node->line, .text = text };

    put_scalar(writer, text != NULL ? &joined : node);
}

/* Writes the items of a list. A single text is a list of one item, a mapping a list of pairs. */
static void put_items(struct writer *writer, const tree_node *node, struct arena *arena)
{
    advance_to_line(writer, node->line);
    (void)fputc('[', writer->stream);
    if (node->kind == TREE_SCALAR)
        put_scalar(writer, node);
    for (const tree_node *item = node->kind == TREE_SCALAR ? NULL : node->first; item != NULL; item = item->next) {
        if (node->kind == TREE_MAP)
            put_pair(writer, item, arena);
        else
            put_scalar(writer, item);
        (void)fputc(',', writer->stream);
    }
    (void)fputc(']', writer->stream);
}

static void put_provider_options(struct writer *writer, const tree_node *node)
{
    if (node->kind != TREE_MAP) {
        put_scalar(writer, node);
        return;
    }
    advance_to_line(writer, node->line);
    (void)fputc('[', writer->stream);
    for (const tree_node *item = node->first; item != NULL; item = item->next) {
        advance_to_line(writer, item->key_line);
        (void)fputs("{\"key\":", writer->stream);
        put_text(writer, item->key);
        (void)fputs(",\"value\":", writer->stream);
        put_scalar(writer, item);
        (void)fputs("},", writer->stream);
    }
    (void)fputc(']', writer->stream);
}

static void put_provider(struct writer *writer, const tree_node *node)
{
    advance_to_line(writer, node->line);
    if (node->kind == TREE_LIST) {
        put_scalar(writer, node);
        return;
    }
    (void)fputc('{', writer->stream);
    if (node->kind == TREE_SCALAR) {
        (void)fputs("\"name\":", writer->stream);
        put_scalar(writer, node);
    }
    for (const tree_node *item = node->kind == TREE_MAP ? node->first : NULL; item != NULL; item = item->next) {
        put_key(writer, item);
        if (strcmp(item->key, "options") == 0)
            put_provider_options(writer, item);
        else
            put_scalar(writer, item);
        (void)fputc(',', writer->stream);
    }
    (void)fputc('}', writer->stream);
}

static void put_entry(struct writer *writer, const tree_node *node, uint32_t option, struct arena *arena)
{
    uint32_t kind = option < OPTION_COUNT ? options_kind(option) : (uint32_t)KIND_TEXT;

    writer->line = node->key_line;
    (void)fputc('{', writer->stream);
    put_key(writer, node);
    if (kind == KIND_NAMES && node->kind == TREE_LIST) {
        advance_to_line(writer, node->line);
        (void)fputc('[', writer->stream);
        for (const tree_node *item = node->first; item != NULL; item = item->next) {
            put_provider(writer, item);
            (void)fputc(',', writer->stream);
        }
        (void)fputc(']', writer->stream);
    } else if (kind == KIND_LIST || kind == KIND_PAIRS || (kind == KIND_PATHS && node->kind == TREE_LIST)) {
        put_items(writer, node, arena);
    } else {
        put_scalar(writer, node);
    }
    (void)fputc('}', writer->stream);
}

bool long_form(const tree_node *entry, uint32_t option, struct arena *arena, char **out_text, size_t *out_bytes)
{
    struct writer writer = { 0 };
    bool ok;

    *out_text = NULL;
    writer.stream = open_memstream(out_text, out_bytes);
    if (writer.stream == NULL)
        return false;
    put_entry(&writer, entry, option, arena);
    ok = ferror(writer.stream) == 0;
    ok = fclose(writer.stream) == 0 && ok && *out_text != NULL;
    if (!ok) {
        free(*out_text);
        *out_text = NULL;
    }
    return ok;
}

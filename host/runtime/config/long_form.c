#include "config/long_form.h"
#include "config/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *to;
    uint32_t line; /* of the file that is rewritten */
};

static void at_line(struct writer *writer, uint32_t line)
{
    for (; writer->line < line; writer->line++)
        (void)fputc('\n', writer->to);
}

/* A code point of valid UTF-8, as libyaml gives it; moves *text behind it. */
static uint32_t next_point(const unsigned char **text)
{
    const unsigned char *c = *text;
    uint32_t more = *c < 0x80 ? 0 : *c < 0xe0 ? 1 : *c < 0xf0 ? 2 : 3;
    uint32_t point = more == 0 ? *c : *c & (0x3fu >> more);

    for (c++; more > 0 && *c != '\0'; more--, c++)
        point = point << 6 | (*c & 0x3f);
    *text = c;
    return point;
}

static void put_text(struct writer *writer, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    (void)fputc('"', writer->to);
    while (*c != '\0') {
        uint32_t point = next_point(&c);

        if (point == '"' || point == '\\')
            (void)fprintf(writer->to, "\\%c", (int)point);
        else if (point < ' ' || point > '~') /* what a scanner might take for a line break, or refuse */
            (void)fprintf(writer->to, "\\U%08x", point);
        else
            (void)fputc((int)point, writer->to);
    }
    (void)fputc('"', writer->to);
}

/* A scalar; in place of anything else something that the schema will refuse there. */
static void put_scalar(struct writer *writer, const tree_node *node)
{
    at_line(writer, node->line);
    if (node->kind == TREE_SCALAR)
        put_text(writer, node->text);
    else
        (void)fputs(node->kind == TREE_LIST ? "[]" : "{}", writer->to);
}

static void put_key(struct writer *writer, const tree_node *node)
{
    at_line(writer, node->key_line);
    put_text(writer, node->key);
    (void)fputc(':', writer->to);
}

/* "KEY=VALUE" of an entry of a mapping. */
static void put_pair(struct writer *writer, const tree_node *node, struct arena *arena)
{
    const char *text = node->kind == TREE_SCALAR ? arena_format(arena, "%s=%s", node->key, node->text) : NULL;
    tree_node joined = { .kind = TREE_SCALAR, .line = node->line, .text = text };

    put_scalar(writer, text != NULL ? &joined : node);
}

/* Items of a list; a single text is a list of one, a mapping is one of pairs. */
static void put_items(struct writer *writer, const tree_node *node, struct arena *arena)
{
    at_line(writer, node->line);
    (void)fputc('[', writer->to);
    if (node->kind == TREE_SCALAR)
        put_scalar(writer, node);
    for (const tree_node *item = node->kind == TREE_SCALAR ? NULL : node->first; item != NULL; item = item->next) {
        if (node->kind == TREE_MAP)
            put_pair(writer, item, arena);
        else
            put_scalar(writer, item);
        (void)fputc(',', writer->to);
    }
    (void)fputc(']', writer->to);
}

static void put_provider_options(struct writer *writer, const tree_node *node)
{
    if (node->kind != TREE_MAP) {
        put_scalar(writer, node);
        return;
    }
    at_line(writer, node->line);
    (void)fputc('[', writer->to);
    for (const tree_node *item = node->first; item != NULL; item = item->next) {
        at_line(writer, item->key_line);
        (void)fputs("{\"key\":", writer->to);
        put_text(writer, item->key);
        (void)fputs(",\"value\":", writer->to);
        put_scalar(writer, item);
        (void)fputs("},", writer->to);
    }
    (void)fputc(']', writer->to);
}

static void put_provider(struct writer *writer, const tree_node *node)
{
    at_line(writer, node->line);
    if (node->kind == TREE_LIST) {
        put_scalar(writer, node);
        return;
    }
    (void)fputc('{', writer->to);
    if (node->kind == TREE_SCALAR) {
        (void)fputs("\"name\":", writer->to);
        put_scalar(writer, node);
    }
    for (const tree_node *item = node->kind == TREE_MAP ? node->first : NULL; item != NULL; item = item->next) {
        put_key(writer, item);
        if (strcmp(item->key, "options") == 0)
            put_provider_options(writer, item);
        else
            put_scalar(writer, item);
        (void)fputc(',', writer->to);
    }
    (void)fputc('}', writer->to);
}

static void put_entry(struct writer *writer, const tree_node *node, uint32_t option, struct arena *arena)
{
    uint32_t kind = option < OPTION_COUNT ? options_kind(option) : (uint32_t)KIND_TEXT;

    writer->line = node->key_line;
    (void)fputc('{', writer->to);
    put_key(writer, node);
    if (kind == KIND_NAMES && node->kind == TREE_LIST) {
        at_line(writer, node->line);
        (void)fputc('[', writer->to);
        for (const tree_node *item = node->first; item != NULL; item = item->next) {
            put_provider(writer, item);
            (void)fputc(',', writer->to);
        }
        (void)fputc(']', writer->to);
    } else if (kind == KIND_LIST || kind == KIND_PAIRS || (kind == KIND_PATHS && node->kind == TREE_LIST)) {
        put_items(writer, node, arena);
    } else {
        put_scalar(writer, node);
    }
    (void)fputc('}', writer->to);
}

bool long_form(const tree_node *entry, uint32_t option, struct arena *arena, char **out_text, size_t *out_bytes)
{
    struct writer writer = { 0 };
    bool good;

    *out_text = NULL;
    writer.to = open_memstream(out_text, out_bytes);
    if (writer.to == NULL)
        return false;
    put_entry(&writer, entry, option, arena);
    good = ferror(writer.to) == 0;
    good = fclose(writer.to) == 0 && good && *out_text != NULL;
    if (!good) {
        free(*out_text);
        *out_text = NULL;
    }
    return good;
}

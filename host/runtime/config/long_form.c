#include "config/long_form.h"
#include "config/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *to;
    uint32_t line; /* of the file that is rewritten */
};

static void at_line(struct writer *w, uint32_t line)
{
    for (; w->line < line; w->line++)
        (void)fputc('\n', w->to);
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

static void put_text(struct writer *w, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    (void)fputc('"', w->to);
    while (*c != '\0') {
        uint32_t point = next_point(&c);

        if (point == '"' || point == '\\')
            (void)fprintf(w->to, "\\%c", (int)point);
        else if (point < ' ' || point > '~') /* what a scanner might take for a line break, or refuse */
            (void)fprintf(w->to, "\\U%08x", point);
        else
            (void)fputc((int)point, w->to);
    }
    (void)fputc('"', w->to);
}

/* A scalar; in place of anything else something that the schema will refuse there. */
static void put_scalar(struct writer *w, const tree_node *node)
{
    at_line(w, node->line);
    if (node->kind == TREE_SCALAR)
        put_text(w, node->text);
    else
        (void)fputs(node->kind == TREE_LIST ? "[]" : "{}", w->to);
}

static void put_key(struct writer *w, const tree_node *node)
{
    at_line(w, node->key_line);
    put_text(w, node->key);
    (void)fputc(':', w->to);
}

/* "KEY=VALUE" of an entry of a mapping. */
static void put_pair(struct writer *w, const tree_node *node, struct arena *a)
{
    const char *text = node->kind == TREE_SCALAR ? arena_format(a, "%s=%s", node->key, node->text) : NULL;
    tree_node joined = { .kind = TREE_SCALAR, .line = node->line, .text = text };

    put_scalar(w, text != NULL ? &joined : node);
}

/* Items of a list; a single text is a list of one, a mapping is one of pairs. */
static void put_items(struct writer *w, const tree_node *node, struct arena *a)
{
    at_line(w, node->line);
    (void)fputc('[', w->to);
    if (node->kind == TREE_SCALAR)
        put_scalar(w, node);
    for (const tree_node *item = node->kind == TREE_SCALAR ? NULL : node->first; item != NULL; item = item->next) {
        if (node->kind == TREE_MAP)
            put_pair(w, item, a);
        else
            put_scalar(w, item);
        (void)fputc(',', w->to);
    }
    (void)fputc(']', w->to);
}

static void put_provider_options(struct writer *w, const tree_node *node)
{
    if (node->kind != TREE_MAP) {
        put_scalar(w, node);
        return;
    }
    at_line(w, node->line);
    (void)fputc('[', w->to);
    for (const tree_node *item = node->first; item != NULL; item = item->next) {
        at_line(w, item->key_line);
        (void)fputs("{\"key\":", w->to);
        put_text(w, item->key);
        (void)fputs(",\"value\":", w->to);
        put_scalar(w, item);
        (void)fputs("},", w->to);
    }
    (void)fputc(']', w->to);
}

static void put_provider(struct writer *w, const tree_node *node)
{
    at_line(w, node->line);
    if (node->kind == TREE_LIST) {
        put_scalar(w, node);
        return;
    }
    (void)fputc('{', w->to);
    if (node->kind == TREE_SCALAR) {
        (void)fputs("\"name\":", w->to);
        put_scalar(w, node);
    }
    for (const tree_node *item = node->kind == TREE_MAP ? node->first : NULL; item != NULL; item = item->next) {
        put_key(w, item);
        if (strcmp(item->key, "options") == 0)
            put_provider_options(w, item);
        else
            put_scalar(w, item);
        (void)fputc(',', w->to);
    }
    (void)fputc('}', w->to);
}

static void put_entry(struct writer *w, const tree_node *node, uint32_t option, struct arena *a)
{
    uint32_t kind = option < OPTION_COUNT ? options_kind(option) : (uint32_t)KIND_TEXT;

    w->line = node->key_line;
    (void)fputc('{', w->to);
    put_key(w, node);
    if (kind == KIND_NAMES && node->kind == TREE_LIST) {
        at_line(w, node->line);
        (void)fputc('[', w->to);
        for (const tree_node *item = node->first; item != NULL; item = item->next) {
            put_provider(w, item);
            (void)fputc(',', w->to);
        }
        (void)fputc(']', w->to);
    } else if (kind == KIND_LIST || kind == KIND_PAIRS || (kind == KIND_PATHS && node->kind == TREE_LIST)) {
        put_items(w, node, a);
    } else {
        put_scalar(w, node);
    }
    (void)fputc('}', w->to);
}

bool long_form(const tree_node *entry, uint32_t option, struct arena *a, char **out_text, size_t *out_bytes)
{
    struct writer w = { 0 };
    bool good;

    *out_text = NULL;
    w.to = open_memstream(out_text, out_bytes);
    if (w.to == NULL)
        return false;
    put_entry(&w, entry, option, a);
    good = ferror(w.to) == 0;
    good = fclose(w.to) == 0 && good && *out_text != NULL;
    if (!good) {
        free(*out_text);
        *out_text = NULL;
    }
    return good;
}

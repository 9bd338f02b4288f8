#include "config/tree.h"
#include "base/names.h"
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 8, MAX_NODES = 65536, MAX_LOGGED = 100 };

/* ------------------------------------------------------------------ mistakes */

inlay_status mistake(struct mistakes *m, uint32_t line, inlay_status status, const char *format, ...)
{
    inlay_diag text = INLAY_DIAG_INIT, whole = INLAY_DIAG_INIT;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    if (line > 0)
        (void)inlay_fail(&whole, status, "%s:%u: %s", m->path, line, text.text);
    else
        (void)inlay_fail(&whole, status, "%s: %s", m->path, text.text);
    if (m->count == 0)
        m->status = status;
    if (m->count == 0 && m->diag != NULL)
        *m->diag = whole;
    m->count++;
    if (m->log != NULL && m->count <= MAX_LOGGED)
        m->log(m->log_user, 0, whole.text);
    return status;
}

inlay_status mistake_no_memory(struct mistakes *m)
{
    return mistake(m, 0, INLAY_OUT_OF_MEMORY, "no memory to read it");
}

/* ------------------------------------------------------------------ building the tree */

/* A list or mapping that is not closed yet. */
struct level {
    tree_node *node;
    tree_node *last; /* of its items */
    const char *key; /* read, its value comes next */
    uint32_t key_line;
    bool drop;        /* that key is there already */
    names_table keys; /* of a mapping, with their lines */
};

struct builder {
    struct arena *arena;
    struct mistakes *m;
    struct level levels[MAX_DEPTH];
    uint32_t depth;
    uint32_t nodes;
    tree_node *root;
};

/* The next scalar of a mapping is a key. */
static bool wants_key(const struct builder *b)
{
    const struct level *l = &b->levels[b->depth > 0 ? b->depth - 1 : 0];

    return b->depth > 0 && l->node->kind == TREE_MAP && l->key == NULL;
}

static inlay_status take_key(struct builder *b, const char *text, uint32_t line)
{
    struct level *l = &b->levels[b->depth - 1];
    uint32_t before = NAMES_NONE;

    if (!names_add(&l->keys, text, strlen(text), line, &before))
        return mistake_no_memory(b->m);
    if (before != NAMES_NONE)
        (void)mistake(b->m, line, INLAY_INVALID_ARGUMENT, "key '%s' is there twice, first in line %u", text, before);
    l->key = text;
    l->key_line = line;
    l->drop = before != NAMES_NONE;
    return INLAY_OK;
}

/* A node goes where it belongs: the end of the list, the key that waits for it, or the root. */
static inlay_status place(struct builder *b, tree_node *node)
{
    struct level *l = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;

    if (++b->nodes > MAX_NODES)
        return mistake(b->m, node->line, INLAY_LIMIT_EXCEEDED, "more than %d values", MAX_NODES);
    if (l == NULL) {
        b->root = node;
        return INLAY_OK;
    }
    node->key = l->key;
    node->key_line = l->key_line;
    l->key = NULL;
    if (l->drop)
        return INLAY_OK;
    if (l->last != NULL)
        l->last->next = node;
    else
        l->node->first = node;
    l->last = node;
    return INLAY_OK;
}

static bool is_missing(const yaml_event_t *e, const char *text)
{
    return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 ||
            strcmp(text, "NULL") == 0);
}

static inlay_status add_scalar(struct builder *b, const yaml_event_t *e, uint32_t line)
{
    const char *value = (const char *)e->data.scalar.value;
    tree_node *node;
    char *text;

    if (strlen(value) != e->data.scalar.length)
        return mistake(b->m, line, INLAY_INVALID_ARGUMENT, "a text has a zero byte");
    text = arena_string(b->arena, value);
    if (text == NULL)
        return mistake_no_memory(b->m);
    if (wants_key(b))
        return take_key(b, text, line);
    node = arena_alloc(b->arena, sizeof *node);
    if (node == NULL)
        return mistake_no_memory(b->m);
    *node = (tree_node){ .kind = TREE_SCALAR, .line = line, .text = text, .missing = is_missing(e, text) };
    return place(b, node);
}

static inlay_status open_level(struct builder *b, tree_kind kind, uint32_t line)
{
    tree_node *node;
    inlay_status status;

    if (wants_key(b))
        return mistake(b->m, line, INLAY_INVALID_ARGUMENT, "a key must be a single word, not a list or mapping");
    if (b->depth == MAX_DEPTH)
        return mistake(b->m, line, INLAY_LIMIT_EXCEEDED, "nested more than %d levels deep", MAX_DEPTH);
    node = arena_alloc(b->arena, sizeof *node);
    if (node == NULL)
        return mistake_no_memory(b->m);
    *node = (tree_node){ .kind = kind, .line = line };
    status = place(b, node);
    if (status == INLAY_OK)
        b->levels[b->depth++] = (struct level){ .node = node };
    return status;
}

static void close_level(struct builder *b)
{
    names_deinit(&b->levels[--b->depth].keys);
}

/* ------------------------------------------------------------------ events */

/* The anchor and the tag of an event, if it has them. */
static void marks_of(const yaml_event_t *e, const char **out_anchor, const char **out_tag)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    } else if (e->type == YAML_ALIAS_EVENT) {
        anchor = e->data.alias.anchor;
    }
    *out_anchor = (const char *)anchor;
    *out_tag = (const char *)tag;
}

static inlay_status take_event(struct builder *b, const yaml_event_t *e, uint32_t *documents)
{
    uint32_t line = (uint32_t)e->start_mark.line + 1;
    const char *anchor, *tag;

    marks_of(e, &anchor, &tag);
    if (anchor != NULL)
        return mistake(b->m, line, INLAY_INVALID_ARGUMENT, "'%s%s': anchors and aliases are not used here",
                       e->type == YAML_ALIAS_EVENT ? "*" : "&", anchor);
    if (tag != NULL)
        return mistake(b->m, line, INLAY_INVALID_ARGUMENT, "'%s': tags are not used here", tag);
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*documents > 1)
            return mistake(b->m, line, INLAY_INVALID_ARGUMENT, "a second document ('---'); one is all there can be");
        return INLAY_OK;
    case YAML_SCALAR_EVENT:
        return add_scalar(b, e, line);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(b, TREE_LIST, line);
    case YAML_MAPPING_START_EVENT:
        return open_level(b, TREE_MAP, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_level(b);
        return INLAY_OK;
    default:
        return INLAY_OK;
    }
}

/* A line of the text that is indented with a tab, the mistake that libyaml's own words explain least. */
static bool has_tab(const char *text, size_t bytes, size_t line)
{
    const char *end = text + bytes, *c = text;

    for (size_t i = 0; i < line && c < end; i++) {
        const char *newline = memchr(c, '\n', (size_t)(end - c));
        c = newline != NULL ? newline + 1 : end;
    }
    while (c < end && (*c == ' ' || *c == '-'))
        c++;
    return c < end && *c == '\t';
}

static inlay_status not_yaml(const yaml_parser_t *p, struct mistakes *m, const char *text, size_t bytes)
{
    uint32_t line = (uint32_t)p->problem_mark.line + 1;
    const char *problem = p->problem != NULL ? p->problem : "it cannot be read";

    if (p->error == YAML_MEMORY_ERROR)
        return mistake_no_memory(m);
    if (p->error == YAML_READER_ERROR)
        return mistake(m, 0, INLAY_INVALID_ARGUMENT, "not a YAML file: %s, at byte %zu", problem, p->problem_offset);
    if (has_tab(text, bytes, p->problem_mark.line))
        return mistake(m, line, INLAY_INVALID_ARGUMENT, "indented with a tab; YAML wants spaces");
    return mistake(m, line, INLAY_INVALID_ARGUMENT, "not YAML: %s%s%s", p->context != NULL ? p->context : "",
                   p->context != NULL ? ", " : "", problem);
}

inlay_status tree_parse(const char *text, size_t bytes, struct arena *a, struct mistakes *m, tree_node **out_root)
{
    struct builder b = { .arena = a, .m = m };
    inlay_status status = INLAY_OK;
    uint32_t documents = 0;
    yaml_parser_t parser;
    bool end = false;

    *out_root = NULL;
    if (yaml_parser_initialize(&parser) == 0)
        return mistake_no_memory(m);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    while (status == INLAY_OK && !end) {
        yaml_event_t event;

        if (yaml_parser_parse(&parser, &event) == 0) {
            status = not_yaml(&parser, m, text, bytes);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        status = take_event(&b, &event, &documents);
        yaml_event_delete(&event);
    }
    while (b.depth > 0)
        close_level(&b);
    yaml_parser_delete(&parser);
    if (status == INLAY_OK)
        *out_root = b.root;
    return status;
}

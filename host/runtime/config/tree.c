#include "config/tree.h"
#include "base/names.h"
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 8, MAX_NODES = 65536, MAX_LOGGED = 100 };

inlay_status mistake(struct mistakes *mistakes, uint32_t line, inlay_status status, const char *format, ...)
{
    inlay_diag text = INLAY_DIAG_INIT, whole = INLAY_DIAG_INIT;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    if (line > 0)
        (void)inlay_fail(&whole, status, "%s:%u: %s", mistakes->path, line, text.text);
    else
        (void)inlay_fail(&whole, status, "%s: %s", mistakes->path, text.text);
    if (mistakes->count == 0)
        mistakes->status = status;
    if (mistakes->count == 0 && mistakes->diag != NULL)
        *mistakes->diag = whole;
    mistakes->count++;
    if (mistakes->log != NULL && mistakes->count <= MAX_LOGGED)
        mistakes->log(mistakes->log_user, 0, whole.text);
    return status;
}

inlay_status mistake_no_memory(struct mistakes *mistakes)
{
    return mistake(mistakes, 0, INLAY_OUT_OF_MEMORY, "no memory to read it");
}

/* A list or mapping that is not closed yet. */
struct level {
    tree_node *node;
    tree_node *last; /* of its items */
    const char *key; /* the key whose value comes next */
    uint32_t key_line;
    bool is_duplicate; /* the mapping already has that key */
    names_table keys;  /* of a mapping, with their lines */
};

struct builder {
    struct arena *arena;
    struct mistakes *mistakes;
    struct level levels[MAX_DEPTH];
    uint32_t depth;
    uint32_t nodes;
    tree_node *root;
};

/* Is the next scalar a key of a mapping? */
static bool wants_key(const struct builder *builder)
{
    const struct level *level = &builder->levels[builder->depth > 0 ? builder->depth - 1 : 0];

    return builder->depth > 0 && level->node->kind == TREE_MAP && level->key == NULL;
}

static inlay_status set_key(struct builder *builder, const char *text, uint32_t line)
{
    struct level *level = &builder->levels[builder->depth - 1];
    uint32_t before = NAMES_NONE;

    if (!names_add(&level->keys, text, strlen(text), line, &before))
        return mistake_no_memory(builder->mistakes);
    if (before != NAMES_NONE)
        (void)mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT, "duplicate key '%s', first in line %u", text,
                      before);
    level->key = text;
    level->key_line = line;
    level->is_duplicate = before != NAMES_NONE;
    return INLAY_OK;
}

/* Adds a node to the end of the list, to the pending key, or as the root. */
static inlay_status append_node(struct builder *builder, tree_node *node)
{
    struct level *level = builder->depth > 0 ? &builder->levels[builder->depth - 1] : NULL;

    if (++builder->nodes > MAX_NODES)
        return mistake(builder->mistakes, node->line, INLAY_LIMIT_EXCEEDED, "more than %d values", MAX_NODES);
    if (level == NULL) {
        builder->root = node;
        return INLAY_OK;
    }
    node->key = level->key;
    node->key_line = level->key_line;
    level->key = NULL;
    if (level->is_duplicate)
        return INLAY_OK;
    if (level->last != NULL)
        level->last->next = node;
    else
        level->node->first = node;
    level->last = node;
    return INLAY_OK;
}

static bool is_missing(const yaml_event_t *event, const char *text)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 ||
            strcmp(text, "NULL") == 0);
}

static inlay_status add_scalar(struct builder *builder, const yaml_event_t *event, uint32_t line)
{
    const char *value = (const char *)event->data.scalar.value;
    tree_node *node;
    char *text;

    if (strlen(value) != event->data.scalar.length)
        return mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT, "a text contains a zero byte");
    text = arena_string(builder->arena, value);
    if (text == NULL)
        return mistake_no_memory(builder->mistakes);
    if (wants_key(builder))
        return set_key(builder, text, line);
    node = arena_alloc(builder->arena, sizeof *node);
    if (node == NULL)
        return mistake_no_memory(builder->mistakes);
    *node = (tree_node){ .kind = TREE_SCALAR, .line = line, .text = text, .missing = is_missing(event, text) };
    return append_node(builder, node);
}

static inlay_status open_level(struct builder *builder, tree_kind kind, uint32_t line)
{
    tree_node *node;
    inlay_status status;

    if (wants_key(builder))
        return mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT,
                       "a key must be a single word, not a list or mapping");
    if (builder->depth == MAX_DEPTH)
        return mistake(builder->mistakes, line, INLAY_LIMIT_EXCEEDED, "nested more than %d levels deep", MAX_DEPTH);
    node = arena_alloc(builder->arena, sizeof *node);
    if (node == NULL)
        return mistake_no_memory(builder->mistakes);
    *node = (tree_node){ .kind = kind, .line = line };
    status = append_node(builder, node);
    if (status == INLAY_OK)
        builder->levels[builder->depth++] = (struct level){ .node = node };
    return status;
}

static void close_level(struct builder *builder)
{
    names_deinit(&builder->levels[--builder->depth].keys);
}

/* The anchor and the tag of an event, if it has them. */
static void find_anchor_and_tag(const yaml_event_t *event, const char **out_anchor, const char **out_tag)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else if (event->type == YAML_ALIAS_EVENT) {
        anchor = event->data.alias.anchor;
    }
    *out_anchor = (const char *)anchor;
    *out_tag = (const char *)tag;
}

static inlay_status handle_event(struct builder *builder, const yaml_event_t *event, uint32_t *documents)
{
    uint32_t line = (uint32_t)event->start_mark.line + 1;
    const char *anchor, *tag;

    find_anchor_and_tag(event, &anchor, &tag);
    if (anchor != NULL)
        return mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT, "'%s%s': anchors and aliases are not supported",
                       event->type == YAML_ALIAS_EVENT ? "*" : "&", anchor);
    if (tag != NULL)
        return mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT, "'%s': tags are not supported", tag);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*documents > 1)
            return mistake(builder->mistakes, line, INLAY_INVALID_ARGUMENT,
                           "a second document ('---'); only one is allowed");
        return INLAY_OK;
    case YAML_SCALAR_EVENT:
        return add_scalar(builder, event, line);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(builder, TREE_LIST, line);
    case YAML_MAPPING_START_EVENT:
        return open_level(builder, TREE_MAP, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_level(builder);
        return INLAY_OK;
    default:
        return INLAY_OK;
    }
}

/* Is the line indented with a tab? libyaml's own message for this mistake is hard to understand. */
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

static inlay_status not_yaml(const yaml_parser_t *parser, struct mistakes *mistakes, const char *text, size_t bytes)
{
    uint32_t line = (uint32_t)parser->problem_mark.line + 1;
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";

    if (parser->error == YAML_MEMORY_ERROR)
        return mistake_no_memory(mistakes);
    if (parser->error == YAML_READER_ERROR)
        return mistake(mistakes, 0, INLAY_INVALID_ARGUMENT, "not a YAML file: %s, at byte %zu", problem,
                       parser->problem_offset);
    if (has_tab(text, bytes, parser->problem_mark.line))
        return mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "indented with a tab; YAML requires spaces");
    return mistake(mistakes, line, INLAY_INVALID_ARGUMENT, "not YAML: %s%s%s",
                   parser->context != NULL ? parser->context : "", parser->context != NULL ? ", " : "", problem);
}

inlay_status tree_parse(const char *text, size_t bytes, struct arena *arena, struct mistakes *mistakes,
                        tree_node **out_root)
{
    struct builder builder = { .arena = arena, .mistakes = mistakes };
    inlay_status status = INLAY_OK;
    uint32_t documents = 0;
    yaml_parser_t parser;
    bool end = false;

    *out_root = NULL;
    if (yaml_parser_initialize(&parser) == 0)
        return mistake_no_memory(mistakes);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    while (status == INLAY_OK && !end) {
        yaml_event_t event;

        if (yaml_parser_parse(&parser, &event) == 0) {
            status = not_yaml(&parser, mistakes, text, bytes);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        status = handle_event(&builder, &event, &documents);
        yaml_event_delete(&event);
    }
    while (builder.depth > 0)
        close_level(&builder);
    yaml_parser_delete(&parser);
    if (status == INLAY_OK)
        *out_root = builder.root;
    return status;
}

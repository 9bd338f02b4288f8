/* serve/chat/chat_internal.h - the interpreter of chat templates: its position and its variables. */
#ifndef SERVE_CHAT_INTERNAL_H
#define SERVE_CHAT_INTERNAL_H
#include "base/strbuf.h"
#include "serve/chat/chat.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_MESSAGE,
    VALUE_LOOP,
    VALUE_NAMESPACE /* namespace() */
} value_kind;

struct value;
struct value {
    value_kind kind;
    int64_t number;           /* NUMBER, BOOL: the value; LOOP, NAMESPACE: its index */
    const char *text;         /* [count] bytes */
    const struct value *list; /* [count] */
    const chat_message *message;
    size_t count;
};

struct variable {
    const char *name; /* [bytes] in the template */
    size_t bytes;
    int namespace_id; /* namespace of an attribute; 0 = a plain variable */
    struct value value;
};

struct loop {
    size_t index, count;
};

enum { CHAT_VARIABLES = 64, CHAT_LOOPS = 8, CHAT_NESTED = 64, CHAT_STEPS = 4000000, CHAT_BYTES = 1 << 24 };

struct machine {
    const struct chat *chat;
    const char *at, *end; /* the rest of the template */
    struct strbuf out;
    struct variable variables[CHAT_VARIABLES]; /* the last one of a name is valid */
    uint32_t variable_count, scope;            /* variables from index `scope` on belong to the innermost loop */
    struct loop loops[CHAT_LOOPS];
    uint32_t loop_count;
    int namespace_count;
    uint32_t quiet;          /* > 0: this part of an expression is parsed without effect */
    uint32_t nested, steps;  /* limited by CHAT_NESTED and CHAT_STEPS */
    bool strips, skips_line; /* remove all white space, or one end of line, at the start of the next text */
    void **memory;           /* [memory_count] allocations of values */
    size_t memory_count, memory_bytes;
    bool failed;
    inlay_diag *diag;
};

static inline bool machine_is_white(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

/* chat_machine.c */
/* Fails with a message that names the line; returns false. */
bool machine_fail(struct machine *machine, inlay_status status, const char *what, const char *detail, size_t bytes);
void *machine_memory(struct machine *machine, size_t bytes); /* NULL: the machine has failed */
/* Sets a variable, or the attribute `name` of a namespace. */
bool machine_set(struct machine *machine, const char *name, size_t bytes, int namespace_id, struct value value);
void machine_spaces(struct machine *machine); /* skips white space */
/* Consumes the sign or word if it comes next in the template. A word must not be followed by a letter. */
bool machine_sign(struct machine *machine, const char *sign);
bool machine_word(struct machine *machine, const char *word);
bool machine_name(struct machine *machine, const char **out, size_t *out_bytes);
/* Returns whether the end of the tag comes next. */
bool machine_at_end(struct machine *machine);

static inline struct value text_value(const char *text, size_t bytes)
{
    return (struct value){ .kind = VALUE_TEXT, .text = text, .count = bytes };
}

static inline struct value bool_value(bool on)
{
    return (struct value){ .kind = VALUE_BOOL, .number = on };
}

static inline struct value number_value(int64_t number)
{
    return (struct value){ .kind = VALUE_NUMBER, .number = number };
}

static inline bool machine_is(const char *name, size_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(name, word, bytes) == 0;
}

/* chat_expression.c: reads and evaluates an expression. */
bool value_read(struct machine *machine, struct value *out);

/* chat_value.c */
bool value_truth(const struct value *value);
bool value_print(struct machine *machine, const struct value *value);
bool value_same(const struct value *left, const struct value *right);
bool value_concatenate(struct machine *machine, const struct value *left, const struct value *right, struct value *out);
bool value_contains(const struct value *where, const struct value *what);
struct value value_find(const struct machine *machine, const char *name, size_t bytes, int namespace_id);
/* These functions replace *value by their result. value_filter() reads the name of the filter from the template, and
 * value_method() reads the arguments of the method. */
bool value_attribute(struct machine *machine, struct value *value, const char *name, size_t bytes);
bool value_element(struct machine *machine, struct value *value, const struct value *index);
bool value_filter(struct machine *machine, struct value *value);
bool value_method(struct machine *machine, struct value *value, const char *name, size_t bytes);
#endif

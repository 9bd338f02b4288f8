/* serve/chat_internal.h - a template at work: where it is, what its names mean. */
#ifndef SERVE_CHAT_INTERNAL_H
#define SERVE_CHAT_INTERNAL_H
#include "base/strbuf.h"
#include "serve/chat.h"
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
    VALUE_SPACE /* namespace() */
} value_kind;

struct value;
struct value {
    value_kind kind;
    int64_t number;           /* also of BOOL; of LOOP and SPACE, which */
    const char *text;         /* [count] bytes */
    const struct value *list; /* [count] */
    const chat_message *message;
    size_t count;
};

struct variable {
    const char *name; /* [bytes] in the template */
    size_t bytes;
    int space; /* that it is an attribute of; 0 = none */
    struct value value;
};

struct loop {
    size_t index, count;
};

enum { CHAT_VARIABLES = 64, CHAT_LOOPS = 8, CHAT_NESTED = 64, CHAT_STEPS = 4000000, CHAT_BYTES = 1 << 24 };

struct machine {
    const struct chat *chat;
    const char *at, *end; /* the template, from here */
    struct strbuf out;
    struct variable variables[CHAT_VARIABLES]; /* the last of a name is it */
    uint32_t variable_count, scope;            /* those from `scope` on are of the innermost loop */
    struct loop loops[CHAT_LOOPS];
    uint32_t loop_count;
    int spaces;
    uint32_t quiet; /* > 0: this part of an expression does not count */
    uint32_t nested, steps;
    bool strips, skips_line; /* white space, or one end of line, at the beginning of the text that comes */
    void **memory;           /* [memory_count] of values */
    size_t memory_count, memory_bytes;
    bool failed;
    inlay_diag *diag;
};

/* Fails with a sentence that says where; false. */
bool machine_fail(struct machine *machine, inlay_status status, const char *what, const char *detail, size_t bytes);
void *machine_memory(struct machine *machine, size_t bytes); /* NULL: it has failed */
bool machine_set(struct machine *machine, const char *name, size_t bytes, int space, struct value value);
void machine_spaces(struct machine *machine); /* skips white space */
/* Whether these signs come next; takes them. A word has to end there. */
bool machine_sign(struct machine *machine, const char *sign);
bool machine_word(struct machine *machine, const char *word);
bool machine_name(struct machine *machine, const char **out, size_t *out_bytes);
/* Whether the end of the tag comes next. */
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

/* chat_expression.c: reads and computes one. */
bool value_read(struct machine *machine, struct value *out);

/* chat_value.c */
bool value_truth(const struct value *value);
bool value_print(struct machine *machine, const struct value *value);
bool value_same(const struct value *a, const struct value *b);
bool value_concatenate(struct machine *machine, const struct value *a, const struct value *b, struct value *out);
bool value_contains(const struct value *where, const struct value *what);
struct value value_find(const struct machine *machine, const char *name, size_t bytes, int space);
/* These change the value. The name and the arguments of a filter or a method come next in the template. */
bool value_attribute(struct machine *machine, struct value *value, const char *name, size_t bytes);
bool value_element(struct machine *machine, struct value *value, const struct value *index);
bool value_filter(struct machine *machine, struct value *value);
bool value_method(struct machine *machine, struct value *value, const char *name, size_t bytes);
#endif

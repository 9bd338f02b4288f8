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

typedef struct value value;
struct value {
    value_kind kind;
    int64_t number;    /* also of BOOL; of LOOP and SPACE, which */
    const char *text;  /* [count] bytes */
    const value *list; /* [count] */
    const chat_message *message;
    size_t count;
};

typedef struct variable {
    const char *name; /* [bytes] in the template */
    size_t bytes;
    int space; /* that it is an attribute of; 0 = none */
    value value;
} variable;

typedef struct loop {
    size_t index, count;
} loop;

enum { CHAT_VARIABLES = 64, CHAT_LOOPS = 8, CHAT_NESTED = 64, CHAT_STEPS = 4000000, CHAT_BYTES = 1 << 24 };

typedef struct machine {
    const chat *chat;
    const char *at, *end; /* the template, from here */
    strbuf out;
    variable variables[CHAT_VARIABLES]; /* the last of a name is it */
    uint32_t variable_count, scope;     /* those from `scope` on are of the innermost loop */
    loop loops[CHAT_LOOPS];
    uint32_t loop_count;
    int spaces;
    uint32_t quiet; /* > 0: this part of an expression does not count */
    uint32_t nested, steps;
    bool strips, skips_line; /* white space, or one end of line, at the beginning of the text that comes */
    void **memory;           /* [memory_count] of values */
    size_t memory_count, memory_bytes;
    bool failed;
    inlay_diag *diag;
} machine;

/* Fails with a sentence that says where; false. */
bool machine_fail(machine *m, inlay_status status, const char *what, const char *detail, size_t bytes);
void *machine_memory(machine *m, size_t bytes); /* NULL: it has failed */
bool machine_set(machine *m, const char *name, size_t bytes, int space, value v);
void machine_spaces(machine *m); /* skips white space */
/* Whether these signs come next; takes them. A word has to end there. */
bool machine_sign(machine *m, const char *sign);
bool machine_word(machine *m, const char *word);
bool machine_name(machine *m, const char **out, size_t *out_bytes);
/* Whether the end of the tag comes next. */
bool machine_at_end(machine *m);

static inline value text_value(const char *text, size_t bytes)
{
    return (value){ .kind = VALUE_TEXT, .text = text, .count = bytes };
}

static inline value bool_value(bool on)
{
    return (value){ .kind = VALUE_BOOL, .number = on };
}

static inline value number_value(int64_t number)
{
    return (value){ .kind = VALUE_NUMBER, .number = number };
}

static inline bool machine_is(const char *name, size_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(name, word, bytes) == 0;
}

/* chat_expression.c: reads and computes one. */
bool value_read(machine *m, value *out);

/* chat_value.c */
bool value_truth(const value *v);
bool value_print(machine *m, const value *v);
bool value_same(const value *a, const value *b);
bool value_concatenate(machine *m, const value *a, const value *b, value *out);
bool value_contains(const value *where, const value *what);
value value_find(const machine *m, const char *name, size_t bytes, int space);
/* These change the value. The name and the arguments of a filter or a method come next in the template. */
bool value_attribute(machine *m, value *v, const char *name, size_t bytes);
bool value_element(machine *m, value *v, const value *index);
bool value_filter(machine *m, value *v);
bool value_method(machine *m, value *v, const char *name, size_t bytes);
#endif

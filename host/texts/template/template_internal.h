/* texts/template/template_internal.h - the tree of a template, its values, and the machine that walks it. */
#ifndef TEXTS_TEMPLATE_INTERNAL_H
#define TEXTS_TEMPLATE_INTERNAL_H
#include "base/strbuf.h"
#include "texts/template/template.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    TEMPLATE_NESTED = 128,      /* levels of expressions, statements and macros */
    TEMPLATE_STEPS = 4000000,   /* nodes that are walked */
    TEMPLATE_TEXT = 1 << 24,    /* bytes of the result */
    TEMPLATE_MEMORY = 64 << 20, /* bytes of values */
    TEMPLATE_ARGUMENTS = 16
};

typedef enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST, /* also a tuple */
    VALUE_MAP,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION /* range, namespace ...: it can be called by its name only */
} value_kind;

typedef struct value_pair value_pair;
typedef struct value_loop value_loop;
typedef struct value_macro value_macro;

struct value {
    value_kind kind;
    bool is_json; /* MAP: it is printed as JSON */
    bool is_safe; /* TEXT: of the filters safe and escape, as Jinja's Markup; what is added to it is escaped */
    size_t count; /* bytes of TEXT, elements of LIST, pairs of MAP */
    union {
        int64_t number; /* NUMBER, BOOL */
        double real;
        const char *text;
        const struct value *list;
        const value_pair *map;
        struct value_space *space;
        const value_loop *loop;
        const value_macro *macro;
    };
};

struct value_pair {
    struct value key, value;
};

struct value_space { /* namespace() */
    value_pair *pairs;
    size_t count, room;
};

struct value_loop {
    size_t index;
    uint32_t depth; /* 1: the outermost loop */
    struct value list;
};

struct arguments {
    struct value values[TEMPLATE_ARGUMENTS];
    struct value names[TEMPLATE_ARGUMENTS]; /* UNDEFINED: by position */
    uint32_t count;
};

typedef enum node_kind {
    NODE_TEXT,
    NODE_PRINT,
    NODE_FOR, /* left: the list; right: the condition */
    NODE_IF,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_GROUP, /* a block that only runs its body */
    NODE_BREAK,
    NODE_CONTINUE,

    NODE_CONSTANT,
    NODE_NAME,
    NODE_LIST,
    NODE_MAP,       /* list: keys and values by turns */
    NODE_ATTRIBUTE, /* left.name */
    NODE_INDEX,     /* left[right] */
    NODE_SLICE,     /* left[list], whose three elements may be missing (NODE_NOTHING) */
    NODE_NOTHING,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_ARGUMENT, /* name = left */
    NODE_NOT,
    NODE_MINUS,
    NODE_PLUS,
    NODE_AND,
    NODE_OR,
    NODE_BINARY,  /* sign */
    NODE_COMPARE, /* left, and list of NODE_BINARY with a sign and the right operand */
    NODE_CHOICE   /* left if right else third */
} node_kind;

typedef enum sign_kind {
    SIGN_ADD,
    SIGN_SUBTRACT,
    SIGN_MULTIPLY,
    SIGN_DIVIDE,
    SIGN_FLOOR_DIVIDE,
    SIGN_REMAINDER,
    SIGN_POWER,
    SIGN_JOIN,
    SIGN_EQUAL,
    SIGN_UNEQUAL,
    SIGN_LESS,
    SIGN_LESS_EQUAL,
    SIGN_GREATER,
    SIGN_GREATER_EQUAL,
    SIGN_IN,
    SIGN_NOT_IN
} sign_kind;

struct node {
    node_kind kind;
    uint32_t line;
    sign_kind sign;
    bool negated;      /* NODE_TEST */
    struct value text; /* the text, name or constant */
    struct node *left, *right, *third;
    struct node *list;  /* elements, arguments, names that are set, parameters of a macro */
    struct node *body;  /* statements */
    struct node *other; /* statements of else */
    struct node *next;
};

struct variable {
    struct value name, value;
};

struct frame; /* variables of a block; those of its parents are visible */
struct frame {
    struct frame *parent;
    struct variable *variables;
    size_t count, room;
};

struct value_macro {
    const struct node *definition; /* NODE_MACRO, or the body of a call block */
    struct frame *frame;           /* in which it was defined */
};

struct machine {
    struct strbuf out;
    struct frame *frame;
    uint32_t line; /* for messages */
    uint32_t nested, loops, steps;
    void **memory; /* [memory_count] allocations of values and nodes */
    size_t memory_count, memory_bytes;
    char *next; /* free memory of the last allocation */
    size_t left;
    bool failed;
    inlay_diag *diag;
};

/* template_machine.c */
/* Fails with a message that names the line; returns false. detail: [bytes], may be "". */
bool machine_fail(struct machine *machine, inlay_status status, const char *what, const char *detail, size_t bytes);
/* Zeroed; NULL: the machine has failed. */
void *machine_memory(struct machine *machine, size_t bytes);
/* Counts a step and a level of nesting, which machine_leave() ends. false: there are too many. */
bool machine_enter(struct machine *machine);
void machine_leave(struct machine *machine);
/* Counts the steps of looking at `count` elements. false: there are too many. */
bool machine_count(struct machine *machine, size_t count);
bool machine_copy(struct machine *machine, const char *text, size_t bytes, struct value *out);
/* Moves the text of the buffer, which it frees, to a value. */
bool machine_take(struct machine *machine, struct strbuf *from, struct value *out);
bool machine_set(struct machine *machine, struct value name, struct value value);
struct value machine_find(const struct machine *machine, struct value name);

/* template_parse.c: the tree of a template; NULL and no failure: it is empty. */
bool template_parse(struct machine *machine, const char *form, size_t bytes, struct node **out);

/* template_value.c */
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

static inline struct value real_value(double real)
{
    return (struct value){ .kind = VALUE_REAL, .real = real };
}

static inline struct value list_value(const struct value *list, size_t count)
{
    return (struct value){ .kind = VALUE_LIST, .list = list, .count = count };
}

static inline bool value_is(const struct value *text, const char *word)
{
    return text->kind == VALUE_TEXT && strlen(word) == text->count && memcmp(text->text, word, text->count) == 0;
}

static inline bool value_is_white(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

static inline bool value_is_whole(const struct value *value)
{
    return value->kind == VALUE_NUMBER || value->kind == VALUE_BOOL;
}

static inline bool value_is_number(const struct value *value)
{
    return value_is_whole(value) || value->kind == VALUE_REAL;
}

double value_real(const struct value *number);
bool value_truth(const struct value *value);
/* false if the machine fails, like the next two: comparisons count as steps. */
bool value_same(struct machine *machine, const struct value *left, const struct value *right);
/* *out: -1, 0, 1. false: the values have no order. */
bool value_order(struct machine *machine, const struct value *left, const struct value *right, int *out);
bool value_contains(struct machine *machine, const struct value *where, const struct value *what, bool *out);
/* Number of elements, pairs or characters. false: the value has no length. */
bool value_length(const struct value *value, size_t *out);
/* The pair of a map or namespace; UNDEFINED: there is none. */
struct value value_member(struct machine *machine, const struct value *map, const struct value *key);
/* Sets the pair of a key. */
bool space_set(struct machine *machine, struct value_space *space, struct value name, struct value value);
/* The elements that a loop over the value visits: of a list, keys of a map, characters. *value becomes a list. */
bool value_elements(struct machine *machine, struct value *value);
/* The byte of the character `index` of a text, its end if there are fewer. */
size_t value_character(const struct value *text, size_t index);
bool value_from_json(struct machine *machine, json_t *json, struct value *out);

/* template_operator.c */
bool value_compute(struct machine *machine, sign_kind sign, const struct value *left, const struct value *right,
                   struct value *out);
/* text[from:to:step] of a text or list; given: NONE or UNDEFINED, or whole numbers. */
bool value_slice(struct machine *machine, const struct value *of, const struct value given[3], struct value *out);

/* template_write.c: values as texts */
/* As printed: a text as it is, lists and maps as Python writes them. */
bool machine_print(struct machine *machine, struct strbuf *to, const struct value *value);
bool value_text(struct machine *machine, const struct value *value, struct value *out);
typedef struct json_style {
    int64_t indent; /* -1: on one line */
    const char *comma, *colon;
    bool sorts, escapes; /* sort_keys, ensure_ascii */
} json_style;
bool value_write_json(struct machine *machine, struct strbuf *to, const struct value *value, const json_style *style);

/* template_test.c. *known: there is a test of this name. */
bool value_test(struct machine *machine, const struct value *name, const struct value *tested,
                const struct arguments *arguments, bool *out);
/* Compares with an operator of comparison. */
bool value_compare(struct machine *machine, sign_kind sign, const struct value *left, const struct value *right,
                   bool *out);

/* template_filter.c, template_method.c: replace *value by the result. */
bool value_filter(struct machine *machine, const struct value *name, struct value *value,
                  const struct arguments *arguments);
bool value_method(struct machine *machine, const struct value *name, struct value *value,
                  const struct arguments *arguments);
bool value_is_function(const struct value *name);
/* Functions without an object; *known: there is one of this name. */
bool value_function(struct machine *machine, const struct value *name, const struct arguments *arguments,
                    struct value *out, bool *known);
/* Escapes &, <, >, ' and " in a text that is not safe, which then is. */
bool value_escape(struct machine *machine, struct value *text);
/* Changes of texts that are both filters and methods; *known as above. */
bool value_change_text(struct machine *machine, const struct value *name, struct value *text,
                       const struct arguments *arguments, bool *known);

/* The argument by position or name; NULL: it was not given. name NULL: by position only. */
const struct value *argument_get(const struct arguments *arguments, uint32_t position, const char *name);
/* The argument's truth, or `otherwise`. */
bool argument_truth(const struct arguments *arguments, uint32_t position, const char *name, bool otherwise);
/* The argument's whole number, or `otherwise`. */
int64_t argument_number(const struct arguments *arguments, uint32_t position, const char *name, int64_t otherwise);
#endif

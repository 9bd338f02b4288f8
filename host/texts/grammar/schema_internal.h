/* texts/grammar/schema_internal.h - the parts of the reader of JSON Schemas. Private to grammar_schema.c and
 * schema_*.c.
 *
 * A value is described by a list of schemas all of which it has to match. grammar_schema.c resolves references, allOf
 * and what schema_rewrite.c expresses by anyOf, then makes one expression for each choice among the alternatives of
 * anyOf and each type. What remains of a choice are keywords of one type, which are intersected: bounds by their
 * values, strings and numbers by products of expressions, items and properties by the lists of their schemas. */
#ifndef TEXTS_SCHEMA_INTERNAL_H
#define TEXTS_SCHEMA_INTERNAL_H
#include "texts/grammar/grammar.h"
#include <jansson.h>

enum {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_FRACTION = 8, /* a number that is not an integer */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_FRACTION,
    SCHEMA_ANY = 127
};
#define SCHEMA_FRACTION_NAME                                                                                           \
    "\x01"                                                                                                             \
    "fraction" /* as a type in schemas that schema_rewrite.c makes */
#define SCHEMA_BEYOND_NAME                                                                                             \
    "\x01"                                                                                                             \
    "beyond" /* as a keyword there: objects with a member that its value, a schema, does not describe */

#define SCHEMA_NOT_NEGATED "supported only in part within 'not', or where schemas of 'oneOf' overlap"

enum { SCHEMA_MAX_COUNT = 1000000 };

/* A value has to match all of these schemas. */
typedef struct schema_list {
    json_t **parts; /* [count], borrowed from the root or from reader->made */
    uint32_t count;
} schema_list;

typedef struct schema_rule {
    schema_list list; /* owned */
    uint32_t rule;
} schema_rule;

/* A keyword's value, and the schema that stands for it. */
typedef struct schema_pair {
    const char *keyword;
    const json_t *value;
    json_t *schema; /* of reader->made */
} schema_pair;

/* A regular expression and its machine. */
typedef struct schema_machine {
    char *expression; /* NULL: none */
    bool search;
    struct grammar *grammar;
} schema_machine;

enum { SCHEMA_MACHINES = 16 };

typedef struct schema_reader {
    struct grammar *grammar;
    json_t *root;
    json_t *names;      /* the schemas by their URIs; null: several have that one */
    json_t *targets;    /* what each $ref of the document means, by the address of its text; null: nothing */
    bool has_names;     /* a schema other than the root has an $id */
    json_t *made;       /* an array, which owns the schemas that were made */
    schema_rule *rules; /* [rule_count] of arrays and objects */
    schema_pair *pairs; /* [pair_count] of schema_rewrite.c */
    uint32_t rule_count, pair_count, nesting;
    uint32_t value, object; /* rules of any value and any object; made when first needed */
    bool has_value;
    grammar_node blank, character;            /* white space between words, and a character of a string */
    json_t *scalars;                          /* nodes of numbers and strings, by the text of their keywords */
    json_t *sets;                             /* texts of the values of long enums, by their addresses */
    schema_machine machines[SCHEMA_MACHINES]; /* the last ones that were needed */
    uint32_t machine_count;                   /* that were made */
    const char *left_out; /* a keyword within `not` that some values do not match, but are not generated; NULL: none */
    char *why;
    /* Functions of grammar_schema.c, which values within arrays and objects need. make_value: the values that match
     * all schemas of the list; *out has no text (grammar_is_never()) if there are none. list_values: these values if
     * they are few, of enum, const, boolean and null: a new array; NULL: they are not. */
    bool (*make_value)(struct schema_reader *reader, const schema_list *list, grammar_node *out);
    json_t *(*list_values)(struct schema_reader *reader, const schema_list *list);
} schema_reader;

/* Counts steps, see grammar_spend(). false: the limit is the reason. */
bool schema_spend(const schema_reader *reader, uint64_t steps);
/* Counts values of JSON that are made and kept, as steps and as bytes. false: as above. */
bool schema_take(const schema_reader *reader, uint64_t values);
/* Sets the reason, unless there is one; false. If the grammar has ended, its limit is the reason. */
bool schema_fail(const schema_reader *reader, const char *keyword, const char *what);
/* The schemas of a keyword that is missing do not change the list. false: out of memory. */
bool schema_add(const schema_reader *reader, schema_list *list, json_t *part);
/* Sets names and targets. false: the schemas are too many, and the reason is set. */
bool schema_find_names(schema_reader *reader);
/* Follows a JSON pointer (RFC 6901) after its '#'; NULL: to nothing. */
json_t *schema_follow(json_t *at, const char *pointer);
/* The schema that a reference refers to; NULL: there is none, and the reason is set. */
json_t *schema_resolve(const schema_reader *reader, const json_t *pointer);
/* Bits of the types that "type" permits, a name or several. */
bool schema_types(const schema_reader *reader, const json_t *type, uint32_t *out);
/* The largest of a keyword's values, or the smallest; *out is unchanged if no schema has it. */
bool schema_count(const schema_reader *reader, const schema_list *list, const char *keyword, bool largest,
                  uint32_t *out);

/* The part's `not` if it excludes only scalars, a pattern, a format or multiples, which the types take into account;
 * else NULL. */
const json_t *schema_plain_not(const json_t *part);

/* Combinations of expressions; an expression without any text is left out. */
grammar_node schema_join(const schema_reader *reader, grammar_node first, grammar_node second);
grammar_node schema_either(const schema_reader *reader, grammar_node first, grammar_node second);
grammar_node schema_words(const schema_reader *reader, const char *text);
grammar_node schema_literal(const schema_reader *reader, const json_t *value);
/* One of the values of an array; contents: of its texts, without their quotes. */
grammar_node schema_literals(const schema_reader *reader, const json_t *values, bool contents);
/* A regular expression of our own. in_json: of contents of strings. */
grammar_node schema_regex(const schema_reader *reader, const char *expression, bool in_json);
grammar_node schema_blank(const schema_reader *reader);
/* grammar_product(), or the only expression. false: the keyword is the reason. */
bool schema_product(const schema_reader *reader, const char *keyword, const grammar_node *with, uint32_t with_count,
                    const grammar_node *without, uint32_t without_count, grammar_node *out);

/* The values of one type that match the keywords of all schemas of the list. excluded: an array of values that do not
 * match. */
bool schema_numbers(const schema_reader *reader, const schema_list *list, uint32_t types, const json_t *excluded,
                    grammar_node *out);
bool schema_strings(const schema_reader *reader, const schema_list *list, const json_t *excluded, grammar_node *out);
grammar_node schema_character(const schema_reader *reader);
bool schema_arrays(schema_reader *reader, const schema_list *list, grammar_node *out);
bool schema_objects(schema_reader *reader, const schema_list *list, grammar_node *out);
grammar_node schema_any_number(const schema_reader *reader);
grammar_node schema_string_of(const schema_reader *reader, uint32_t least, uint32_t most);
/* "[" item, item ... "]", or the same with members and braces. */
grammar_node schema_list_of(const schema_reader *reader, const char *open, grammar_node item, const char *close,
                            uint32_t least, uint32_t most);
/* The regular expression of a format, or of what a text with a pattern may be; NULL: the format has no meaning here. */
const char *schema_format(const char *format, bool has_pattern);
/* The regular expression of a set that has all texts of a format; NULL: the format has no meaning here, or no set that
 * leaves out many others. */
const char *schema_format_cover(const char *format);

/* schema_rewrite.c: schemas that express these keywords by others. NULL: the reason is set. They live as long as the
 * reader. */
json_t *schema_not(schema_reader *reader, json_t *schema);
json_t *schema_one_of(schema_reader *reader, json_t *schemas);
json_t *schema_if(schema_reader *reader, json_t *schema);
json_t *schema_dependent(schema_reader *reader, json_t *dependent);

/* Whether a schema of the list describes a member or an item for `keyword`, unevaluatedProperties or unevaluatedItems,
 * of the schema `part`. describes: [list->count] whether other keywords of each schema describe it. false: the reason
 * is set. */
bool schema_described(const schema_reader *reader, const schema_list *list, json_t *part, const char *keyword,
                      const bool *describes, bool *out);

/* Whether properties or patternProperties of the schema have a name. false: the reason is set. */
bool schema_describes(schema_reader *reader, const json_t *schema, const char *name, bool *out);
/* schema_check.c: whether a value matches a schema. *out is false if not. false: the reason is set. */
bool schema_check(schema_reader *reader, json_t *schema, const json_t *value, bool *out);
void schema_machine_deinit(schema_machine *machine);
/* Whether a text matches a regular expression: all of it, or a part of it (search). false: the reason is set. */
bool schema_matches(schema_reader *reader, const char *expression, bool search, const char *text, size_t bytes,
                    bool *out);
#endif

/* serve/grammar/grammar_schema.h - JSON texts that a JSON Schema describes.
 *
 * Objects have the schema's properties in its order; those that are not required may be missing, and others are not
 * written unless there are none. Of oneOf, any alternative is written. Keywords that could not be obeyed (multipleOf,
 * uniqueItems, not, if, bounds of fractions and others) are refused, and so are those that restrict values beside $ref,
 * const, enum, anyOf, oneOf and allOf; only "type" is obeyed beside const and enum. */
#ifndef SERVE_GRAMMAR_SCHEMA_H
#define SERVE_GRAMMAR_SCHEMA_H
#include "serve/grammar/grammar.h"
#include <jansson.h>

/* Makes the empty grammar that of the schema's texts; schema NULL: any object. false: `why` names the keyword that is
 * wrong or not supported. */
bool grammar_schema(struct grammar *grammar, json_t *schema, char *why);
/* The same as an expression of a larger grammar, which has its first rule. */
bool grammar_schema_value(struct grammar *grammar, json_t *schema, grammar_node *out, char *why);
/* The white space that these texts may have between tokens: nothing, a space, or a new line with its indentation. */
grammar_node grammar_schema_blank(struct grammar *grammar);
#endif

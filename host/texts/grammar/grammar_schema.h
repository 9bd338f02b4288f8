/* texts/grammar/grammar_schema.h - JSON texts that a JSON Schema describes.
 *
 * Objects have the schema's properties in its order; those that are not required may be missing, and others are not
 * written unless a schema describes them. All items of prefixItems are written. Every keyword that restricts values is
 * obeyed or refused by name:
 * - uniqueItems is obeyed for items of enum, const or boolean, as other items would have to be remembered;
 *   minProperties up to one more than the number of named properties, for the same reason; at most four contains for
 *   one array, whose numbers of items have at most 1,000 combinations; unevaluatedItems not with contains
 * - unevaluatedItems and unevaluatedProperties not for values of enum and const; $dynamicRef and $recursiveRef never
 * - not, and oneOf whose schemas overlap, as far as the keywords within can be negated: not formats that take nearly
 *   any text, and of objects that patternProperties, propertyNames or a schema in additionalProperties exclude, only
 *   those all of whose members are excluded
 * - multipleOf up to 4096 remainders; patterns without look-behind, references to groups, and look-ahead within groups
 *   Unknown formats are annotations, as the standard has it. */
#ifndef TEXTS_GRAMMAR_SCHEMA_H
#define TEXTS_GRAMMAR_SCHEMA_H
#include "texts/grammar/grammar.h"
#include <jansson.h>

/* Makes the empty grammar that of the schema's texts; schema NULL: any object. false: `why` names the keyword that is
 * wrong or not supported. */
bool grammar_schema(struct grammar *grammar, json_t *schema, char *why);
/* The same as an expression of a larger grammar, which has its first rule. */
bool grammar_schema_value(struct grammar *grammar, json_t *schema, grammar_node *out, char *why);
/* The white space that these texts may have between tokens: nothing, a space, or a new line with its indentation. */
grammar_node grammar_schema_blank(struct grammar *grammar);
#endif

/* serve/grammar/grammar_schema.h - JSON texts that a JSON Schema describes.
 *
 * Objects have the schema's properties in its order; those that are not required may be missing, and others are not
 * written unless there are none. Of oneOf, any alternative is written. Keywords that could not be obeyed (multipleOf,
 * uniqueItems, not, if, bounds of fractions and others) are refused. */
#ifndef SERVE_GRAMMAR_SCHEMA_H
#define SERVE_GRAMMAR_SCHEMA_H
#include "serve/grammar/grammar.h"
#include <jansson.h>

/* Makes the empty grammar that of the schema's texts; schema NULL: any object. false: `why` names the keyword that is
 * wrong or not supported. */
bool grammar_schema(struct grammar *grammar, json_t *schema, char *why);
#endif

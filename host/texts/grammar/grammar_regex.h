/* texts/grammar/grammar_regex.h - regular expressions, in the syntax that JSON Schema recommends (ECMA-262 without
 * look-around and back references). */
#ifndef TEXTS_GRAMMAR_REGEX_H
#define TEXTS_GRAMMAR_REGEX_H
#include "texts/grammar/grammar.h"

/* The texts that the expression matches as a whole; search: the texts in which it matches somewhere, unless ^ and $
 * anchor it. in_json: the texts as the contents of JSON strings, in which quotes, backslashes and control characters
 * are escaped. false: `why` says where the expression is wrong or not supported. */
bool grammar_regex(struct grammar *grammar, const char *expression, bool search, bool in_json, grammar_node *out,
                   char *why);
#endif

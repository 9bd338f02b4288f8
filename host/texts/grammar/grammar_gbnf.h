/* texts/grammar/grammar_gbnf.h - grammars in GBNF, the form that llama-server reads: rules `name ::= ...` of "texts",
 * [classes], names, (groups), |, *, +, ?, {n,m} and # comments. The language is the rule `root`. */
#ifndef TEXTS_GRAMMAR_GBNF_H
#define TEXTS_GRAMMAR_GBNF_H
#include "texts/grammar/grammar.h"

/* Adds the rules of the text to the empty grammar. false: `why` says where the text is wrong. */
bool grammar_gbnf(struct grammar *grammar, const char *text, char *why);
#endif

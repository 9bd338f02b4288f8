/* explain/internal.h - what the printers share; private to this folder. */
#ifndef EXPLAIN_INTERNAL_H
#define EXPLAIN_INTERNAL_H
#include "explain/facts.h"
#include "explain/words.h"

/* The session as text of at most `columns` (0 = 100), or as JSON. all: nothing is folded or left out. */
void text_session(const facts *f, const explain_sink *sink, uint32_t columns, bool all);
void json_session(const facts *f, const explain_sink *sink, bool all);
#endif

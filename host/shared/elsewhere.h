/* shared/elsewhere.h - names of verbs and options in other tools. */
#ifndef SHARED_ELSEWHERE_H
#define SHARED_ELSEWHERE_H
#include <stdbool.h>
#include <stddef.h>

/* Whether the program or verb has the option name[bytes]. */
typedef bool (*elsewhere_has_fn)(const void *ctx, const char *name, size_t bytes);

/* What inlay calls a verb ("convert") or an option ("--batch", "-ngl") of other tools: the answer of the first row of
 * elsewhere.def that has the word, and whose options all exist by has(). NULL: no such row. has NULL: all exist. */
const char *elsewhere_answer(const char *word, elsewhere_has_fn has, const void *ctx);
#endif

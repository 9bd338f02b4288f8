/* texts/template/template.h - renders templates in the Jinja language, as the files of tokenizers have them
 * (chat_template of tokenizer_config.json), with the settings of the transformers library (trim_blocks, lstrip_blocks,
 * loop controls, no end of line at the end).
 *
 * Statements: for (several names, if, else, break, continue), if, set (also of blocks, several names and attributes of
 * namespaces), macro, call, filter, with, generation, raw. Expressions: everything but await; texts are counted in
 * characters. Functions: namespace, dict, range, raise_exception, strftime_now. template_filter.c, template_test.c and
 * template_method.c have tables of the filters, the tests and the methods. Other constructs (import, include, extends,
 * block, recursive loops) fail with a message that names them. Values cannot be changed by methods, as in transformers'
 * sandbox. */
#ifndef TEXTS_TEMPLATE_H
#define TEXTS_TEMPLATE_H
#include "inlay/status.h"
#include <jansson.h>
#include <stddef.h>

typedef struct template_variable {
    const char *name;
    json_t *value; /* An object that is the member "arguments" of another is printed as JSON, since templates differ in
                      whether they take the arguments of a tool's call as an object or as a text. */
} template_variable;

typedef struct template_tree template_tree;

/* Parses a template, which must exist as long as the tree. INLAY_UNSUPPORTED: it has a mistake, or uses an unsupported
 * construct. INLAY_LIMIT_EXCEEDED: it takes too much memory or nesting. The message begins with "line N: ". */
INLAY_NODISCARD inlay_status template_open(const char *form, template_tree **out_tree, inlay_diag *diag);
void template_close(template_tree *tree); /* NULL is a no-op */
/* Several threads may render the same tree. The caller frees *out_text. INLAY_UNSUPPORTED and INLAY_LIMIT_EXCEEDED as
 * above, also of time. INLAY_INVALID_ARGUMENT: the template called raise_exception(); the message is the
 * exception's. */
INLAY_NODISCARD inlay_status template_render(const template_tree *tree, const template_variable *variables,
                                             size_t count, char **out_text, inlay_diag *diag);
#endif

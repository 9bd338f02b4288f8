/* config/long_form.h - rewrites one key of a YAML file in the form that libcyaml needs.
 *
 * libcyaml's schemas support neither "a text or a list" nor keys that are not known beforehand, such as the options
 * of a provider. So a value that users may write in several ways,
 *
 *     providers: [openblas?, {name: reference, options: {preview: on}}]
 *
 * is rewritten in the one form of the schema. Each part stays on its line of the file (counted from the key's line),
 * so that the line numbers in libcyaml's messages are right:
 *
 *     {"providers": [{"name": "openblas?"}, {"name": "reference", "options": [{"key": "preview", "value": "on"}]}]} */
#ifndef CONFIG_LONG_FORM_H
#define CONFIG_LONG_FORM_H
#include "config/tree.h"

/* Writes the entry of a mapping as a YAML document into *out_text, to be freed by the caller. option is its number,
 * OPTION_COUNT for an unknown key. A value that cannot be rewritten is written so that the schema refuses it at its
 * place. False: out of memory. */
bool long_form(const tree_node *entry, uint32_t option, struct arena *arena, char **out_text, size_t *out_bytes);
#endif

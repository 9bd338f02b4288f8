/* config/long_form.h - one key of a YAML file, rewritten as libcyaml wants it.
 *
 * Its schemas know neither "a text or a list" nor keys that are not known beforehand, such as options of a provider.
 * So what people may write in several ways,
 *
 *     providers: [openblas?, {name: reference, options: {preview: on}}]
 *
 * gets the one form that the schema has, each part on the line that it has in the file (counted from the key's), which
 * keeps the line numbers of libcyaml's messages right:
 *
 *     {"providers": [{"name": "openblas?"}, {"name": "reference", "options": [{"key": "preview", "value": "on"}]}]} */
#ifndef CONFIG_LONG_FORM_H
#define CONFIG_LONG_FORM_H
#include "config/tree.h"

/* The entry of a mapping as a YAML document of its own in *out_text, to be freed. option is its number, OPTION_COUNT
 * for a key that there is not. What has no such form is written so that the schema refuses it at that place. false: out
 * of memory. */
bool long_form(const tree_node *entry, uint32_t option, struct arena *arena, char **out_text, size_t *out_bytes);
#endif

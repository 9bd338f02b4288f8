/* config/document.h - from the tree of a YAML file to settings, by a schema for libcyaml that options.def makes. */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H
#include "config/tree.h"

/* One call of inlay_options_set(), to come. A list is an empty text and then its items. */
typedef struct document_setting {
    const char *name;
    const char *value;
    uint32_t line;
} document_setting;

struct document {
    document_setting *settings; /* [count] */
    uint32_t count;
};

/* Reads every key under root (NULL = none) into *out_document, in the arena. Mistakes go to mistakes: unknown keys, and
 * values of a wrong shape; whether a value is right for its option is not looked at yet. The status is of memory alone.
 */
inlay_status document_read(const tree_node *root, struct arena *arena, struct mistakes *mistakes,
                           struct document *out_document);
#endif

/* config/document.h - converts the tree of a YAML file to settings, with a schema for libcyaml that is made from
 * options.def. */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H
#include "config/tree.h"

/* The arguments of one later call of inlay_options_set(). A list is an empty text followed by its items. */
typedef struct document_setting {
    const char *name;
    const char *value;
    uint32_t line;
} document_setting;

struct document {
    document_setting *settings; /* [count] */
    uint32_t count;
};

/* Reads every key under root (NULL = none) into *out_document, in the arena. Unknown keys and values of a wrong
 * shape are added to mistakes; whether a value is valid for its option is not checked here. The returned status is
 * only about memory. */
inlay_status document_read(const tree_node *root, struct arena *arena, struct mistakes *mistakes,
                           struct document *out_document);
#endif

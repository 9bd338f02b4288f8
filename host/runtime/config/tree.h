/* config/tree.h - a YAML file as a tree of scalars, lists and mappings, each with its line.
 *
 * What nobody needs in a file of settings and what makes YAML dangerous is refused: anchors, aliases, tags, several
 * documents, mappings as keys, deep nesting. What remains is bounded by the size of the text. */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H
#include "base/arena.h"
#include "inlay/inlay.h"
#include <stdbool.h>

/* Where mistakes go, each as a line "PATH:LINE: text". */
struct mistakes {
    const char *path;
    inlay_log_fn log; /* may be NULL */
    void *log_user;
    inlay_diag *diag; /* gets the first; may be NULL */
    uint32_t count;
    inlay_status status; /* of the first */
};

/* Notes a mistake; line 0 = it is about the file as a whole. All after the hundredth are only counted. Returns
 * status. */
inlay_status mistake(struct mistakes *mistakes, uint32_t line, inlay_status status, const char *format, ...)
    INLAY_PRINTF(4, 5);
/* INLAY_OUT_OF_MEMORY: "no memory to read it". */
inlay_status mistake_no_memory(struct mistakes *mistakes);

typedef enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP } tree_kind;

typedef struct tree_node tree_node;
struct tree_node {
    tree_kind kind;
    uint32_t line;    /* from 1 */
    bool missing;     /* a scalar that stands for no value: nothing, ~ or null, without quotes */
    const char *text; /* of a scalar */
    const char *key;  /* in a mapping */
    uint32_t key_line;
    tree_node *first; /* of a list or mapping: its items in order */
    tree_node *next;
};

/* Parses the text (any bytes) into *out_root, NULL for a file without content, all of it in the arena. Keys that come
 * twice in a mapping are mistakes too, and left out the second time. */
inlay_status tree_parse(const char *text, size_t bytes, struct arena *arena, struct mistakes *mistakes,
                        tree_node **out_root);
#endif

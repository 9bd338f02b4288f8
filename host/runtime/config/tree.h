/* config/tree.h - a YAML file as a tree of scalars, lists and mappings, each with its line.
 *
 * Features that settings do not need and that make YAML dangerous are refused: anchors, aliases, tags, several
 * documents, mappings as keys, deep nesting. The rest is bounded by the size of the text. */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H
#include "base/arena.h"
#include "inlay/inlay.h"
#include <stdbool.h>

/* Receivers of mistakes, each as a line "PATH:LINE: text". */
struct mistakes {
    const char *path;
    inlay_log_fn log; /* may be NULL */
    void *log_user;
    inlay_diag *diag; /* gets the first mistake; may be NULL */
    uint32_t count;
    inlay_status status; /* of the first mistake */
};

/* Reports a mistake; line 0 = about the file as a whole. Only the first hundred are logged; the others are only
 * counted. Returns status. */
inlay_status mistake(struct mistakes *mistakes, uint32_t line, inlay_status status, const char *format, ...)
    INLAY_PRINTF(4, 5);
/* INLAY_OUT_OF_MEMORY: "no memory to read it". */
inlay_status mistake_no_memory(struct mistakes *mistakes);

typedef enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP } tree_kind;

typedef struct tree_node tree_node;
struct tree_node {
    tree_kind kind;
    uint32_t line;    /* from 1 */
    bool missing;     /* a scalar without a value: empty, ~ or null, not quoted */
    const char *text; /* of a scalar */
    const char *key;  /* in a mapping */
    uint32_t key_line;
    tree_node *first; /* of a list or mapping: its items in order */
    tree_node *next;
};

/* Parses the text (any bytes) into *out_root, NULL for a file without content, all in the arena. Duplicate keys of a
 * mapping are mistakes, too, and only the first one is used. */
inlay_status tree_parse(const char *text, size_t bytes, struct arena *arena, struct mistakes *mistakes,
                        tree_node **out_root);
#endif

/* lines.h - a text as the list of its lines: labels, alphabets. */
#ifndef LINES_H
#define LINES_H
#include "inlay/kit.h"

struct lines {
    inlay_str *list; /* [count] */
    uint32_t count;
};
/* The lines of an attribute, as the last member of a state, `head` bytes from its start: all is one block of malloc,
 * and its start is zero. A missing or empty attribute has no lines, and an end of line at the end begins none. NULL: no
 * memory. */
struct lines *lines_create(const inlay_node_info *node, const char *attr, size_t head);
#endif

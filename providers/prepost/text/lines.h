/* lines.h - the lines of a text attribute: labels, alphabets, vocabularies. */
#ifndef LINES_H
#define LINES_H
#include "inlay/kit.h"

struct lines {
    inlay_str *list; /* [count] */
    uint32_t count;
};
/* Creates the lines of an attribute. They may be the last member of a state, `head` bytes from its start; the whole block
 * is allocated with calloc(), and free() of its start frees it. A missing or empty attribute has no lines; an end of
 * line at the end does not begin another one. NULL if there is no memory. */
struct lines *lines_create(const inlay_node_info *node, const char *attr, size_t head);
#endif

/* lines.h - the lines of a text attribute: labels, alphabets, vocabularies. */
#ifndef LINES_H
#define LINES_H
#include "inlay/kit_kernel.h"

struct lines {
    inlay_str *list; /* [count] */
    uint32_t count;
};
/* Creates the lines of an attribute. A state whose last member is its lines is allocated together with them: `head` is
 * the offset of that member, 0 without a state. The block is zeroed; free() of its start frees it. A missing or empty
 * attribute has no lines; an end of line at the end does not begin another line. NULL if there is no memory. */
struct lines *lines_create(const inlay_node_info *node, const char *attr, size_t head);
#endif

/* regex_parts.h - what the three files behind regex.h share: regex_parse.c makes a tree of a pattern, regex.c a program
 * of the tree, regex_match.c runs it over a text. */
#ifndef REGEX_PARTS_H
#define REGEX_PARTS_H
#include "regex.h"
#include <stdint.h>

enum { MAX_REPEAT = 1000 };
enum { NODE_EMPTY, NODE_SET, NODE_JOIN, NODE_EITHER, NODE_REPEAT, NODE_ASSERT };
enum { OP_SET, OP_SPLIT, OP_JUMP, OP_ASSERT, OP_MATCH };
enum { ASSERT_BEGIN, ASSERT_END, ASSERT_WORD, ASSERT_NO_WORD };

typedef struct range {
    uint32_t low, high;
} range;

/* ranges[first .. first + count - 1], or all but those. */
typedef struct set {
    uint32_t first, count;
    bool negated;
} set;

typedef struct node {
    uint32_t kind;
    uint32_t a, b;    /* children; of SET the set, of ASSERT which */
    int32_t min, max; /* of REPEAT; max -1 = no bound */
} node;

typedef struct op {
    uint32_t kind;
    uint32_t a, b; /* targets; of SET the set, of ASSERT which */
} op;

/* The program, and the sets that it tests characters against; all owned. */
struct regex {
    op *program;
    uint32_t program_count, program_room;
    range *ranges;
    uint32_t range_count, range_room;
    set *sets;
    uint32_t set_count, set_room;
};

/* A pattern on its way to a program: what is left of its text, and the tree so far. */
typedef struct parser {
    regex *re;
    const char *at, *end, *start;
    node *nodes; /* owned: whoever made the parser frees them */
    uint32_t node_count, node_room;
    uint32_t depth, flags;
    inlay_diag *diag;
    inlay_status status; /* the first failure; parsing goes on to its end with empty nodes */
} parser;

/* Parses all of the pattern and returns the root of its tree. p->status says whether it could be. */
uint32_t regex_parse(parser *p);

/* Notes a failure unless there was one, with the place that parsing has come to, and skips to the end. Returns 0. */
uint32_t regex_fail(parser *p, inlay_status status, const char *what);

/* Makes room for one more element of `bytes` bytes in an array: `array` is the address of the pointer to it, `count`
 * how many it holds, *room how many fit. False when memory is out; the array is then as before. */
bool regex_grow(void *array, uint32_t *room, uint32_t count, size_t bytes);

/* The code point at text, and its bytes; what is no UTF-8 is a byte above the code points. */
static inline uint32_t regex_decode(const char *text, const char *end, uint32_t *out_bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t lead = s[0], bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0x7fu >> bytes);

    *out_bytes = 1;
    if (bytes == 0 || lead > 0xf4 || (size_t)(end - text) < bytes)
        return 0x110000u + lead;
    for (uint32_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0u) != 0x80u)
            return 0x110000u + lead;
        code = code << 6 | (s[i] & 0x3fu);
    }
    *out_bytes = bytes;
    return code;
}

/* What \w and \b go by: letters and digits of ASCII, and _. */
static inline bool regex_is_word(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}
#endif

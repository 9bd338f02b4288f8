#include "report/page.h"

enum { DEEPEST = 128, PIECE = 512 };

void page_put(const char *text, void (*write)(void *user, const char *data, size_t bytes), void *user)
{
    char piece[PIECE];
    unsigned char stack[DEEPEST + 1]; /* a pair is made of those before it in the table */
    uint32_t used = 0, depth;

    for (; *text != '\0'; text++) {
        stack[0] = (unsigned char)*text;
        for (depth = 1; depth > 0;) {
            const unsigned char c = stack[--depth];

            if (c >= 0x80) {
                stack[depth++] = page_pairs[c - 0x80][1];
                stack[depth++] = page_pairs[c - 0x80][0];
                continue;
            }
            piece[used++] = (char)c;
            if (used < PIECE)
                continue;
            write(user, piece, used);
            used = 0;
        }
    }
    write(user, piece, used);
}

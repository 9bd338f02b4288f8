#include "report/page.h"

enum { DEEPEST = 128, PIECE = 512 };

static void put(const char *text, page_write write, void *user)
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

void page_head(bool scripts, page_write write, void *user)
{
    put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'",
        write, user);
    put(scripts ? "; script-src 'unsafe-inline'\" />\n<title>" : "\" />\n<title>", write, user);
}

void page_body(const char *css, page_write write, void *user)
{
    put("</title>\n<style>\n", write, user);
    put(css, write, user);
    put("</style>\n</head>\n<body>\n", write, user);
}

void page_data_begin(const char *title, const char *css, const char *body, page_write write, void *user)
{
    page_head(true, write, user);
    put(title, write, user);
    page_body(css, write, user);
    put(body, write, user);
    put("<script type=\"application/json\" id=\"facts\">\n", write, user);
}

void page_data_end(const char *js, page_write write, void *user)
{
    put("\n</script>\n<script>\n'use strict';\n(function () {\n", write, user);
    put(js, write, user);
    put("})();\n</script>\n</body>\n</html>\n", write, user);
}

/* tables/words.h - writes reports: readable numbers, names on one line, JSON.
 *
 * All output goes through the caller's write function in pieces, without buffering, so nothing here can fail. */
#ifndef TABLES_WORDS_H
#define TABLES_WORDS_H
#include "inlay/inlay.h"
#include <stdbool.h>

typedef struct explain_sink {
    inlay_write_fn write;
    void *user;
    int columns; /* of a line, for tables; 0: any number */
    bool bold;   /* titles are bold, by the sequences of a terminal */
} explain_sink;

/* printf for short pieces, at most 1023 bytes; longer texts go through say_text(). */
INLAY_PRINTF(2, 3)
void say(const explain_sink *sink, const char *format, ...);
/* Writes a text from a model or a plugin. Control characters, which terminals interpret, become '?'. */
void say_text(const explain_sink *sink, const char *text);

/* Columns of UTF-8 text: continuation bytes have none, nor have the sequences of colours, ESC [ ... m. */
int text_columns(const char *text, size_t bytes);
/* Writes the words of text[bytes] from column `at` on, which is where the cursor is. Lines that would be longer than
 * `width` (0: of any length) are continued at column `left`; a word longer than a line stays whole. */
void say_words(const explain_sink *sink, const char *text, size_t bytes, int at, int left, int width);
/* Writes a line in lines of at most sink->columns. Its leading blanks and `indent` are its indentation; continued lines
 * have a little more. */
void say_line(const explain_sink *sink, const char *line, size_t bytes, int indent);
/* An inlay_write_fn: writes to a FILE *. */
void say_to_file(void *file, const char *text, size_t bytes);

enum { FORMATTED_BYTES = 32 };
/* "0 ns", "312 ns", "12.3 us", "1.21 ms", "2.50 s", "-12.3 us". Returns text. */
const char *format_ns(double ns, char text[FORMATTED_BYTES]);
/* As format_ns(), with a sign for positive numbers, too. */
const char *format_ns_change(double ns, char text[FORMATTED_BYTES]);
/* Nanojoules as "312 nJ", "12.3 uJ", "1.21 mJ", "2.50 J". */
const char *format_joules(double nj, char text[FORMATTED_BYTES]);
/* "12 B", "12.0 KiB". */
const char *format_bytes(uint64_t bytes, char text[FORMATTED_BYTES]);
/* "node" or "nodes". */
static inline const char *plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* JSON.
 *
 *     json_out j = { .sink = sink };
 *     json_open(&j, NULL, '{', false);
 *     json_text(&j, "name", name);
 *     json_close(&j);
 *
 * Keys are NULL within arrays. Texts may contain any bytes: invalid UTF-8 becomes U+FFFD, and '<', '>', '&' are
 * escaped, so that the result can be embedded in an HTML page. */
enum { JSON_DEPTH = 128 }; /* the limit for nested graphs is far lower */
typedef struct json_out {
    const explain_sink *sink;
    uint32_t depth;
    bool filled[JSON_DEPTH]; /* the object or array at that depth is not empty */
    bool flat[JSON_DEPTH];   /* on one line */
    char closer[JSON_DEPTH];
} json_out;

/* Opens an object '{' or an array '['. flat: write it on one line. */
void json_open(json_out *json, const char *key, char kind, bool flat);
void json_close(json_out *json);
void json_text(json_out *json, const char *key, const char *text); /* NULL: null */
void json_whole(json_out *json, const char *key, uint64_t number);
void json_number(json_out *json, const char *key, double number); /* NaN and infinities: null */
void json_bool(json_out *json, const char *key, bool yes);
#endif

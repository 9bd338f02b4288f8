/* framing_cases.h - requests with every kind of framing that RFC 9112 names, and the answers of its strict reading. */
#ifndef SERVE_FRAMING_CASES_H
#define SERVE_FRAMING_CASES_H
#include <stdbool.h>
#include <stddef.h>

/* The body of the cases that have one: POST /v2/repository/index takes no other. */
#define FRAMING_BODY "{\"ready\":true}"

enum { FRAMING_ACCEPTED = 0, FRAMING_INCOMPLETE = -1 };

typedef struct framing_case {
    const char *name, *text;
    size_t bytes;
    int parser; /* the status with which the parser refuses it, or one of the values above */
    int answer; /* the status that the server answers; 0: it waits for more */
    bool keeps; /* the connection stays open, and the next request is answered */
} framing_case;

extern const framing_case framing_cases[];
extern const size_t framing_case_count;
/* The request itself: byte 1 of its text stands for 20000 letters. The caller frees it; NULL: out of memory. */
char *framing_text(const framing_case *row, size_t *out_bytes);
#endif

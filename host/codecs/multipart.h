/* codecs/multipart.h - the parts of a multipart/form-data body (RFC 7578), read in place. */
#ifndef CODECS_MULTIPART_H
#define CODECS_MULTIPART_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

enum { MULTIPART_PARTS = 64, MULTIPART_NAME = 64, MULTIPART_BOUNDARY = 70 };

typedef struct multipart_part {
    char name[MULTIPART_NAME];
    const char *data; /* [bytes] within the body */
    size_t bytes;
    bool is_file; /* it has a file's name */
} multipart_part;

struct multipart {
    multipart_part parts[MULTIPART_PARTS]; /* [count] */
    size_t count;
};

/* Reads the value of a field Content-Type. false: it is not multipart/form-data with a boundary. */
bool multipart_boundary(const char *type, char out_boundary[MULTIPART_BOUNDARY + 1]);
/* INLAY_INVALID_ARGUMENT: the body is damaged, or has more than MULTIPART_PARTS parts, or a part without a name. */
INLAY_NODISCARD inlay_status multipart_read(const char *body, size_t bytes, const char *boundary, struct multipart *out,
                                            inlay_diag *diag);
#endif

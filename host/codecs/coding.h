/* codecs/coding.h - the content codings gzip and deflate (RFC 9110, section 8.4.1), of HTTP and of gRPC. */
#ifndef CODECS_CODING_H
#define CODECS_CODING_H
#include "base/strbuf.h"

typedef enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_UNKNOWN } coding;

coding coding_find(const char *name, size_t bytes);
const char *coding_name(coding which);
/* The coding that a client prefers, of the value of Accept-Encoding or grpc-accept-encoding; NULL, or none that the
 * server has: CODING_IDENTITY. Elements may have weights (RFC 9110, section 12.4.2). */
coding coding_accepted(const char *list);
bool coding_is_accepted(const char *list, coding which);
/* Appends the coded data. false: out of memory. */
bool coding_compress(coding which, const void *data, size_t bytes, struct strbuf *to);
enum {
    CODING_MOST_RATIO = 200,     /* of the size of decoded data to the size of coded data, */
    CODING_FREE_BYTES = 8 << 20, /* beyond this size */
    CODING_DEFLATE_RATIO = 1032, /* what deflate can reach */
    CODING_PART_BYTES = 65536    /* of coding_expand() */
};

/* Decodes data, which may be several members of gzip, and passes it to take() in parts; false from take() ends it.
 * INLAY_INVALID_ARGUMENT: it is not valid, or not complete, or other data follows; INLAY_LIMIT_EXCEEDED: it is larger
 * than CODING_FREE_BYTES and CODING_MOST_RATIO allow. */
INLAY_NODISCARD inlay_status coding_expand(coding which, const void *data, size_t bytes,
                                           bool (*take)(void *user, const void *part, size_t part_bytes), void *user,
                                           inlay_diag *diag);
#endif

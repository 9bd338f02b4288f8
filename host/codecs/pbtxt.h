/* codecs/pbtxt.h - reads messages in protobuf's text format, which protobuf-c does not read.
 *
 *     name: "resnet"   max_batch_size: 8
 *     input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]   # lists, of numbers or of messages
 *
 * The message's descriptor is the table of the fields. Each value is checked: a field that the message does not have, a
 * value of another type, or a second value of a field that has one is an error with its line. */
#ifndef CODECS_PBTXT_H
#define CODECS_PBTXT_H
#include "inlay/status.h"
#include <protobuf-c/protobuf-c.h>

/* Where a field of a message was given; the first time, if it is repeated. */
typedef struct pbtxt_place {
    const void *message;
    const ProtobufCFieldDescriptor *field;
    uint32_t line;
} pbtxt_place;

/* Starts as {0}. */
struct pbtxt {
    ProtobufCMessage *message; /* owned; NULL = none */
    char *path;                /* of the file, for messages */
    pbtxt_place *places;       /* [place_count] */
    uint32_t place_count;
};

/* Reads the file as a message of that type. *out_text has to be closed, after a failure, too. */
INLAY_NODISCARD inlay_status pbtxt_read(const char *path, const ProtobufCMessageDescriptor *type,
                                        struct pbtxt *out_text, inlay_diag *diag);
/* As pbtxt_read(), from memory; path is for messages. */
INLAY_NODISCARD inlay_status pbtxt_parse(const char *text, size_t bytes, const char *path,
                                         const ProtobufCMessageDescriptor *type, struct pbtxt *out_text,
                                         inlay_diag *diag);
void pbtxt_close(struct pbtxt *text);
/* INLAY_INVALID_ARGUMENT with "PATH:LINE: FIELD: ..."; the line is that of the field in `message`, a part of
 * text->message. */
INLAY_PRINTF(5, 6)
inlay_status pbtxt_fail(const struct pbtxt *text, const void *message, const char *field, inlay_diag *diag,
                        const char *format, ...);
#endif

/* model/prescan.h - checks a file's wire format within limits and separates the payloads of tensors.
 *
 * protobuf-c copies every payload, refuses fields above 2 GiB and recurses as deep as the file demands. So protobuf-c
 * never reads the file directly. The prescan scans the file once, with an explicit stack, and writes a copy in which
 * each payload of a Tensor is replaced by a place: three numbers in the field `place`, which are the payload's field
 * number, its offset in the file and its length in bytes. The copy is small, well formed, and has a limited depth.
 *
 * Lists of an attribute are replaced in the same way after their elements have been checked.
 *
 * Old writers store repeated numbers one by one, each with a tag. A run of such elements is one place, which begins
 * with the first tag and has PRESCAN_TAGGED set in the field number. */
#ifndef MODEL_PRESCAN_H
#define MODEL_PRESCAN_H
#include "model/model.h"
#include "kit/wire.h"

#define PRESCAN_TAGGED (UINT64_C(1) << 32)

/* The outermost message. */
typedef enum prescan_root {
    PRESCAN_MODEL,
    PRESCAN_TENSOR,
    PRESCAN_SEQUENCE,
    PRESCAN_OPTIONAL,
    PRESCAN_MAP,
    PRESCAN_SPARSE
} prescan_root;

typedef struct prescan_result {
    uint8_t *bytes; /* the rewritten stream; free() it */
    size_t count;
    uint64_t node_count;   /* of all graphs and functions */
    uint64_t tensor_count; /* of all kinds */
} prescan_result;

/* limits must not contain 0 for defaults. The message of INLAY_INVALID_MODEL names the byte, the protobuf message and
 * the field, that of INLAY_LIMIT_EXCEEDED the limit. */
INLAY_NODISCARD inlay_status prescan(const void *file, size_t bytes, prescan_root root, const model_limits *limits,
                                     prescan_result *out, inlay_diag *diag);

/* Counts consecutive elements from *at (< end) on that have the same one-byte tag as the first, and moves *at after the
 * last complete one. In model/load_list.c, whose loops over lists are compiled for speed. */
uint64_t prescan_run(const uint8_t **at, const uint8_t *end, unsigned wire);

/* As wire_varint(), but without a function call in the usual case, varints of one or two bytes. */
static inline bool prescan_short(const uint8_t **at, const uint8_t *end, uint64_t *out_value)
{
    const uint8_t *byte = *at;

    if (end - byte < 2 || (byte[0] & byte[1] & 0x80) != 0)
        return wire_varint(at, end, out_value);
    *out_value = byte[0] < 0x80 ? byte[0] : (uint64_t)(byte[0] & 0x7f) | (uint64_t)byte[1] << 7;
    *at = byte + 1 + (byte[0] >= 0x80);
    return true;
}
#endif
